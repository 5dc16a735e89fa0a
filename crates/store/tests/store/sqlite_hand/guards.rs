//! Hand writes that no rule allows: each is refused with its own sentence, and changes nothing.

use switchboard_core::verb::{CreateTasks, NewTask, TRANSITIONS};

use super::desk::Desk;
use super::stage::{WORDS, stage};

/// Statements, one to a line, each with the words of the comment above it.
fn cases() -> Vec<(&'static str, &'static str)> {
    let mut sentence = "";
    let mut cases = Vec::new();
    for line in include_str!("refused.sql").lines().skip(2) {
        match line.strip_prefix("-- ") {
            Some(words) => sentence = words,
            None if line.is_empty() => {}
            None => cases.push((line, sentence)),
        }
    }
    assert!(cases.len() > 150, "only {} cases were read", cases.len());
    cases
}

/// Everything that a client or the hub could see of the file.
fn whole(desk: &Desk) -> Vec<Vec<Vec<String>>> {
    let tables = [
        "tasks",
        "agents",
        "messages",
        "leases",
        "quality_snapshots",
        "quality_baseline",
        "sb_hand",
        "sb_was",
        "sb_sql_agent",
        "sb_head",
    ];
    let rows = tables.map(|table| desk.hand.sql(&format!("SELECT * FROM {table} ORDER BY 1")));
    rows.to_vec()
}

/// What is wrong with how a statement was refused, if anything is.
fn refused(desk: &Desk, sql: &str, sentence: &str) -> Option<String> {
    let before = whole(desk);
    let outcome = desk.hand.db.execute_batch(sql);
    let said = match outcome {
        Ok(()) => return Some(format!("it was done: {sql}")),
        Err(error) => error.to_string(),
    };
    if !said.contains(sentence) {
        return Some(format!("it was refused with {said:?}: {sql}"));
    }
    (whole(desk) != before).then(|| format!("it left something behind: {sql}"))
}

#[test]
fn writes_that_no_rule_allows_are_refused() {
    let desk = stage();
    let wrong = cases().into_iter();
    let wrong: Vec<String> = wrong
        .filter_map(|(sql, sentence)| refused(&desk, sql, sentence))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_status_changes_only_as_the_table_of_transitions_says() {
    let desk = stage();
    for from in WORDS {
        for to in WORDS.iter().filter(|to| *to != from) {
            if TRANSITIONS.contains(&(from, to)) {
                continue;
            }
            let sql = format!("UPDATE tasks SET status = '{to}' WHERE id = '{from}'");
            let wrong = refused(&desk, &sql, "tasks.status: this change is not allowed");
            assert_eq!(wrong, None);
        }
    }
}

#[test]
fn an_agent_that_is_barred_from_a_task_does_not_claim_it() {
    let mut desk = stage();
    let mut task = NewTask::plain("barred", "not for bob");
    task.about.barred = vec!["bob".into()];
    let tasks = vec![task];
    desk.run(512, &[&CreateTasks { tasks }]);
    let claim = |by: &str| {
        format!("UPDATE tasks SET status = 'claimed', assigned_agent = '{by}' WHERE id = 'barred'")
    };
    let wrong = refused(&desk, &claim("bob"), "this agent may not have this task");
    assert_eq!(wrong, None);
    let set_free = "UPDATE tasks SET barred = NULL WHERE id = 'barred'";
    assert_eq!(
        refused(&desk, set_free, "tasks.barred is set by the hub"),
        None
    );
    desk.by_hand(&claim("ann"));
}

#[test]
fn with_recursive_triggers_the_same_is_refused() {
    let desk = stage();
    desk.by_hand("PRAGMA recursive_triggers = ON");
    let mut wrong = Vec::new();
    for (sql, sentence) in cases() {
        // Then SQLite itself is the first to object.
        let replaces =
            sentence.contains("REPLACE would delete") || sentence.contains("cannot be replaced");
        let sentence = if replaces {
            "UNIQUE constraint failed"
        } else {
            sentence
        };
        wrong.extend(refused(&desk, sql, sentence));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn bounds_are_met_exactly() {
    let desk = stage();
    desk.by_hand(
        "INSERT INTO tasks(id, title, description, max_retries, estimated_minutes, required_skills, created_at)
         VALUES (printf('%.128c', 'i'), printf('%.1024c', 't'), printf('%.262144c', 'd'), 100, 100000,
           json_array(printf('%.64c', 's')), '2026-01-31T23:59:59.123456+14:00');
         INSERT INTO agents(id, name, machine_hostname, pid) VALUES (printf('%.128c', 'a'), printf('%.256c', 'n'), printf('%.256c', 'h'), 4294967295);
         INSERT INTO leases(file_path, agent_id, expires_at) VALUES (printf('%.1024c', 'p'), 'ann', '9999-12-31 23:59:59');
         INSERT INTO leases(file_path, agent_id, expires_at)
           VALUES (replace(printf('%.63c', 'x'), 'x', 'x/') || 'x', 'ann', datetime('now', '+1 hour'));
         INSERT INTO messages(id, type, from_agent, payload) VALUES ('long', 'custom', 'ann', printf('%.262144c', '1'));
         UPDATE tasks SET status = 'completed', result = printf('%.262144c', 'r'), last_error = printf('%.16384c', 'e') WHERE id = 'claimed';",
    );
}

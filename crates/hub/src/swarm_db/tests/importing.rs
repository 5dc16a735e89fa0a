//! Old files.

use super::*;

const TWO_TASKS: &str = "INSERT INTO tasks(id, title) VALUES ('a', 'A'), ('b', 'B')";

#[test]
fn an_old_file_is_imported_kept_and_linked() {
    let project = Project::new();
    let old = project.old(SCHEMA);
    old.execute_batch(
        "PRAGMA journal_mode = WAL;
         INSERT INTO agents(id, name, type, skills, tasks_completed, total_runtime_minutes, last_heartbeat, registered_at)
           VALUES ('ann', 'Ann', 'claude-code', '[\"Rust\"]', 7, 1.5, '2026-01-01T10:00:00.000Z', '2026-01-01 09:00:00');
         INSERT INTO tasks(id, title, status, assigned_agent, priority, created_at) VALUES
           ('held', 'H', 'in_progress', 'ann', 'high', '2026-01-01 10:00:00'),
           ('done', 'D', 'completed', 'ann', 'low', '2026-01-01T09:00:00Z');
         INSERT INTO messages(id, type, from_agent, to_agent, payload) VALUES
           ('m', 'info.note', 'bob', 'ann', '{\"x\":1}'), ('all', 'info.note', 'bob', NULL, '{}');
         INSERT INTO leases VALUES ('src/a.rs', 'ann', NULL, NULL, '2099-01-01', 0);
         INSERT INTO quality_snapshots(id, build_success, type_errors) VALUES ('q', 1, 3);
         INSERT INTO quality_baseline VALUES (1, 1, 2, 'ann', '2026-01-01 00:00:00');
         INSERT INTO migrations(name) VALUES ('001_initial');
         INSERT INTO swarm_metadata VALUES ('mood', 'good', NULL);
         CREATE TABLE memories(x); INSERT INTO memories VALUES (1); CREATE TABLE branches(x);",
    )
    .unwrap();
    drop(old);
    let told = project.start().unwrap();
    assert_eq!(
        told.imported.as_deref(),
        Some(
            "imported 1 agent, 1 quality snapshot, 2 tasks, 1 unread message, 1 quality baseline, 1 migration, \
             1 line of metadata from .jetpack/swarm.db, kept as .jetpack/swarm.db.before-switchboard"
        )
    );
    let [past, others] = told.warnings.as_slice() else {
        panic!("{told:?}");
    };
    assert!(past.starts_with("2 messages"), "{past}");
    assert!(others.ends_with(": memories"), "{others}");
    project.is_linked();
    assert_eq!(project.kept(), ["swarm.db.before-switchboard"]);
    let tasks = "SELECT id || ' ' || status || ' ' || coalesce(assigned_agent, '-') || ' ' || rev || ' ' || created_at
                 FROM tasks WHERE number < 0 ORDER BY id";
    assert_eq!(
        project.texts(tasks),
        [
            "done completed ann 0 2026-01-01T09:00:00.000Z",
            "held ready - 0 2026-01-01T10:00:00.000Z"
        ]
    );
    let notes = "SELECT tbl || ' ' || key || ' ' || deed || ' ' || coalesce(json_extract(became, '$.status'), '') FROM sb_hand ORDER BY n";
    assert_eq!(
        project.texts(notes),
        [
            "agents ann insert offline",
            "tasks done insert completed",
            "tasks held insert ready",
            "messages m insert ",
            "quality_baseline 1 insert "
        ]
    );
    assert_eq!(
        project.numbers("SELECT runtime_ms FROM sb_former_agent"),
        90_000
    );
    assert_eq!(
        project.numbers("SELECT type_errors FROM quality_snapshots"),
        3
    );
    let schema = "SELECT value FROM swarm_metadata WHERE key = 'schema_version'";
    assert_eq!(project.texts(schema), ["1"]);
}

#[test]
fn nothing_is_doubled_or_lost_wherever_a_start_is_killed() {
    for in_place in [false, true] {
        for killed_after in 0..=3 {
            let project = if in_place {
                Project::with_ledger(".jetpack/swarm.db")
            } else {
                Project::new()
            };
            drop(project.old(&format!("PRAGMA journal_mode = WAL; {SCHEMA} {TWO_TASKS}")));
            // What a kill leaves behind is what was done, without any tidying up; only the locks are gone.
            let plan = project.swarm().plan().unwrap();
            let (mut held, link) = match plan.step {
                Action::Import(held, link) => (held, Some(link)),
                Action::Replace(held) => (held, None),
                other => panic!("{other:?}"),
            };
            if killed_after >= 1 {
                project.open();
                import(&held, &project.ledger).unwrap().unwrap();
            }
            if killed_after >= 2 {
                keep(&mut held).unwrap();
            }
            drop(held);
            if killed_after >= 3
                && let Some(link) = &link
            {
                link.settle().unwrap();
            }
            std::mem::forget(link);

            for _ in 0..2 {
                project.start().unwrap();
            }
            let case = format!("killed after {killed_after}, in place: {in_place}");
            let found = project.swarm().look();
            let wanted = if in_place {
                LinkState::Ledger
            } else {
                LinkState::Linked
            };
            assert_eq!(found, wanted, "{case}");
            assert_eq!(
                project.texts("SELECT id FROM tasks ORDER BY id"),
                ["a", "b"],
                "{case}"
            );
            assert_eq!(
                project.texts("SELECT key FROM sb_hand ORDER BY n"),
                ["a", "b"],
                "{case}"
            );
            let kept: Vec<String> = project.kept();
            let kept: Vec<&String> = kept
                .iter()
                .filter(|name| !name.ends_with("-shm") && !name.ends_with("-wal"))
                .collect();
            assert_eq!(kept, ["swarm.db.before-switchboard"], "{case}");
        }
    }
}

#[test]
fn a_file_that_was_imported_before_a_kill_is_not_read_again() {
    let project = Project::new();
    drop(project.old(&format!("{SCHEMA} {TWO_TASKS}")));
    project.open();
    let held = take(&project.path()).unwrap();
    import(&held, &project.ledger).unwrap().unwrap();
    drop(held);
    let told = project.start().unwrap();
    assert!(told.imported.unwrap().contains("was imported earlier"));
    assert!(told.warnings.is_empty());
    project.is_linked();
}

#[test]
fn a_file_that_comes_back_is_merged_and_kept_under_another_name() {
    let project = Project::new();
    drop(project.old(&format!("{SCHEMA} {TWO_TASKS}")));
    project.start().unwrap();
    fs::remove_file(project.path()).unwrap();
    let more = "INSERT INTO tasks(id, title, dependencies) VALUES ('c', 'C', '[\"a\"]')";
    drop(project.old(&format!("{SCHEMA} {TWO_TASKS}; {more}")));
    let told = project.start().unwrap();
    let line = told.imported.unwrap();
    assert!(line.starts_with("imported 1 task from"), "{line}");
    assert!(line.ends_with("swarm.db.before-switchboard-2"), "{line}");
    let [known] = told.warnings.as_slice() else {
        panic!("{:?}", told.warnings);
    };
    assert!(
        known.starts_with("2 rows") && known.ends_with(": a, b"),
        "{known}"
    );
    assert_eq!(
        project.texts("SELECT id FROM tasks ORDER BY id"),
        ["a", "b", "c"]
    );
    assert_eq!(project.numbers("SELECT count(*) FROM sb_hand"), 3);
    project.is_linked();
}

#[test]
fn rows_that_make_no_sense_are_named_and_the_others_come_along() {
    let project = Project::new();
    drop(project.old(&format!(
        "{SCHEMA}
         INSERT INTO tasks(id, title, status, created_at, dependencies, type) VALUES
           ('fine', '', 'pending', 1767261600, '', 'refactor'),
           ('lost', 'x', 'resting', datetime('now'), '[]', 'code'),
           ('when', 'x', 'ready', 'yesterday', '[]', 'code'),
           ('list', 'x', 'ready', datetime('now'), 'a,b', 'code'),
           ('two words', 'x', 'ready', datetime('now'), '[]', 'code'),
           (NULL, 'x', 'ready', datetime('now'), '[]', 'code'),
           ('needy', 'x', 'blocked', datetime('now'), '[\"fine\",\"gone\"]', 'code'),
           ('ring-1', 'x', 'blocked', datetime('now'), '[\"ring-2\"]', 'code'),
           ('ring-2', 'x', 'blocked', datetime('now'), '[\"ring-1\"]', 'code');
         INSERT INTO agents(id, name, type) VALUES ('steward', 'S', 'custom');
         INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('m', 'x.y', 'a', 'nobody');"
    )));
    let told = project.start().unwrap();
    let said = told.warnings.join("\n");
    for named in [
        "not imported: lost of tasks, because status \"resting\" is unknown",
        "not imported: when of tasks, because created_at \"yesterday\" is not a time",
        "not imported: list of tasks, because dependencies \"a,b\" is not a JSON array of texts",
        "not imported: two words of tasks, because id has spaces or control characters",
        "not imported: without an id of tasks, because it has no id",
        "not imported: steward of agents, because this id is reserved",
        "not imported: m of messages, because its recipient nobody does not exist",
        "imported with changes: needy of tasks, because it depends on gone, which does not exist; that dependency was skipped",
        "imported with changes: ring-2 of tasks, because it depends on ring-1, which depends on it; that dependency was skipped",
    ] {
        assert!(said.contains(named), "no {named:?} in\n{said}");
    }
    assert_eq!(
        project.texts("SELECT id || ' ' || dependencies FROM tasks ORDER BY id"),
        [
            "fine []",
            "needy [\"fine\"]",
            "ring-1 [\"ring-2\"]",
            "ring-2 []"
        ]
    );
    assert_eq!(
        project
            .texts("SELECT title || ' ' || created_at || ' ' || type FROM tasks WHERE id = 'fine'"),
        ["fine 2026-01-01T10:00:00.000Z custom"]
    );
    let order = project.texts("SELECT key FROM sb_hand ORDER BY n");
    assert_eq!(order, ["fine", "needy", "ring-2", "ring-1"]);
}

#[test]
fn only_so_many_rows_are_named_and_the_rest_is_counted() {
    let project = Project::new();
    let bad = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 21)
               INSERT INTO tasks(id, title, status) SELECT 'bad-' || x, 't', 'no' FROM n";
    drop(project.old(&format!("{SCHEMA} {bad}")));
    let told = project.start().unwrap();
    assert_eq!(told.warnings.len(), 21, "{told:?}");
    assert_eq!(told.warnings[20], "not imported: 1 more");
}

#[test]
fn an_empty_file_is_put_aside() {
    let project = Project::new();
    drop(project.old(""));
    let told = project.start().unwrap();
    assert!(told.imported.unwrap().starts_with("nothing was imported"));
    project.is_linked();
}

#[test]
fn an_open_transaction_refuses_the_start_and_nothing_is_changed() {
    for mode in ["WAL", "DELETE"] {
        let project = Project::new();
        let old = project.old(&format!(
            "PRAGMA journal_mode = {mode}; {SCHEMA} {TWO_TASKS}; BEGIN IMMEDIATE"
        ));
        let refused = project.start().unwrap_err();
        assert!(
            matches!(refused, Refused::InUse { .. }),
            "{mode}: {refused}"
        );
        assert!(
            refused.to_string().contains("swarm_db = false"),
            "{refused}"
        );
        assert!(!project.ledger.exists(), "{mode}");
        assert_eq!(project.swarm().look(), LinkState::Old);
        old.execute_batch("COMMIT").unwrap();
        drop(old);
        project.start().unwrap();
        project.is_linked();
    }
}

#[test]
fn what_is_no_database_or_damaged_refuses_the_start_and_stays_as_it_is() {
    let damaged = {
        let project = Project::new();
        let fill = "INSERT INTO tasks(id, title) SELECT value, hex(zeroblob(500)) FROM json_each('[1,2,3,4,5,6,7,8,9]')";
        drop(project.old(&format!("{SCHEMA} {fill}")));
        let mut bytes = fs::read(project.path()).unwrap();
        let half = bytes.len() / 2;
        bytes[half..].fill(0xa5);
        bytes
    };
    for bytes in [
        b"not a database, but long enough to be looked at".to_vec(),
        damaged,
    ] {
        let project = Project::new();
        fs::create_dir_all(project.swarm().folder()).unwrap();
        fs::write(project.path(), &bytes).unwrap();
        let refused = project.start().unwrap_err();
        assert!(matches!(refused, Refused::Damaged { .. }), "{refused}");
        assert_eq!(fs::read(project.path()).unwrap(), bytes);
        assert!(!project.ledger.exists());
        assert_eq!(project.kept(), [""; 0]);
    }
}

#[test]
fn another_ledger_in_that_place_is_refused_with_what_to_do() {
    let project = Project::new();
    let other = Project::with_ledger(".jetpack/swarm.db");
    other.open();
    fs::create_dir_all(project.swarm().folder()).unwrap();
    fs::copy(&other.ledger, project.path()).unwrap();
    let refused = project.start().unwrap_err();
    assert!(matches!(refused, Refused::IsLedger { .. }), "{refused}");
    assert!(refused.to_string().contains("[store] path"), "{refused}");
}

#[test]
fn a_ledger_takes_the_old_files_own_place_if_the_settings_say_so() {
    let project = Project::with_ledger(".jetpack/swarm.db");
    drop(project.old(&format!("{SCHEMA} {TWO_TASKS}")));
    let told = project.start().unwrap();
    assert!(told.imported.unwrap().starts_with("imported 2 tasks"));
    assert_eq!(project.swarm().look(), LinkState::Ledger);
    assert_eq!(
        project.texts("SELECT id FROM tasks ORDER BY id"),
        ["a", "b"]
    );
}

#[test]
fn where_no_link_can_be_made_an_old_file_stays_untouched() {
    let project = Project::new();
    drop(project.old(&format!("{SCHEMA} {TWO_TASKS}")));
    // A directory where the link would wait: nobody can put one there.
    fs::create_dir_all(project.swarm().folder().join("swarm.db.linking/x")).unwrap();
    let told = project.start().unwrap();
    assert!(told.warnings[0].contains("was not imported"), "{told:?}");
    assert_eq!(project.swarm().look(), LinkState::Old);
    assert_eq!(project.numbers("SELECT count(*) FROM tasks"), 0);
}

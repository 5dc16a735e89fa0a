//! Notes are taken in page by page, whoever writes in between.

use switchboard_core::Event;
use switchboard_store::conformance::{AnyVerb, register};

use super::desk::Desk;
use crate::hand::recount;

/// Claimed, changed and completed before anybody looks, with a lease that comes and goes.
const WORK: &str = "
    INSERT INTO tasks(id, title, description) VALUES ('t', 't', 'first');
    UPDATE tasks SET status = 'claimed', assigned_agent = 'ann' WHERE id = 't';
    INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('src', 'ann', 't', datetime('now', '+5 minutes'));
    UPDATE tasks SET description = 'second' WHERE id = 't';
    UPDATE agents SET last_heartbeat = CURRENT_TIMESTAMP WHERE id = 'ann';
    DELETE FROM leases WHERE file_path = 'src';
    INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src', 'bob', datetime('now', '+5 minutes'));
    REPLACE INTO agents(id, name) VALUES ('ann', 'ann the second');
    UPDATE tasks SET description = 'third', title = 'other' WHERE id = 't';
    UPDATE tasks SET status = 'completed', result = 'done' WHERE id = 't';
    INSERT INTO messages(id, type, from_agent, payload) VALUES ('m', 'custom', 'bob', '1');
    DELETE FROM agents WHERE id = 'ann';
    DELETE FROM leases WHERE file_path = 'src';";

fn kinds(desk: &Desk) -> Vec<String> {
    let log = desk.everything().log;
    log.iter()
        .map(|logged| logged.event.kind().to_owned())
        .collect()
}

#[test]
fn however_notes_are_paged_they_come_to_the_same() {
    let mut expected = None;
    for page in [100, 1, 2, 3, 5] {
        for forgets in [false, true] {
            let mut desk = Desk::new();
            desk.forgets = forgets;
            for agent in ["ann", "bob"] {
                desk.run(page, &[&register(agent, &[]) as &dyn AnyVerb]);
            }
            desk.by_hand(WORK);
            desk.run(page, &[]);
            recount(&desk, WORK);
            let said = kinds(&desk);
            assert!(
                !said.iter().any(|kind| kind == "write_undone"),
                "{page}: {said:?}"
            );
            let row = desk
                .hand
                .sql("SELECT title, description, status, result, epoch, assigned_agent FROM tasks");
            let agents = desk
                .hand
                .sql("SELECT id, name, presence, tasks_completed, inbox FROM agents ORDER BY id");
            let came_to = (said, row, agents);
            assert_eq!(
                *expected.get_or_insert(came_to.clone()),
                came_to,
                "{page} {forgets}"
            );
        }
    }
    let (said, row, _) = expected.unwrap();
    assert_eq!(
        row,
        [[
            "other",
            "third",
            "completed",
            "\"done\"",
            "Integer(1)",
            "ann"
        ]]
    );
    let changed = said.iter().filter(|kind| **kind == "task_changed").count();
    assert_eq!(changed, 2, "{said:?}");
}

#[test]
fn what_a_later_note_says_is_not_known_when_an_earlier_one_is_undone() {
    let mut desk = Desk::new();
    desk.run(9, &[&register("ann", &[]) as &dyn AnyVerb]);
    desk.by_hand("INSERT INTO tasks(id, title, description) VALUES ('t', 't', 'first')");
    desk.by_hand("UPDATE tasks SET status = 'claimed', assigned_agent = 'ann'");
    desk.run(9, &[]);
    // Who may take a task that is taken is not changed by anybody; its text is lost with the rest of the statement.
    desk.by_hand("UPDATE tasks SET estimated_minutes = 5; UPDATE tasks SET description = 'second', priority = 'low'");
    desk.run(1, &[]);
    let row = desk
        .hand
        .sql("SELECT description, priority, estimated_minutes FROM tasks");
    assert_eq!(row, [["first", "medium", "Null"]]);
    let log = desk.everything().log;
    let undone = |event: &Event| matches!(event, Event::WriteUndone { .. });
    assert_eq!(log.iter().filter(|logged| undone(&logged.event)).count(), 2);
    recount(&desk, "two undone");
}

/// How many notes each batch takes in.
fn pages(desk: &mut Desk, page: usize) -> Vec<usize> {
    let mut pages = Vec::new();
    loop {
        let (notes, ended) = desk.batch(page, &[], &mut || {});
        pages.push(notes);
        if ended.is_some() {
            return pages;
        }
    }
}

#[test]
fn large_notes_come_in_small_pages() {
    let mut desk = Desk::new();
    desk.by_hand(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
         INSERT INTO tasks(id, title, description) SELECT 't' || i, 't', printf('%.250000c', 'd') FROM n",
    );
    let pages = pages(&mut desk, 512);
    assert!(
        pages.len() > 2 && pages.iter().all(|page| *page < 60),
        "{pages:?}"
    );
    assert_eq!(pages.iter().sum::<usize>(), 100);
    recount(&desk, "100 large tasks");
}

#[test]
fn many_notes_of_one_row_are_taken_in() {
    let mut desk = Desk::new();
    desk.by_hand("INSERT INTO tasks(id, title, description) VALUES ('t', 't0', 'why')");
    desk.by_hand("BEGIN");
    for at in 1..=3000 {
        desk.by_hand(&format!("UPDATE tasks SET title = 't{at}'"));
    }
    desk.by_hand("COMMIT");
    desk.run(512, &[]);
    assert_eq!(
        desk.hand.sql("SELECT title, description FROM tasks"),
        [["t3000", "why"]]
    );
    let seen = recount(&desk, "3000 changes");
    assert_eq!(seen.log.len(), 3001);
}

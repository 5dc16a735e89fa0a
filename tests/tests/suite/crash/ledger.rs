//! The file itself: whole, and its counters true.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use switchboard_tests::{Client, until};

use super::history::History;

/// The counters that `/status` shows are what is in the tables, at one and the same moment.
pub fn counters_are_true(client: &mut Client, file: &Path) {
    let counters = |status: &Value| {
        let picked = ["tasks", "leases", "messages", "events"].map(|name| status[name].clone());
        (picked, status["idempotency"]["rows"].clone())
    };
    let (status, counted) = until("nothing changes while the tables are counted", || {
        let before = client.status();
        let counted = count(&open(file));
        let after = client.status();
        (counters(&before) == counters(&after)).then_some((after, counted))
    });
    for (name, shown) in status["tasks"].as_object().expect("tasks by status") {
        let real = counted.tasks.get(name).copied().unwrap_or_default();
        let real = if name == "total" {
            counted.tasks.values().sum()
        } else {
            real
        };
        assert_eq!(*shown, json!(real), "tasks {name}");
    }
    assert_eq!(status["leases"], json!(counted.leases), "leases");
    assert_eq!(
        status["messages"]["queued"],
        json!(counted.queued),
        "messages"
    );
    assert_eq!(
        status["idempotency"]["rows"],
        json!(counted.answers),
        "remembered answers"
    );
    assert_eq!(status["events"]["latest"], json!(counted.latest), "events");
}

/// The whole file holds together, after the hub has gone.
pub fn is_whole(file: &Path, history: &History) {
    let db = open(file);
    let verdict: String = one(
        &db,
        "SELECT group_concat(integrity_check, '; ') FROM pragma_integrity_check",
    );
    assert_eq!(verdict, "ok");
    let gaps: i64 = one(
        &db,
        "SELECT count(*) FROM (SELECT first, lag(last, 1, 0) OVER (ORDER BY first) AS before FROM sb_log)
         WHERE first <> before + 1",
    );
    assert_eq!(gaps, 0, "gaps in the log");
    let latest: i64 = one(&db, "SELECT seq FROM sb_head");
    assert!(latest as u64 >= history.latest, "the log got shorter");
    // The queues that claims are chosen from.
    let (ready, held): (i64, i64) = db
        .query_row(
            "SELECT coalesce(sum(ready), 0), coalesce(sum(held), 0) FROM sb_lane",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("the lanes can be read");
    let of = |list: &str| {
        one::<i64>(
            &db,
            &format!("SELECT count(*) FROM tasks WHERE status IN ({list})"),
        )
    };
    assert_eq!(ready, of("'ready'"), "tasks in the queues");
    assert_eq!(held, of("'claimed', 'in_progress'"), "tasks in hands");
    let attempts: i64 = one(&db, "SELECT count(*) FROM sb_attempt");
    assert!(
        attempts >= i64::try_from(history.completed.len()).unwrap_or(i64::MAX),
        "attempts are missing"
    );
}

struct Counted {
    tasks: BTreeMap<String, i64>,
    leases: i64,
    queued: i64,
    answers: i64,
    latest: i64,
}

fn count(db: &Connection) -> Counted {
    // One read transaction: one moment.
    db.execute_batch("BEGIN").expect("a read can begin");
    let mut by_status = db
        .prepare("SELECT status, count(*) FROM tasks GROUP BY status")
        .expect("tasks can be counted");
    let tasks = by_status
        .query_map([], |row| {
            Ok((camel(&row.get::<_, String>(0)?), row.get(1)?))
        })
        .and_then(Iterator::collect)
        .expect("tasks can be counted");
    Counted {
        tasks,
        leases: one(db, "SELECT count(*) FROM leases"),
        queued: one(
            db,
            "SELECT count(*) FROM sb_delivery WHERE state = 'queued'",
        ),
        answers: one(db, "SELECT count(*) FROM sb_answer"),
        latest: one(db, "SELECT coalesce(max(last), 0) FROM sb_log"),
    }
}

fn one<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> T {
    let found = db.query_row(sql, [], |row| row.get(0));
    found.unwrap_or_else(|error| panic!("{error}: {sql}"))
}

fn open(file: &Path) -> Connection {
    let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    db.expect("the file can be opened")
}

/// `in_progress` as the status shows it: `inProgress`.
fn camel(word: &str) -> String {
    let mut parts = word.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut all, part| {
        let (head, tail) = part.split_at(1);
        all.push_str(&head.to_ascii_uppercase());
        all.push_str(tail);
        all
    })
}

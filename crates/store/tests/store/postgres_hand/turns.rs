//! Hands take turns with hubs: nobody takes what another has, nothing that waits is lost, and nobody holds up the others.

use std::sync::mpsc::channel;
use std::time::Instant;

use switchboard_store::postgres::{Address, PostgresEngine};
use switchboard_store::{Engine, Tail};

use super::desk::{DEADLINE, Desk, Hand, Room, said};

/// The document's claim, bound as PostgreSQL binds.
const CLAIM: &str = "
UPDATE tasks
SET status = 'claimed',
    assigned_agent = $1,
    claimed_at = CURRENT_TIMESTAMP
WHERE id = (
  SELECT id FROM tasks
  WHERE status = 'ready'
    AND (required_skills IS NULL OR $2 LIKE '%' || required_skills || '%')
    AND id NOT IN ($3)
    -- Check dependencies are complete
    AND NOT EXISTS (
      SELECT 1 FROM json_each(dependencies) AS dep
      WHERE dep.value IN (
        SELECT id FROM tasks WHERE status != 'completed'
      )
    )
  ORDER BY
    CASE priority
      WHEN 'critical' THEN 0
      WHEN 'high' THEN 1
      WHEN 'medium' THEN 2
      WHEN 'low' THEN 3
    END,
    created_at ASC
  LIMIT 1
)
RETURNING *;
";

/// One that looks at each task again after it has waited.
const CLAIM_AGAIN: &str = "
UPDATE tasks SET status = 'claimed', assigned_agent = $1, epoch = epoch + 1, claimed_at = now()
WHERE id = (
  SELECT id FROM tasks WHERE status = 'ready' AND $2 LIKE '%' || required_skills || '%' AND id NOT IN ($3)
  ORDER BY CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 WHEN 'low' THEN 3 END, created_at
  LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING *";

const WAITS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
  AND wait_event = 'advisory'";

fn claim(hand: &Hand, sql: &str, agent: &str) -> Result<Option<(String, i64)>, String> {
    let none = "";
    let rows = hand
        .runtime
        .block_on(hand.client.query(sql, &[&agent, &"[]", &none]));
    let rows = rows.map_err(|error| said(&error))?;
    Ok(rows.first().map(|row| (row.get("id"), row.get("epoch"))))
}

#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to be");
    }
}

fn two_tasks(room: &Room) -> Desk {
    let mut desk = room.desk();
    desk.hand.sql(
        "INSERT INTO agents(id, name) VALUES ('ann', 'Ann'), ('bob', 'Bob');
         INSERT INTO tasks(id, title, status, created_at) VALUES ('t1', 't', 'ready', '2026-01-01 10:00:00');
         INSERT INTO tasks(id, title, status) VALUES ('t2', 't', 'ready')",
    );
    desk.run(100, &[]);
    desk
}

#[test]
fn a_claim_that_waited_never_takes_what_somebody_took_meanwhile() {
    let Some(room) = Room::new("claims that wait") else {
        return;
    };
    for (sql, expected) in [
        (
            CLAIM,
            Err("40001: task t1 was taken by ann meanwhile; claim again".to_owned()),
        ),
        (CLAIM_AGAIN, Ok(Some(("t2".to_owned(), 1)))),
    ] {
        let mut desk = two_tasks(&room);
        let watch = Hand::new(&desk.hand.url);
        desk.hand.sql("BEGIN");
        let taken = claim(&desk.hand, CLAIM, "ann");
        assert_eq!(taken, Ok(Some(("t1".to_owned(), 0))), "the epoch of before");
        let url = desk.hand.url.clone();
        let other = std::thread::spawn(move || claim(&Hand::new(&url), sql, "bob"));
        // It has chosen t1, which is still free for it.
        until(|| watch.one(WAITS) != "0");
        desk.hand.sql("COMMIT");
        assert_eq!(other.join().unwrap(), expected);
        desk.run(100, &[]);
        let found = desk.hand.sql(
            "SELECT id, assigned_agent, epoch FROM tasks WHERE status = 'claimed' ORDER BY id",
        );
        assert_eq!(found[0], ["t1", "ann", "1"]);
        assert_eq!(found.len(), 1 + usize::from(expected.is_ok()));
        // Nobody is kept from trying again.
        assert!(claim(&desk.hand, CLAIM, "bob").is_ok());
    }
}

#[test]
fn what_waits_while_its_row_is_taken_in_still_finds_it() {
    let Some(room) = Room::new("rows that are taken in") else {
        return;
    };
    let mut desk = room.desk();
    desk.hand.sql(
        "INSERT INTO agents(id, name) VALUES ('ann', 'Ann');
         INSERT INTO tasks(id, title, status) VALUES ('t', 't', 'ready');
         UPDATE tasks SET status = 'claimed', assigned_agent = 'ann' WHERE id = 't';
         INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('m', 'custom', 'eve', 'ann')",
    );
    let writes = [
        "UPDATE tasks SET status = 'completed', result = 'done' WHERE id = 't' AND assigned_agent = 'ann' AND epoch = 1 RETURNING id",
        "UPDATE messages SET delivered_at = now() WHERE id = 'm' RETURNING id",
        "UPDATE agents SET status = 'error', last_heartbeat = now() WHERE id = 'ann' RETURNING id",
    ];
    let url = desk.hand.url.clone();
    let (tell, told) = channel();
    let (_, ended) = desk.batch(100, &[], &mut || {
        for sql in writes {
            let (hand, tell) = (Hand::new(&url), tell.clone());
            std::thread::spawn(move || tell.send((sql, hand.sql(sql).len())));
        }
        let watch = Hand::new(&url);
        until(|| watch.one(WAITS) == writes.len().to_string());
    });
    assert!(ended.is_some(), "one batch for all");
    for _ in writes {
        let (sql, rows) = told.recv_timeout(DEADLINE).unwrap();
        assert_eq!(rows, 1, "{sql}");
    }
    desk.run(100, &[]);
    assert_eq!(desk.hand.one("SELECT status FROM tasks"), "completed");
    assert_ne!(desk.hand.one("SELECT delivered_at FROM messages"), "NULL");
    assert_eq!(desk.hand.one("SELECT status FROM agents"), "error");
}

#[test]
fn a_transaction_that_idles_or_goes_on_for_too_long_loses_its_turn() {
    let Some(room) = Room::new("transactions that idle") else {
        return;
    };
    let mut desk = two_tasks(&room);
    // It idles: its connection is gone, and what it wrote.
    let idle = Hand::new(&desk.hand.url);
    idle.sql("BEGIN; UPDATE tasks SET title = 'idle' WHERE id = 't1'");
    desk.run(100, &[]);
    until(|| idle.client.is_closed() || idle.try_sql("SELECT 1").is_err());
    // It is busy with something else.
    let busy = Hand::new(&desk.hand.url);
    busy.sql("BEGIN; UPDATE tasks SET title = 'busy' WHERE id = 't1'");
    let sleeps =
        std::thread::spawn(move || said(&busy.try_sql("SELECT pg_sleep(3600)").unwrap_err()));
    desk.run(100, &[]);
    assert!(
        sleeps.join().unwrap().starts_with("57014"),
        "a statement's time"
    );
    // It writes on and on.
    let long = Hand::new(&desk.hand.url);
    long.sql("BEGIN");
    let refused = loop {
        match long.try_sql("UPDATE tasks SET title = 'long' WHERE id = 't1'") {
            Ok(_) => {}
            Err(error) => break said(&error),
        }
    };
    assert!(
        refused.contains("write less in one transaction"),
        "{refused}"
    );
    desk.run(100, &[]);
    assert_eq!(
        desk.hand.one("SELECT title FROM tasks WHERE id = 't1'"),
        "t"
    );
}

#[test]
fn a_hand_write_ends_the_wait_for_news_with_and_without_notifications() {
    let Some(room) = Room::new("word of a hand write") else {
        return;
    };
    let url = &room.database.url;
    drop(PostgresEngine::open(Address::parse(url).unwrap()).unwrap());
    let tail = |url: &str| -> Box<dyn Tail> {
        let engine = PostgresEngine::open(Address::parse(url).unwrap()).unwrap();
        engine.tail().unwrap().unwrap()
    };
    let mut tails = [tail(url), tail(&format!("{url}?notify=off"))];
    for tail in &mut tails {
        tail.wait().unwrap();
        assert!(!tail.is_by_hand());
    }
    let hand = Hand::new(url);
    // What touches no row is no news, and leaves nothing behind.
    hand.sql("UPDATE tasks SET status = 'claimed' WHERE id = 'none'; DELETE FROM agents");
    assert_eq!(hand.one("SELECT by_hand FROM sb_head"), "0");
    hand.sql("INSERT INTO agents(id, name) VALUES ('ann', 'Ann')");
    for tail in &mut tails {
        until(|| {
            tail.wait().unwrap();
            tail.is_by_hand()
        });
    }
    assert_eq!(
        hand.one("SELECT schema_floor FROM sb_head"),
        "20",
        "older builds, which do not find the keys of agents that signed off, stay away"
    );
}

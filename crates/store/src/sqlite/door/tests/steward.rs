//! What only a steward may: a session that serves somebody else refuses it, the file itself does not.

use rusqlite::config::DbConfig;
use switchboard_core::verb::{TRANSITIONS, is_stewards};

use super::*;

const SENTENCE: &str = "sql:steward";

/// One task in every status, one agent, a baseline.
fn stage(world: &World) -> Connection {
    let db = Connection::open(world.door.condition.path()).unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    db.execute(
        "INSERT INTO agents(id, name, rev) VALUES ('ann', 'ann', 1)",
        [],
    )
    .unwrap();
    db.execute(
        "INSERT INTO agents(id, name, rev, presence) VALUES ('gone', 'gone', 1, 'gone')",
        [],
    )
    .unwrap();
    // The hub has not taken it in, and may never.
    db.execute("INSERT INTO agents(id, name) VALUES ('Steward', 'x')", [])
        .unwrap();
    db.execute("INSERT INTO quality_baseline(id) VALUES (1)", [])
        .unwrap();
    let mut statuses: Vec<&str> = TRANSITIONS.iter().map(|(from, _)| *from).collect();
    statuses.dedup();
    for (status, at) in statuses.into_iter().zip(1_i64..) {
        db.execute(
            "INSERT INTO tasks(id, title, status, assigned_agent, rev, number) VALUES (?1, 't', ?1,
               CASE WHEN ?1 IN ('claimed', 'in_progress') THEN 'ann' END, 1, ?2)",
            rusqlite::params![status, at],
        )
        .unwrap();
    }
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)
        .unwrap();
    db
}

/// Whether it would be refused for the want of a steward; nothing is left of it.
#[track_caller]
fn wants_steward(session: &mut Session, rank: Rank, sql: &str) -> bool {
    session.serve(rank);
    ok(session, "BEGIN IMMEDIATE");
    let ran = run(session, sql);
    run(session, "ROLLBACK").unwrap();
    match ran {
        Ok(_) => false,
        Err(refused) => {
            assert_eq!(refused.code, "SQLITE_CONSTRAINT", "{sql}: {refused}");
            assert!(refused.message.contains(SENTENCE), "{sql}: {refused}");
            true
        }
    }
}

#[test]
fn a_status_that_only_a_steward_gives() {
    let world = world();
    let _file = stage(&world);
    let mut session = world.door.open().unwrap();
    for (from, to) in TRANSITIONS {
        let sql = format!(
            "UPDATE tasks SET status = '{to}', assigned_agent = CASE WHEN '{to}' IN ('claimed', 'in_progress')
               AND '{from}' NOT IN ('blocked', 'pending_retry') THEN 'ann' END WHERE id = '{from}'"
        );
        let only_steward = wants_steward(&mut session, Rank::Agent, &sql);
        assert_eq!(only_steward, is_stewards(from, to), "{from} -> {to}");
        assert!(!wants_steward(&mut session, Rank::Steward, &sql), "{sql}");
    }
}

#[test]
fn other_writes_that_are_only_a_stewards() {
    let world = world();
    let file = stage(&world);
    let mut session = world.door.open().unwrap();
    let message = "INSERT INTO messages(id, type, from_agent, to_agent)";
    let stewards = [
        "DELETE FROM tasks WHERE id = 'ready'",
        "UPDATE tasks SET title = 'other' WHERE id = 'ready'",
        "UPDATE tasks SET description = 'other', status = 'claimed', assigned_agent = 'ann' WHERE id = 'ready'",
        "UPDATE tasks SET max_retries = 9, priority = 'low' WHERE id = 'claimed'",
        "UPDATE tasks SET audience = '[\"ann\"]' WHERE id = 'ready'",
        "UPDATE OR IGNORE tasks SET status = 'canceled' WHERE id = 'ready'",
        "INSERT OR REPLACE INTO quality_baseline(id, tests_passing) VALUES (1, 5)",
        "INSERT INTO quality_baseline(id) VALUES (1) ON CONFLICT(id) DO UPDATE SET tests_passing = 5",
        "INSERT OR IGNORE INTO quality_baseline(id) VALUES (1)",
        "UPDATE quality_baseline SET tests_passing = 5",
        "DELETE FROM quality_baseline",
        &format!("{message} VALUES ('m', 'custom', 'steward', 'ann')"),
        &format!("{message} VALUES ('m', 'custom', 'bob', 'ann')"),
        &format!("{message} VALUES ('m', 'custom', 'gone', 'ann')"),
        "DELETE FROM agents WHERE id = 'Steward'",
        &format!("{message} VALUES ('m', 'custom', 'ANN', NULL)"),
    ];
    let anyones = [
        "UPDATE tasks SET title = title, status = 'claimed', assigned_agent = 'ann' WHERE id = 'ready'",
        "UPDATE tasks SET status = 'completed', result = '{}' WHERE id = 'claimed'",
        "INSERT INTO tasks(id, title) VALUES ('new', 'new')",
        "INSERT INTO quality_snapshots(id) VALUES ('s')",
        "DELETE FROM agents WHERE id = 'ann'",
        &format!("{message} VALUES ('m', 'custom', 'ann', 'gone')"),
    ];
    for sql in stewards {
        assert!(wants_steward(&mut session, Rank::Agent, sql), "{sql}");
        assert!(!wants_steward(&mut session, Rank::Steward, sql), "{sql}");
    }
    for sql in anyones {
        assert!(!wants_steward(&mut session, Rank::Agent, sql), "{sql}");
    }
    // Whoever has the file is the steward.
    for sql in stewards {
        file.execute_batch(&format!("BEGIN IMMEDIATE; {sql}; ROLLBACK"))
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[test]
fn a_session_forgets_whom_it_served() {
    let world = world();
    let _file = stage(&world);
    let mut session = world.door.open().unwrap();
    let cancel = "UPDATE tasks SET status = 'canceled' WHERE id = 'ready'";
    refused(&mut session, cancel, "SQLITE_CONSTRAINT", SENTENCE);
    session.serve(Rank::Steward);
    session.reset();
    refused(&mut session, cancel, "SQLITE_CONSTRAINT", SENTENCE);
    session.serve(Rank::Steward);
    ok(&mut session, cancel);
}

#[test]
fn nobody_makes_itself_a_steward() {
    let world = world();
    let file = stage(&world);
    let mut session = world.door.open().unwrap();
    for sql in [
        "DROP TRIGGER sb_steward_status",
        "DROP TRIGGER temp.\u{feff}sb_steward_status",
        "SELECT sb_is_steward()",
        "SELECT * FROM sqlite_temp_master",
        "DELETE FROM sqlite_temp_schema",
        "CREATE TEMP TRIGGER x BEFORE UPDATE ON tasks BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TEMP TABLE tasks (id)",
        "PRAGMA temp_store = FILE; DELETE FROM quality_baseline",
    ] {
        assert!(run(&mut session, sql).is_err(), "{sql}");
    }
    // What would have a connection lose its own triggers, or read the schema anew.
    ok(&mut session, "PRAGMA temp_store = FILE");
    file.execute_batch("CREATE INDEX idx_new ON tasks(title)")
        .unwrap();
    let cancel = "UPDATE tasks SET status = 'canceled' WHERE id = 'ready'";
    refused(&mut session, cancel, "SQLITE_CONSTRAINT", SENTENCE);
}

//! What strangers can do with a ledger, and what they cannot, on a file of its own.

mod bounds;
mod fuzz;
mod steward;

use std::time::{Duration, Instant};

use switchboard_core::Slice;
use tempfile::TempDir;

use super::*;
use crate::sqlite::SqliteEngine;
use crate::{Engine as _, SystemClock};

struct World {
    engine: SqliteEngine,
    door: Door,
    _home: TempDir,
}

fn world() -> World {
    let home = tempfile::tempdir().unwrap();
    let engine =
        SqliteEngine::open(&home.path().join("x.db"), Box::new(SystemClock::new())).unwrap();
    let door = engine.door().unwrap();
    World {
        engine,
        door,
        _home: home,
    }
}

fn plenty() -> Allowance {
    Allowance {
        rows: 100,
        bytes: 1024 * 1024,
        until: Instant::now() + Duration::from_secs(600),
    }
}

fn run(session: &mut Session, sql: &str) -> Result<Rows, Refused> {
    let query = Query {
        sql,
        want_rows: true,
        ..Query::default()
    };
    session.execute(&query, &plenty())
}

#[track_caller]
fn ok(session: &mut Session, sql: &str) -> Rows {
    run(session, sql).unwrap_or_else(|refused| panic!("{sql}: {refused}"))
}

#[track_caller]
fn number(session: &mut Session, sql: &str) -> i64 {
    match ok(session, sql).rows[0][0] {
        Value::Integer(number) => number,
        ref other => panic!("{sql}: {other:?}"),
    }
}

#[track_caller]
fn refused(session: &mut Session, sql: &str, code: &str, words: &str) {
    let refused = run(session, sql).expect_err(sql);
    assert_eq!(refused.code, code, "{sql}: {refused}");
    assert!(refused.message.contains(words), "{sql}: {refused}");
}

const METADATA: &str = "INSERT INTO swarm_metadata(key, value) VALUES (?, 'v')";

#[test]
fn the_public_tables_can_be_read_and_written() {
    let world = world();
    let mut session = world.door.open().unwrap();
    let query = Query {
        sql: METADATA,
        args: &[Value::Text("a".into())],
        want_rows: true,
        ..Query::default()
    };
    let made = session.execute(&query, &plenty()).unwrap();
    assert_eq!((made.affected, made.rows.len()), (1, 0));
    let read = ok(
        &mut session,
        "SELECT key, value, 1.5, x'01', NULL FROM swarm_metadata WHERE key = 'a'",
    );
    assert_eq!(read.columns[0].name, "key");
    assert_eq!(read.columns[0].decltype.as_deref(), Some("TEXT"));
    assert_eq!(read.columns[2].decltype, None);
    let row = vec![
        Value::Text("a".into()),
        Value::Text("v".into()),
        Value::Real(1.5),
        Value::Blob(vec![1]),
        Value::Null,
    ];
    assert_eq!(read.rows, vec![row]);
    assert_eq!(read.affected, 0, "reading after writing changes nothing");
    let returned = ok(
        &mut session,
        "UPDATE swarm_metadata SET value = 'w' WHERE key = 'a' RETURNING value",
    );
    assert_eq!((returned.affected, returned.rows.len()), (1, 1));
    assert!(session.is_autocommit() && !session.has_turn());
    for table in [
        "tasks",
        "agents",
        "messages",
        "leases",
        "quality_snapshots",
        "quality_baseline",
        "migrations",
    ] {
        ok(
            &mut session,
            &format!("SELECT count(*), max(rowid) FROM {table}"),
        );
        ok(&mut session, &format!("DELETE FROM {table} WHERE 0"));
    }
}

#[test]
fn arguments_are_given_by_place_or_by_name_with_its_sign_or_without() {
    let world = world();
    let mut session = world.door.open().unwrap();
    let named = [
        (":a".to_owned(), Value::Integer(1)),
        ("b".to_owned(), Value::Integer(2)),
        ("$c".to_owned(), Value::Integer(3)),
    ];
    let query = Query {
        sql: "SELECT :a * 100 + @b * 10 + $c",
        named: &named,
        want_rows: true,
        ..Query::default()
    };
    assert_eq!(
        session.execute(&query, &plenty()).unwrap().rows,
        vec![vec![Value::Integer(123)]]
    );
    let unknown = Query {
        sql: "SELECT 1",
        named: &named[..1],
        ..Query::default()
    };
    assert_eq!(
        session.execute(&unknown, &plenty()).unwrap_err().code,
        "SQLITE_RANGE"
    );
    let many = Query {
        sql: "SELECT ?",
        args: &[Value::Null, Value::Null],
        ..Query::default()
    };
    assert_eq!(
        session.execute(&many, &plenty()).unwrap_err().code,
        "SQLITE_RANGE"
    );
}

#[test]
fn a_statement_is_described_without_being_done() {
    let world = world();
    let mut session = world.door.open().unwrap();
    let until = plenty().until;
    let described = session
        .describe(
            "DELETE FROM tasks WHERE id = :id OR id = ? RETURNING id, title",
            until,
        )
        .unwrap();
    assert_eq!(described.parameters, [Some(":id".to_owned()), None]);
    assert_eq!(described.columns.len(), 2);
    assert!(!described.is_readonly && !described.is_explain);
    assert!(
        session
            .describe("EXPLAIN SELECT 1", until)
            .unwrap()
            .is_explain
    );
    assert!(session.describe("SELECT 1", until).unwrap().is_readonly);
    assert!(session.describe("  -- nothing", until).is_err());
    assert!(session.describe("SELECT * FROM sb_token", until).is_err());
    assert!(!session.has_turn());
}

#[test]
fn what_clients_do_at_their_start_is_answered_as_done() {
    let world = world();
    let mut session = world.door.open().unwrap();
    for sql in [
        "CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, title TEXT)",
        "CREATE INDEX IF NOT EXISTS idx_tasks_status ON tasks(status)",
        "CREATE INDEX IF NOT EXISTS idx_agents_status ON agents(status)",
        "CREATE TRIGGER IF NOT EXISTS tasks_updated_at AFTER UPDATE ON tasks BEGIN UPDATE tasks SET updated_at = 'x' WHERE id = NEW.id; END",
        "PRAGMA journal_mode = WAL",
        "PRAGMA busy_timeout = 5000",
        "PRAGMA foreign_keys = ON",
        "PRAGMA foreign_keys=off",
        "PRAGMA synchronous = OFF",
        "PRAGMA table_info(tasks)",
        "SELECT name FROM pragma_table_info('tasks')",
        "SELECT name FROM sqlite_master WHERE type = 'table'",
        "PRAGMA user_version",
        "-- nothing but a comment",
        "",
        ";;",
    ] {
        ok(&mut session, sql);
    }
    assert_eq!(
        number(&mut session, "PRAGMA foreign_keys"),
        0,
        "nothing was set"
    );
    assert_eq!(number(&mut session, "PRAGMA synchronous"), 2);
    let until = plenty().until;
    session
        .sequence(
            "SELECT 1; INSERT INTO migrations(name) VALUES ('a'); SELECT 2;",
            until,
        )
        .unwrap();
    assert_eq!(number(&mut session, "SELECT count(*) FROM migrations"), 1);
    assert!(
        session
            .sequence(
                "INSERT INTO migrations(name) VALUES ('b'); SELECT nothing;",
                until
            )
            .is_err()
    );
    assert_eq!(number(&mut session, "SELECT count(*) FROM migrations"), 2);
}

/// Each with what is to be said about it.
#[rustfmt::skip]
const FORBIDDEN: &[(&str, &str)] = &[
    ("SELECT * FROM sb_token", "sb_"),
    ("SELECT hash FROM main.\"SB_TOKEN\"", "sb_"),
    ("WITH sb_tasks_hand AS (SELECT * FROM [sb_token]) SELECT * FROM sb_tasks_hand", "sb_"),
    ("SELECT * FROM (SELECT * FROM 'sb_token') AS sb_x", "sb_"),
    ("DELETE FROM sb_head", "sb_"),
    // What SQLite skips where a word begins, and takes for a part of it elsewhere.
    ("WITH \u{feff}sb_x AS (SELECT * FROM \u{feff}sb_token) SELECT * FROM \u{feff}sb_x", "sb_token is not"),
    ("WITH \u{feff}sb_x AS (SELECT 'a' GLOB 'a') SELECT * FROM \u{feff}sb_x", "glob"),
    ("WITH \u{feff}sb_tasks_insert AS (SELECT * FROM \u{feff}sb_token) SELECT * FROM \u{feff}sb_tasks_insert", "argument"),
    ("WITH \u{feff}\"sb_tasks_insert\" AS (SELECT glob('a', 'a')) SELECT * FROM [sb_tasks_insert]", "argument"),
    ("WITH sb_tasks AS (SELECT * FROM sb_log) SELECT * FROM sb_tasks", "sb_log is not"),
    ("WITH SB_TASKS_INSERT AS (SELECT * FROM sb_log) SELECT * FROM SB_TASKS_INSERT", "sb_log is not"),
    ("SELECT ?1sb_x FROM sb_token", "sb_token is not"),
    ("SELECT '' AS a\u{feff}sb_steward_sends FROM tasks", "argument"),
    ("SELECT sb_is_steward()", "sb_is_steward"),
    ("SELECT unhex('00', '')", "unhex"),
    ("UPDATE tasks SET rev = 5", "tasks.rev"),
    ("UPDATE agents SET key_generation = 0", "agents.key_generation"),
    ("INSERT INTO agents(id, name) VALUES ('a', 'a') ON CONFLICT(id) DO UPDATE SET presence = 'live'", "presence"),
    ("ATTACH 'other.db' AS other", "ATTACH"),
    ("ATTACH ':memory:' AS other", "ATTACH"),
    ("DETACH main", "ATTACH"),
    ("VACUUM", "VACUUM"),
    ("VACUUM INTO 'copy.db'", "VACUUM"),
    ("REINDEX", "schema"),
    ("ANALYZE", "schema"),
    ("ALTER TABLE tasks ADD COLUMN x", "schema"),
    ("ALTER TABLE tasks RENAME TO x", "schema"),
    ("DROP TABLE tasks", "schema"),
    ("DROP INDEX IF EXISTS idx_tasks_status", ""),
    ("CREATE TABLE mine (x)", "cannot be created"),
    ("CREATE TABLE IF NOT EXISTS mine (x)", "cannot be created"),
    ("CREATE TEMP TABLE mine (x)", "schema"),
    ("CREATE TABLE temp.mine (x)", "schema"),
    ("CREATE INDEX IF NOT EXISTS mine ON tasks(title)", "cannot be created"),
    ("CREATE TRIGGER IF NOT EXISTS mine AFTER INSERT ON tasks BEGIN SELECT 1; END", "cannot be created"),
    ("CREATE TEMP TRIGGER mine AFTER INSERT ON tasks BEGIN SELECT 1; END", "schema"),
    ("CREATE VIEW IF NOT EXISTS mine AS SELECT 1", "cannot be created"),
    ("CREATE VIRTUAL TABLE mine USING fts5(x)", "cannot be created"),
    ("PRAGMA writable_schema = ON", "writable_schema"),
    ("PRAGMA wal_checkpoint(TRUNCATE)", "wal_checkpoint"),
    ("PRAGMA integrity_check", "integrity_check"),
    ("PRAGMA recursive_triggers = ON", "recursive_triggers"),
    ("PRAGMA trusted_schema = ON", "trusted_schema"),
    ("PRAGMA locking_mode = EXCLUSIVE", "locking_mode"),
    ("PRAGMA database_list", "database_list"),
    ("PRAGMA user_version = 7", "user_version"),
    ("SELECT * FROM pragma_database_list", "not a public table"),
    ("SELECT * FROM dbstat", "not a public table"),
    ("SELECT load_extension('x')", "load_extension"),
    ("SELECT fts3_tokenizer('x')", "fts3_tokenizer"),
    ("SELECT sqlite_log(1, 'x')", "sqlite_log"),
    ("SELECT json_patch('{}', '{}')", "json_patch"),
    ("SELECT 'a' GLOB 'a*'", "glob"),
    ("DELETE FROM sqlite_master", ""),
    ("UPDATE sqlite_master SET sql = ''", ""),
    ("SELECT 1; SELECT 2", "one statement"),
];

#[test]
fn what_is_not_allowed_is_refused_with_the_reason() {
    let world = world();
    let mut session = world.door.open().unwrap();
    for (sql, words) in FORBIDDEN {
        let refused = run(&mut session, sql).expect_err(sql);
        assert!(refused.message.contains(words), "{sql}: {refused}");
        assert!(session.is_autocommit() && !session.has_turn(), "{sql}");
    }
    refused(
        &mut session,
        "INSERT INTO sqlite_master(name) VALUES ('x')",
        "SQLITE_ERROR",
        "may not be modified",
    );
    refused(
        &mut session,
        "CREATE TABLE tasks (x)",
        "SQLITE_ERROR",
        "already exists",
    );
    let tables = number(&mut session, "SELECT count(*) FROM sqlite_master");
    drop(session);
    let mut fresh = world.door.open().unwrap();
    assert_eq!(
        number(&mut fresh, "SELECT count(*) FROM sqlite_master"),
        tables
    );
}

/// What would take all time or memory there is.
#[test]
fn bombs_are_stopped() {
    let world = world();
    let mut session = world.door.open().unwrap();
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)";
    let deep = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    let nested = format!(
        "SELECT * FROM {}tasks{}",
        "(SELECT * FROM ".repeat(2000),
        ")".repeat(2000)
    );
    let compound = format!("SELECT 1{}", " UNION SELECT 1".repeat(1000));
    let calls = format!("SELECT 1 WHERE 1 IN ({}1)", "abs(1),".repeat(1001));
    let cases: Vec<(String, &str)> = vec![
        (
            format!("{endless} SELECT count(*) FROM c"),
            "SQLITE_INTERRUPT",
        ),
        (
            format!("{endless} SELECT hex(randomblob(500000)) FROM c ORDER BY 1"),
            "SQLITE_NOMEM",
        ),
        (
            format!("{endless} SELECT group_concat(x) FROM c"),
            "SQLITE_INTERRUPT",
        ),
        ("SELECT randomblob(1000000000)".into(), "SQLITE_TOOBIG"),
        ("SELECT zeroblob(2000000000)".into(), "SQLITE_TOOBIG"),
        (
            "SELECT printf('%.*c', 100000000, 'x')".into(),
            "SQLITE_TOOBIG",
        ),
        (
            "SELECT replace(hex(zeroblob(1000000)), '0', 'xxxxxxxx')".into(),
            "SQLITE_ERROR",
        ),
        (deep, "SQLITE_ERROR"),
        (nested, "SQLITE_ERROR"),
        (compound, "SQLITE_ERROR"),
        (calls, "SQLITE_AUTH"),
        ("SELECT 1;".repeat(20_000), "SQLITE_ERROR"),
        ("SELECT ?5000".into(), "SQLITE_ERROR"),
        (format!("SELECT '{}'", "x".repeat(300_000)), "SQLITE_TOOBIG"),
        (
            format!("{endless} INSERT INTO migrations(name) SELECT x FROM c"),
            "SQLITE_INTERRUPT",
        ),
    ];
    for (sql, code) in cases {
        let start: String = sql.chars().take(80).collect();
        let refused = run(&mut session, &sql).map(|rows| rows.rows.len());
        let refused = refused.expect_err(&start);
        assert_eq!(refused.code, code, "{start}: {refused}");
        assert!(session.is_autocommit() && !session.has_turn(), "{start}");
    }
    assert_eq!(number(&mut session, "SELECT count(*) FROM migrations"), 0);
}

#[test]
fn a_result_has_so_many_rows_and_bytes_and_no_more() {
    let world = world();
    let mut session = world.door.open().unwrap();
    let rows = |count: i64| {
        format!(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {count}) SELECT x FROM c"
        )
    };
    for (count, fits) in [(99, true), (100, true), (101, false)] {
        let ran = run(&mut session, &rows(count));
        assert_eq!(
            ran.as_ref().map(|rows| rows.rows.len()).ok(),
            fits.then_some(count as usize)
        );
        if let Err(refused) = ran {
            assert_eq!(refused.code, "RESPONSE_TOO_LARGE");
            assert!(refused.message.contains("100 rows"), "{refused}");
        }
    }
    let room = 1024 * 1024 - 32;
    for (bytes, fits) in [(room - 1, true), (room, true), (room + 1, false)] {
        let ran = run(&mut session, &format!("SELECT zeroblob({bytes})"));
        assert_eq!(ran.is_ok(), fits, "{bytes}");
    }
    ok(
        &mut session,
        &rows(99).replace(
            "SELECT x FROM c",
            "INSERT INTO migrations(name) SELECT x FROM c",
        ),
    );
    let few = Allowance {
        rows: 10,
        ..plenty()
    };
    let query = Query {
        sql: "DELETE FROM migrations RETURNING name",
        want_rows: true,
        ..Query::default()
    };
    assert_eq!(
        session.execute(&query, &few).unwrap_err().code,
        "RESPONSE_TOO_LARGE"
    );
    assert_eq!(
        number(&mut session, "SELECT count(*) FROM migrations"),
        99,
        "nothing was deleted"
    );
    let unwanted = Query {
        want_rows: false,
        ..query
    };
    assert_eq!(session.execute(&unwanted, &few).unwrap().affected, 99);
}

#[test]
fn one_writes_at_a_time_and_others_are_told_to_come_back() {
    let world = world();
    let (mut one, mut other) = (world.door.open().unwrap(), world.door.open().unwrap());
    ok(&mut one, "BEGIN IMMEDIATE");
    assert!(one.has_turn() && !one.is_autocommit() && one.since().is_some());
    ok(&mut one, "INSERT INTO migrations(name) VALUES ('one')");
    refused(
        &mut other,
        "INSERT INTO migrations(name) VALUES ('other')",
        "SQLITE_BUSY",
        "retry in a moment",
    );
    assert_eq!(number(&mut other, "SELECT count(*) FROM migrations"), 0);
    ok(&mut one, "COMMIT");
    assert!(!one.has_turn() && one.since().is_none());
    ok(&mut other, "INSERT INTO migrations(name) VALUES ('other')");
    assert_eq!(number(&mut one, "SELECT count(*) FROM migrations"), 2);
    ok(&mut one, "BEGIN");
    assert!(!one.has_turn());
    ok(&mut one, "DELETE FROM migrations");
    assert!(one.has_turn(), "it writes now");
    drop(one);
    assert_eq!(number(&mut other, "SELECT count(*) FROM migrations"), 2);
    ok(&mut other, "DELETE FROM migrations");
}

#[test]
fn a_transaction_that_only_reads_writes_nothing() {
    let world = world();
    let mut session = world.door.open().unwrap();
    ok(&mut session, "BEGIN TRANSACTION READONLY");
    ok(&mut session, "SELECT count(*) FROM tasks");
    refused(
        &mut session,
        "DELETE FROM tasks",
        "SQLITE_READONLY",
        "is read-only",
    );
    ok(&mut session, "COMMIT");
    ok(&mut session, "DELETE FROM tasks");
}

#[test]
fn the_hub_gets_its_turn_and_the_transaction_in_its_way_is_lost() {
    let mut world = world();
    let mut session = world.door.open().unwrap();
    ok(&mut session, "BEGIN IMMEDIATE");
    ok(&mut session, "INSERT INTO migrations(name) VALUES ('lost')");
    let lost = std::thread::scope(|threads| {
        let hub = threads.spawn(|| world.engine.begin(&mut Slice::default()).map(drop));
        let lost = loop {
            // Whatever it does, at some point it is told.
            match run(&mut session, "SELECT count(*) FROM migrations") {
                Ok(_) => std::thread::yield_now(),
                Err(lost) => break lost,
            }
        };
        hub.join().unwrap().unwrap();
        lost
    });
    assert_eq!(lost.code, "SQLITE_BUSY");
    assert!(
        !session.is_autocommit() && !session.has_turn(),
        "its end is still to come"
    );
    refused(
        &mut session,
        "INSERT INTO migrations(name) VALUES ('x')",
        "SQLITE_BUSY",
        "rolled back",
    );
    refused(&mut session, "COMMIT", "SQLITE_BUSY", "rolled back");
    ok(&mut session, "ROLLBACK");
    assert!(session.is_autocommit());
    world.engine.rollback();
    assert_eq!(number(&mut session, "SELECT count(*) FROM migrations"), 0);
}

#[test]
fn a_statement_that_keeps_the_hub_waiting_is_stopped() {
    let mut world = world();
    let mut session = world.door.open().unwrap();
    ok(&mut session, "BEGIN IMMEDIATE");
    ok(&mut session, "INSERT INTO migrations(name) VALUES ('lost')");
    std::thread::scope(|threads| {
        let hub = threads.spawn(|| world.engine.begin(&mut Slice::default()).map(drop));
        let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
        refused(&mut session, endless, "SQLITE_BUSY", "hub");
        hub.join().unwrap().unwrap();
    });
    refused(&mut session, "COMMIT", "SQLITE_BUSY", "rolled back");
}

#[test]
fn nothing_runs_once_the_door_is_closed() {
    let world = world();
    let mut session = world.door.open().unwrap();
    std::thread::scope(|threads| {
        let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
        let running = threads.spawn(|| run(&mut session, endless).expect_err("it was stopped"));
        world.door.close();
        assert_eq!(running.join().unwrap().message, "the hub is stopping");
    });
}

#[test]
fn a_session_that_is_reset_keeps_nothing() {
    let world = world();
    let mut session = world.door.open().unwrap();
    ok(&mut session, "BEGIN IMMEDIATE");
    ok(&mut session, "SAVEPOINT a");
    ok(&mut session, "INSERT INTO migrations(name) VALUES ('a')");
    session.reset();
    assert!(session.is_autocommit() && !session.has_turn());
    assert_eq!(number(&mut session, "SELECT count(*) FROM migrations"), 0);
}

//! Real files: what is held, and what gets into the ledger.

use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;

use super::*;
use crate::SystemClock;
use crate::sqlite::SqliteEngine;

struct Files {
    home: tempfile::TempDir,
}

impl Files {
    /// An old file made by `sql`, and an empty ledger.
    fn new(sql: &str) -> Files {
        let files = Files {
            home: tempfile::tempdir().unwrap(),
        };
        let old = Connection::open(files.old()).unwrap();
        old.execute_batch(sql).unwrap();
        drop(SqliteEngine::open(&files.ledger(), Box::new(SystemClock::new())).unwrap());
        files
    }

    fn old(&self) -> PathBuf {
        self.home.path().join("swarm.db")
    }

    fn ledger(&self) -> PathBuf {
        self.home.path().join("ledger.db")
    }

    fn import(&self) -> Option<Report> {
        let held = Held::take(&self.old()).unwrap();
        import(&held, &self.ledger()).unwrap()
    }

    fn texts(&self, sql: &str) -> Vec<String> {
        let db = Connection::open(self.ledger()).unwrap();
        let mut statement = db.prepare(sql).unwrap();
        let found = statement.query_map([], |row| row.get(0)).unwrap();
        found.collect::<Result<_, _>>().unwrap()
    }

    fn number(&self, sql: &str) -> i64 {
        let db = Connection::open(self.ledger()).unwrap();
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

const TASKS: &str = "CREATE TABLE tasks(id TEXT, title TEXT, status TEXT, dependencies TEXT DEFAULT '[]', assigned_agent TEXT,
  completed_at TEXT, next_retry_at TEXT, retry_count INTEGER, quality_snapshot_id TEXT, created_at TEXT, updated_at TEXT);";

#[test]
fn a_task_keeps_when_it_ended_in_its_row_and_in_its_note() {
    let ended = ["completed", "needs_review", "failed", "canceled"];
    let mut sql = TASKS.to_owned();
    for status in ended {
        // Tools differ in which instants they write.
        sql.push_str(&format!(
            "INSERT INTO tasks(id, title, status, completed_at, updated_at) VALUES
               ('{status}-told', 'T', '{status}', '2026-01-01 10:00:00', '2026-01-01 11:00:00'),
               ('{status}-untold', 'T', '{status}', NULL, '2026-01-01T11:00:00Z');"
        ));
    }
    sql.push_str(
        "INSERT INTO tasks(id, title, status, next_retry_at, completed_at, updated_at) VALUES
           ('retry', 'T', 'pending_retry', '2026-01-01 12:00:00', '2026-01-01 10:00:00', '2026-01-01 11:00:00')",
    );
    let files = Files::new(&sql);
    assert_eq!(files.import().unwrap().came, [(Kind::Tasks, 9)]);
    const TEN: i64 = 1_767_261_600_000;
    const HOUR: i64 = 3_600_000;
    let is = |id: &str, at: i64| {
        let row = format!("SELECT state_at FROM tasks WHERE id = '{id}'");
        assert_eq!(files.number(&row), at, "{id}");
        let note =
            format!("SELECT json_extract(became, '$.state_at') FROM sb_hand WHERE key = '{id}'");
        assert_eq!(files.number(&note), at, "the note of {id}");
    };
    for status in ended {
        is(&format!("{status}-told"), TEN);
        is(&format!("{status}-untold"), TEN + HOUR);
    }
    is("retry", TEN + 2 * HOUR);
}

#[test]
fn a_task_keeps_its_retries_its_snapshot_and_when_it_was_made() {
    let files = Files::new(&format!(
        "{TASKS} INSERT INTO tasks(id, title, status, assigned_agent, retry_count, quality_snapshot_id, created_at) VALUES
           ('a', 'A', 'completed', 'ann', 1, 'q', '2026-01-01 10:00:00');
         CREATE TABLE quality_snapshots(id TEXT, task_id TEXT, type_errors INTEGER);
         INSERT INTO quality_snapshots VALUES ('q', 'a', 3);"
    ));
    files.import();
    let wanted = ["ann 1 q 2026-01-01T10:00:00.000Z"];
    let columns = [
        "assigned_agent",
        "retry_count",
        "quality_snapshot_id",
        "created_at",
    ];
    let row = format!("SELECT {} FROM tasks", columns.join(" || ' ' || "));
    assert_eq!(files.texts(&row), wanted);
    let noted = columns.map(|column| format!("json_extract(became, '$.{column}')"));
    let note = format!("SELECT {} FROM sb_hand", noted.join(" || ' ' || "));
    assert_eq!(files.texts(&note), wanted);
    assert_eq!(
        files.texts("SELECT task_id FROM quality_snapshots WHERE id = 'q'"),
        ["a"]
    );
}

#[test]
fn an_older_file_lacks_columns_and_tables() {
    let files = Files::new(
        "CREATE TABLE tasks(id TEXT, title TEXT, status TEXT); INSERT INTO tasks VALUES ('a', 'A', 'failed')",
    );
    let came = vec![(Kind::Tasks, 1)];
    let wanted = Report {
        came,
        ..Report::default()
    };
    assert_eq!(files.import(), Some(wanted));
    assert_eq!(
        files.texts("SELECT status || max_retries || priority FROM tasks"),
        ["failed2medium"]
    );
}

#[test]
fn a_large_file_comes_along_whole_and_in_an_order_that_can_be_taken_up() {
    let files = Files::new(&format!(
        "{TASKS} WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000)
         INSERT INTO tasks(id, title, dependencies) SELECT 't-' || x, 't',
           CASE WHEN x % 2 THEN '[]' ELSE json_array('t-' || (x - 1)) END FROM n"
    ));
    assert_eq!(files.import().unwrap().came, [(Kind::Tasks, 5000)]);
    let noted = "SELECT count(DISTINCT key) FROM sb_hand";
    assert_eq!(files.number(noted), 5000);
    let early = "SELECT count(*) FROM sb_hand h JOIN tasks t ON t.id = h.key JOIN json_each(t.dependencies) d
                 JOIN sb_hand n ON n.key = d.value WHERE n.n > h.n";
    assert_eq!(files.number(early), 0);
}

#[test]
fn the_same_file_is_imported_once_and_another_one_adds_what_is_new() {
    let one = "INSERT INTO tasks(id, title) VALUES ('a', 'A')";
    let files = Files::new(&format!("{TASKS} {one}"));
    assert!(files.import().is_some());
    assert_eq!(files.import(), None);
    fs::remove_file(files.old()).unwrap();
    let two = "INSERT INTO tasks(id, title) VALUES ('b', 'B')";
    let other = Connection::open(files.old()).unwrap();
    other
        .execute_batch(&format!("{TASKS} {one}; {two}"))
        .unwrap();
    drop(other);
    let report = files.import().unwrap();
    assert_eq!(report.came, [(Kind::Tasks, 1)]);
    assert_eq!(report.known.first(), ["a"]);
    assert_eq!(files.number("SELECT count(*) FROM sb_hand"), 2);
}

#[test]
fn what_cannot_be_held_says_why_and_stays_as_it_is() {
    let files = Files::new(TASKS);
    let busy = Connection::open(files.old()).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(Held::take(&files.old()).unwrap_err(), Unfit::InUse);
    drop(busy);
    assert_eq!(Held::take(&files.ledger()).unwrap_err(), Unfit::IsLedger);
    assert!(is_ledger(&files.ledger()) && !is_ledger(&files.old()));
    let text = "no database, but long enough to be looked at";
    fs::write(files.old(), text).unwrap();
    let unfit = Held::take(&files.old()).unwrap_err();
    assert!(matches!(unfit, Unfit::Damaged(_)), "{unfit}");
    assert_eq!(fs::read_to_string(files.old()).unwrap(), text);
    let absent = Held::take(&files.home.path().join("absent")).unwrap_err();
    assert!(matches!(absent, Unfit::Unusable(_)), "{absent}");
}

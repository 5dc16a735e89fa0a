//! The tables themselves: whole, and their counters true.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use switchboard_test_cluster::Database;
use switchboard_tests::{Client, until};

use super::history::History;

/// Where the tables are, to be read without a hub in between.
pub enum Books<'a> {
    File(PathBuf),
    Database(&'a Database),
}

/// All counts of one moment, in one statement.
const COUNTS: &str = "
    SELECT 'task ' || status, count(*) FROM tasks GROUP BY status
    UNION ALL SELECT 'leases', count(*) FROM leases
    UNION ALL SELECT 'queued', count(*) FROM sb_delivery WHERE state = 'queued'
    UNION ALL SELECT 'answers', count(*) FROM sb_answer
    UNION ALL SELECT 'latest', coalesce(max(last), 0) FROM sb_log";

const GAPS: &str = "
    SELECT count(*) FROM (SELECT first, lag(last, 1, 0) OVER (ORDER BY first) AS before FROM sb_log) AS log
    WHERE first <> before + 1";

/// The counters that `/status` shows are what is in the tables, at one and the same moment.
pub fn counters_are_true(client: &mut Client, books: &Books<'_>) {
    let counters = |status: &Value| {
        let picked = ["tasks", "leases", "messages", "events"].map(|name| status[name].clone());
        (picked, status["idempotency"]["rows"].clone())
    };
    let (status, counted) = until("nothing changes while the tables are counted", || {
        let before = client.status();
        let counted = books.counts();
        let after = client.status();
        (counters(&before) == counters(&after)).then_some((after, counted))
    });
    let count = |name: &str| counted.get(name).copied().unwrap_or_default();
    let by_status = || counted.iter().filter(|(name, _)| name.starts_with("task "));
    for (name, shown) in status["tasks"].as_object().expect("tasks by status") {
        let real: i64 = by_status()
            .filter(|(status, _)| name == "total" || camel(&status["task ".len()..]) == *name)
            .map(|(_, count)| count)
            .sum();
        assert_eq!(*shown, json!(real), "tasks {name}");
    }
    for (shown, name) in [
        (&status["leases"], "leases"),
        (&status["messages"]["queued"], "queued"),
        (&status["idempotency"]["rows"], "answers"),
        (&status["events"]["latest"], "latest"),
    ] {
        assert_eq!(*shown, json!(count(name)), "{name}");
    }
}

/// Everything holds together, after the hubs have gone.
pub fn is_whole(books: &Books<'_>, history: &History) {
    if let Books::File(file) = books {
        let verdict = "SELECT group_concat(integrity_check, '; ') FROM pragma_integrity_check";
        assert_eq!(read(file, verdict), ["ok"]);
    }
    assert_eq!(books.number(GAPS), 0, "gaps in the log");
    let latest = books.number("SELECT seq FROM sb_head");
    assert!(latest as u64 >= history.latest, "the log got shorter");
    // The queues that claims are chosen from.
    let of = |list: &str| {
        books.number(&format!(
            "SELECT count(*) FROM tasks WHERE status IN ({list})"
        ))
    };
    let lanes = |what: &str| books.number(&format!("SELECT coalesce(sum({what}), 0) FROM sb_lane"));
    assert_eq!(lanes("ready"), of("'ready'"), "tasks in the queues");
    assert_eq!(
        lanes("held"),
        of("'claimed', 'in_progress'"),
        "tasks in hands"
    );
    let attempts = books.number("SELECT count(*) FROM sb_attempt");
    assert!(
        attempts >= i64::try_from(history.completed.len()).unwrap_or(i64::MAX),
        "attempts are missing"
    );
}

impl Books<'_> {
    fn counts(&self) -> BTreeMap<String, i64> {
        let lines = self.lines(COUNTS);
        let pairs = lines.iter().filter_map(|line| line.split_once('|'));
        pairs
            .map(|(name, count)| (name.to_owned(), integer(count)))
            .collect()
    }

    fn number(&self, sql: &str) -> i64 {
        let lines = self.lines(sql);
        assert_eq!(lines.len(), 1, "{sql}");
        integer(&lines[0])
    }

    /// A line per row, columns parted by `|`.
    fn lines(&self, sql: &str) -> Vec<String> {
        match self {
            Books::File(file) => read(file, sql),
            Books::Database(database) => database.sql(sql).lines().map(str::to_owned).collect(),
        }
    }
}

fn integer(text: &str) -> i64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn read(file: &Path, sql: &str) -> Vec<String> {
    let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("the file can be opened");
    let mut statement = db.prepare(sql).expect("it is SQL");
    let columns = statement.column_count();
    let mut rows = statement.query([]).expect("it can be read");
    let mut lines = Vec::new();
    while let Some(row) = rows.next().expect("it can be read") {
        let cells = (0..columns).map(|column| match row.get_ref(column) {
            Ok(ValueRef::Integer(number)) => number.to_string(),
            Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("neither number nor text in {sql}: {other:?}"),
        });
        lines.push(cells.collect::<Vec<_>>().join("|"));
    }
    lines
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

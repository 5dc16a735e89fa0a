//! The table of tables: what a ledger consists of, on every engine.
//!
//! Both directions and the verification go by it, and a test holds it against the real schemas, so that a column that
//! is added later cannot be forgotten here.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Real,
    Text,
    Bytes,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub name: &'static str,
    /// How many of the first columns tell a row from all others.
    pub keys: usize,
    pub columns: &'static [(&'static str, Kind)],
    /// Columns that only PostgreSQL has, and what stands there in a row from elsewhere.
    pub only_postgres: &'static [(&'static str, &'static str)],
}

impl Table {
    pub fn key_names(&self) -> impl Iterator<Item = &'static str> {
        self.columns[..self.keys].iter().map(|(name, _)| *name)
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|(name, _)| *name)
    }

    /// Where a column stands in a row.
    pub fn at(&self, name: &str) -> usize {
        let at = self.names().position(|column| column == name);
        at.expect("the table has the columns that this module asks for")
    }
}

/// Notes of what was written by hand. There are none in a ledger that is copied.
pub(super) const NOTES: &str = "sb_hand";

/// Filled when a ledger is made, so a target that has rows here may still be empty.
pub(super) const FILLED_AT_BIRTH: &str = "swarm_metadata";

use Kind::{Bytes as B, Int as I, Real as R, Text as T};

/// The head: one row that is there from the beginning, and written last.
#[rustfmt::skip]
pub(super) const HEAD: Table = Table {
    name: "sb_head", keys: 1,
    columns: &[
        ("id", I), ("seq", I), ("last_at", I), ("task_number", I), ("message_number", I), ("lane", I), ("fencing", I),
        ("tasks", T), ("queued_deliveries", I), ("leases", I), ("answer_rows", I), ("answer_bytes", I), ("served_at", I),
        ("floor", I), ("last_message_at", I), ("epoch", I), ("epoch_after", I), ("clock_at", I), ("clock_wall", I),
        ("clock_boot", T), ("clock_ran_ms", I),
    ],
    only_postgres: &[("writer", ""), ("generation", ""), ("schema_floor", ""), ("by_hand", "")],
};

/// The event log.
#[rustfmt::skip]
pub(super) const LOG: Table = Table {
    name: "sb_log", keys: 1,
    columns: &[("first", I), ("last", I), ("at", I), ("body", T), ("before", B), ("hash", B)],
    // Nobody's number: every coordinator takes what was logged before for someone else's.
    only_postgres: &[("writer", "0")],
};

/// All others, in the order in which they are copied.
#[rustfmt::skip]
pub(super) const TABLES: &[Table] = &[
    Table { name: "swarm_metadata", keys: 1, only_postgres: &[], columns: &[("key", T), ("value", T), ("updated_at", T)] },
    Table { name: "migrations", keys: 1, only_postgres: &[], columns: &[("id", I), ("name", T), ("applied_at", T)] },
    Table { name: "tasks", keys: 1, only_postgres: &[], columns: &[
        ("number", I), ("id", T), ("title", T), ("description", T), ("status", T), ("priority", T), ("type", T),
        ("assigned_agent", T), ("claimed_at", T), ("dependencies", T), ("blockers", T), ("required_skills", T),
        ("files", T), ("started_at", T), ("completed_at", T), ("estimated_minutes", I), ("actual_minutes", I),
        ("retry_count", I), ("max_retries", I), ("last_error", T), ("failure_type", T), ("next_retry_at", T),
        ("previous_agents", T), ("result", T), ("branch", T), ("quality_snapshot_id", T), ("created_at", T),
        ("updated_at", T), ("rev", I), ("epoch", I), ("lane", I), ("state_at", I), ("worked_ms", I), ("progress", T),
        ("dependants", I), ("audience", T), ("on_dependency_failure", T), ("corr_id", T), ("when_spent", T),
        ("deadline_at", I), ("stale_ms", I), ("look_at", I), ("epoch_needed", I),
    ] },
    Table { name: "agents", keys: 1, only_postgres: &[], columns: &[
        ("id", T), ("name", T), ("type", T), ("status", T), ("skills", T), ("max_task_minutes", I),
        ("can_run_tests", I), ("can_run_build", I), ("can_access_browser", I), ("last_heartbeat", T),
        ("heartbeat_count", I), ("current_task_id", T), ("current_task_started_at", T), ("current_task_progress", I),
        ("current_task_phase", T), ("tasks_completed", I), ("tasks_failed", I), ("total_runtime_minutes", R),
        ("machine_id", T), ("machine_hostname", T), ("pid", I), ("registered_at", T), ("last_active_at", T), ("rev", I),
        ("presence", T), ("presence_at", I), ("seen_at", I), ("runtime_ms", I), ("holds", T), ("commands", T),
        ("metrics", T), ("key_generation", I), ("inbox", I), ("doors", T), ("silent_ms", I), ("stream", T),
    ] },
    Table { name: "messages", keys: 1, only_postgres: &[], columns: &[
        ("number", I), ("id", T), ("type", T), ("from_agent", T), ("to_agent", T), ("payload", T), ("ack_required", I),
        ("acknowledged_at", T), ("acknowledged_by", T), ("delivered_at", T), ("expires_at", T), ("created_at", T),
        ("rev", I), ("corr_id", T), ("handoff_task", T), ("handoff_epoch", I), ("copy_of", I),
    ] },
    Table { name: "leases", keys: 1, only_postgres: &[], columns: &[
        ("file_path", T), ("agent_id", T), ("task_id", T), ("acquired_at", T), ("expires_at", T), ("renewed_count", I),
        ("rev", I), ("prefix", T), ("fencing", I),
    ] },
    // On SQLite the number is the row's own; snapshots are listed by it.
    Table { name: "quality_snapshots", keys: 1, only_postgres: &[], columns: &[
        ("rowid", I), ("id", T), ("task_id", T), ("agent_id", T), ("build_success", I), ("build_time_ms", I),
        ("type_errors", I), ("lint_errors", I), ("lint_warnings", I), ("tests_passing", I), ("tests_failing", I),
        ("tests_skipped", I), ("test_coverage", R), ("test_time_ms", I), ("build_output", T), ("type_output", T),
        ("lint_output", T), ("test_output", T), ("recorded_at", T),
    ] },
    Table { name: "quality_baseline", keys: 1, only_postgres: &[], columns: &[
        ("id", I), ("build_success", I), ("type_errors", I), ("lint_errors", I), ("lint_warnings", I),
        ("tests_passing", I), ("tests_failing", I), ("test_coverage", R), ("set_by", T), ("created_at", T),
        ("updated_at", T), ("rev", I),
    ] },
    Table { name: "sb_dep", keys: 2, only_postgres: &[], columns: &[("needs", T), ("number", I), ("task", T)] },
    Table { name: "sb_lane", keys: 1, only_postgres: &[], columns: &[
        ("lane", I), ("key", T), ("rep", T), ("prio", I), ("head", I), ("ready", I), ("held", I),
    ] },
    Table { name: "sb_rep", keys: 1, only_postgres: &[], columns: &[("rep", T), ("lanes", I)] },
    Table { name: "sb_attempt", keys: 2, only_postgres: &[], columns: &[
        ("number", I), ("epoch", I), ("task", T), ("agent", T), ("claimed_at", I), ("ended_at", I), ("outcome", T),
        ("failure", T), ("message", T), ("details", T), ("suggested", T), ("progress", T),
    ] },
    Table { name: "sb_delivery", keys: 2, only_postgres: &[], columns: &[
        ("number", I), ("agent", T), ("message", T), ("state", T), ("delivered_at", I), ("acknowledged_at", I),
        ("expires_at", I), ("handing_until", I),
    ] },
    Table { name: "sb_learning", keys: 1, only_postgres: &[], columns: &[
        ("n", I), ("id", T), ("text", T), ("task", T), ("agent", T), ("created_at", I),
    ] },
    Table { name: "sb_record", keys: 2, only_postgres: &[], columns: &[("kind", T), ("key", T), ("value", T)] },
    Table { name: "sb_engram", keys: 1, only_postgres: &[], columns: &[
        ("n", I), ("id", T), ("scope", T), ("version", T), ("created_at", I), ("hash", T), ("bytes", I), ("topics", T),
        ("from_seq", I), ("to_seq", I), ("body", T), ("words", T),
    ] },
    Table { name: "sb_answer", keys: 1, only_postgres: &[], columns: &[
        ("n", I), ("principal", T), ("operation", T), ("key", T), ("body_hash", B), ("answer", B), ("at", I),
    ] },
    Table { name: "sb_nonce", keys: 2, only_postgres: &[], columns: &[("agent", T), ("value", T), ("valid_until", I)] },
    Table { name: "sb_token", keys: 1, only_postgres: &[], columns: &[
        ("id", T), ("name", T), ("scope", T), ("hash", B), ("created_at", I), ("revoked_at", I),
    ] },
    Table { name: "sb_sql_agent", keys: 1, only_postgres: &[], columns: &[("id", T)] },
    Table { name: "sb_former_agent", keys: 1, only_postgres: &[], columns: &[
        ("id", T), ("name", T), ("completed", I), ("failed", I), ("runtime_ms", I), ("registered_at", I), ("gone_at", I),
    ] },
    LOG,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rusqlite::Connection;
    use switchboard_test_cluster::Cluster;

    use super::*;
    use crate::postgres::{Address, PostgresEngine};
    use crate::sqlite::SqliteEngine;
    use crate::{ManualClock, conformance};

    /// `table.column kind`
    type Names = BTreeSet<String>;

    /// Each ledger has its own: nothing in them is moved as rows.
    const OWN_TABLES: &[&str] = &[
        "sb_migration",
        "sb_secret",
        "sb_was",
        "sb_task_transition",
        NOTES,
    ];

    /// Computed by the engine from other columns.
    const GENERATED: &str = "tasks.priority_order";

    fn ours(leave_out: impl Fn(&str) -> bool) -> Names {
        let all = TABLES.iter().chain([&HEAD]);
        let columns = all.flat_map(|table| {
            let columns = table.columns.iter();
            columns.map(|(column, kind)| (format!("{}.{column}", table.name), *kind))
        });
        columns
            .filter(|(name, _)| !leave_out(name))
            .map(|(name, kind)| format!("{name} {kind:?}"))
            .collect()
    }

    fn is_own(table: &str) -> bool {
        OWN_TABLES.contains(&table)
            || table.starts_with("sb_learning_words")
            || table.starts_with("sb_engram_words")
    }

    #[test]
    fn every_column_of_a_file_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger.db");
        let clock = ManualClock::at(conformance::START);
        drop(SqliteEngine::open(&file, Box::new(clock)).unwrap());
        let db = Connection::open(&file).unwrap();
        let mut statement = db
            .prepare(
                "SELECT t.name, c.name, c.type FROM sqlite_schema t, pragma_table_xinfo(t.name) c
                 WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'",
            )
            .unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut found = Names::new();
        while let Some(row) = rows.next().unwrap() {
            let (table, column, kind): (String, String, String) = (
                row.get(0).unwrap(),
                row.get(1).unwrap(),
                row.get(2).unwrap(),
            );
            let name = format!("{table}.{column}");
            if is_own(&table) || name == GENERATED {
                continue;
            }
            let kind = match kind.as_str() {
                "INTEGER" => I,
                "REAL" => R,
                "TEXT" => T,
                "BLOB" => B,
                other => panic!("{name} has the type {other:?}"),
            };
            found.insert(format!("{name} {kind:?}"));
        }
        assert_eq!(found, ours(|name| name == "quality_snapshots.rowid"));
    }

    #[test]
    fn every_column_of_a_database_is_copied() {
        let Some(server) = Cluster::shared("a look at PostgreSQL's schema") else {
            return;
        };
        let database = server.create_database();
        drop(PostgresEngine::open(Address::parse(&database.url).unwrap()).unwrap());
        let columns = database.sql(
            "SELECT table_name, column_name, data_type FROM information_schema.columns
             WHERE table_schema = 'public'",
        );
        let only_here: BTreeSet<String> = TABLES
            .iter()
            .chain([&HEAD])
            .flat_map(|table| {
                let columns = table.only_postgres.iter();
                columns.map(|(column, _)| format!("{}.{column}", table.name))
            })
            .collect();
        let mut found = Names::new();
        for line in columns.lines() {
            let [table, column, kind] = line.splitn(3, '|').collect::<Vec<_>>()[..] else {
                panic!("three columns: {line}");
            };
            let name = format!("{table}.{column}");
            if is_own(table) || name == GENERATED || only_here.contains(&name) {
                continue;
            }
            let kind = match kind {
                "bigint" => I,
                "double precision" => R,
                "text" => T,
                "bytea" => B,
                other => panic!("{name} has the type {other:?}"),
            };
            found.insert(format!("{name} {kind:?}"));
        }
        assert_eq!(found, ours(|_| false));
    }

    #[test]
    fn keys_are_the_keys_of_the_tables() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger.db");
        let clock = ManualClock::at(conformance::START);
        drop(SqliteEngine::open(&file, Box::new(clock)).unwrap());
        let db = Connection::open(&file).unwrap();
        for table in TABLES.iter().chain([&HEAD]) {
            let mut key: Vec<(i64, String)> = db
                .prepare("SELECT pk, name FROM pragma_table_info(?) WHERE pk > 0")
                .unwrap()
                .query_map([table.name], |row| Ok((row.get(0)?, row.get(1)?)))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            key.sort_unstable();
            let key: Vec<String> = key.into_iter().map(|(_, name)| name).collect();
            let expected: Vec<&str> = table.key_names().collect();
            let by_its_number = table.name == "quality_snapshots";
            assert!(by_its_number || key == expected, "{}: {key:?}", table.name);
        }
    }
}

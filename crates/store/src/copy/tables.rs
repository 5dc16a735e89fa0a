//! What a ledger consists of on every engine, as it is copied: the key of a row, then the rest of it.
//!
//! Both directions and the verification go by it, and a test holds it against the real schemas, so that a column that
//! is added later cannot be forgotten in [`crate::table`].

use std::sync::LazyLock;

use crate::table;
pub(super) use crate::table::Kind;

#[derive(Debug)]
pub(super) struct Table {
    pub name: &'static str,
    /// How many of the first columns tell a row from all others.
    pub keys: usize,
    pub columns: Vec<(&'static str, Kind)>,
    /// Columns that only PostgreSQL has, and what stands there in a row from elsewhere.
    pub only_postgres: Vec<(&'static str, &'static str)>,
}

impl Table {
    fn new(table: &'static table::Table) -> Table {
        let is_here = |column: &&table::Column| column.only_postgres.is_none();
        let mut columns: Vec<_> = table.columns.iter().filter(is_here).collect();
        let place = |column: &table::Column| table.key.iter().position(|key| *key == column.name);
        columns.sort_by_key(|column| place(column).unwrap_or(usize::MAX));
        let elsewhere = |column: &table::Column| Some((column.name, column.only_postgres?));
        Table {
            name: table.name,
            keys: table.key.len(),
            columns: columns
                .iter()
                .map(|column| (column.name, column.kind))
                .collect(),
            only_postgres: table.columns.iter().filter_map(elsewhere).collect(),
        }
    }

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
pub(super) const FILLED_AT_BIRTH: &str = table::METADATA.name;

/// The head: one row that is there from the beginning, and written last.
pub(super) static HEAD: LazyLock<Table> = LazyLock::new(|| Table::new(&table::HEADS));

/// The event log.
pub(super) static LOG: LazyLock<Table> = LazyLock::new(|| Table::new(&table::LOG));

/// All but the head, in the order in which they are copied.
pub(super) static TABLES: LazyLock<Vec<Table>> =
    LazyLock::new(|| table::TABLES.iter().copied().map(Table::new).collect());

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rusqlite::Connection;
    use switchboard_test_cluster::Cluster;

    use super::Kind::{Bytes as B, Int as I, Real as R, Text as T};
    use super::*;
    use crate::postgres::{Address, PostgresEngine};
    use crate::sqlite::SqliteEngine;
    use crate::table::Owner;
    use crate::{ManualClock, conformance};

    /// `table.column kind`
    type Names = BTreeSet<String>;

    /// Each ledger has its own: nothing in them is moved as rows.
    const OWN_TABLES: &[&str] = &[
        "sb_guards",
        "sb_migration",
        "sb_secret",
        "sb_was",
        "sb_task_transition",
        NOTES,
    ];

    /// Computed by the engine from other columns.
    const GENERATED: &str = "tasks.priority_order";

    fn ours(leave_out: impl Fn(&str) -> bool) -> Names {
        let all = TABLES.iter().chain([&*HEAD]);
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
            || table.starts_with("sb_engram")
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
            .chain([&*HEAD])
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

    /// `SELECT *` of a public table begins with the document's columns, in its order.
    fn check_order(found: impl Fn(&str) -> Vec<String>) {
        for table in table::public() {
            let document = table.columns.iter();
            let document = document.filter(|column| column.owner == Owner::Document);
            let document: Vec<&str> = document.map(|column| column.name).collect();
            let mut found = found(table.name);
            found.retain(|column| format!("{}.{column}", table.name) != GENERATED);
            found.truncate(document.len());
            assert_eq!(found, document, "{}", table.name);
        }
    }

    #[test]
    fn the_documents_columns_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger.db");
        let clock = ManualClock::at(conformance::START);
        drop(SqliteEngine::open(&file, Box::new(clock)).unwrap());
        let db = Connection::open(&file).unwrap();
        check_order(|table| {
            let columns = "SELECT name FROM pragma_table_xinfo(?) ORDER BY cid";
            let mut columns = db.prepare(columns).unwrap();
            let names = columns.query_map([table], |row| row.get(0)).unwrap();
            names.map(Result::unwrap).collect()
        });
        let Some(server) = Cluster::shared("a look at PostgreSQL's columns") else {
            return;
        };
        let database = server.create_database();
        drop(PostgresEngine::open(Address::parse(&database.url).unwrap()).unwrap());
        check_order(|table| {
            let columns = database.sql(&format!(
                "SELECT column_name FROM information_schema.columns
                 WHERE table_schema = 'public' AND table_name = '{table}' ORDER BY ordinal_position"
            ));
            columns.lines().map(ToOwned::to_owned).collect()
        });
    }

    #[test]
    fn keys_are_the_keys_of_the_tables() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger.db");
        let clock = ManualClock::at(conformance::START);
        drop(SqliteEngine::open(&file, Box::new(clock)).unwrap());
        let db = Connection::open(&file).unwrap();
        for table in TABLES.iter().chain([&*HEAD]) {
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

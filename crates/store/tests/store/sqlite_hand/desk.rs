//! A ledger in a file, with a client that writes into the same file by hand.

use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use switchboard_store::sqlite::SqliteEngine;
use tempfile::TempDir;

use crate::hand;

pub type Desk = hand::Desk<Hand>;

/// A program with a connection of its own.
pub struct Hand {
    pub db: Connection,
    _home: TempDir,
}

impl Desk {
    pub fn new() -> Desk {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ledger.db");
        Desk::open(|clock| {
            let engine = SqliteEngine::open(&path, Box::new(clock.clone())).unwrap();
            let db = Connection::open(&path).unwrap();
            db.busy_timeout(Duration::from_secs(20)).unwrap();
            (Box::new(engine), Hand { db, _home: home })
        })
    }

    /// Hand writes that must hold.
    #[track_caller]
    pub fn by_hand(&self, sql: &str) {
        if let Err(error) = self.hand.db.execute_batch(sql) {
            panic!("{error}: {sql}");
        }
    }
}

impl Hand {
    /// The rows of a statement that must hold, as text.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> Vec<Vec<String>> {
        let mut statement = match self.db.prepare(sql) {
            Ok(statement) => statement,
            Err(error) => panic!("{error}: {sql}"),
        };
        let width = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut found = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let text = |at| match row.get_ref(at).unwrap() {
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            };
            found.push((0..width).map(text).collect());
        }
        found
    }
}

//! The mark in a file; that of a database is tried with copies and with the real binary.

use std::path::PathBuf;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::SystemClock;
use crate::sqlite::SqliteEngine;

const ELSEWHERE: &str = "postgres://it's@db/swarm";

struct File {
    dir: TempDir,
}

impl File {
    fn new() -> File {
        let file = File {
            dir: tempfile::tempdir().unwrap(),
        };
        file.open().unwrap();
        file
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("ledger.db")
    }

    fn open(&self) -> Result<(), Error> {
        SqliteEngine::open(&self.path(), Box::new(SystemClock::new())).map(drop)
    }

    fn mark(&self) -> Option<Mark> {
        of(&Connection::open(self.path()).unwrap()).unwrap()
    }

    fn moved(&self) {
        let db = Connection::open(self.path()).unwrap();
        write_file(&db, &self.path(), &Mark::new(Kind::Moved, ELSEWHERE)).unwrap();
    }

    fn by_hand(&self, sql: &str) -> Result<(), String> {
        let db = Connection::open(self.path()).unwrap();
        db.execute_batch(sql).map_err(|error| error.to_string())
    }
}

const DEEDS: [&str; 8] = [
    "INSERT INTO tasks(id, title) VALUES ('x', 'X')",
    "INSERT OR IGNORE INTO tasks(id, title) VALUES ('x', 'X')",
    "REPLACE INTO agents(id, name) VALUES ('a', 'A')",
    "UPDATE tasks SET status = 'claimed', assigned_agent = 'a' WHERE id = 'there'",
    "DELETE FROM tasks WHERE id = 'there'",
    "INSERT INTO messages(id, type, from_agent) VALUES ('m', 'custom', 'a')",
    "INSERT INTO swarm_metadata(key, value) VALUES ('k', 'v')",
    "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('f', 'a', '2099-01-01T00:00:00.000Z')",
];

#[test]
fn a_moved_file_is_neither_served_nor_written_until_the_move_is_abandoned() {
    let file = File::new();
    file.by_hand("INSERT INTO tasks(id, title) VALUES ('there', 'T')")
        .unwrap();
    file.moved();
    let said = file.open().unwrap_err().to_string();
    for word in [
        "was moved to postgres://it's@db/swarm at 2",
        "--store",
        "--abandon-move",
    ] {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    for deed in DEEDS {
        assert_eq!(file.by_hand(deed).unwrap_err(), said, "{deed}");
    }
    assert!(file.open().is_err(), "a refused start changes nothing");
    let mark = abandon(&Place::Sqlite(file.path())).unwrap().unwrap();
    assert_eq!((mark.kind, &*mark.place), (Kind::Moved, ELSEWHERE));
    file.by_hand(DEEDS[0]).unwrap();
    file.open().unwrap();
    assert_eq!(abandon(&Place::Sqlite(file.path())).unwrap(), None);
}

#[test]
fn an_unserved_file_takes_no_writes_until_it_is_served() {
    let file = File::new();
    assert!(leave(&file.path(), ELSEWHERE).unwrap());
    assert!(!leave(&file.path(), "postgres://other/").unwrap());
    assert_eq!(file.mark().unwrap().place, ELSEWHERE, "the first counts");
    let said = file.by_hand(DEEDS[0]).unwrap_err();
    assert!(said.contains("is not served: since 2"), "{said}");
    assert!(said.contains("--store sqlite:"), "{said}");
    file.open().unwrap();
    assert_eq!(file.mark(), None);
    file.by_hand(DEEDS[0]).unwrap();
}

#[test]
fn a_moved_file_stays_moved_when_another_is_served_beside_it() {
    let file = File::new();
    file.moved();
    assert!(!leave(&file.path(), "sqlite:/other.db").unwrap());
    assert_eq!(file.mark().unwrap().kind, Kind::Moved);
}

#[test]
fn what_is_no_ledger_is_not_marked() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos.db");
    Connection::open(&photos)
        .unwrap()
        .execute_batch("CREATE TABLE photos(x)")
        .unwrap();
    let bytes = std::fs::read(&photos).unwrap();
    assert!(!leave(&photos, ELSEWHERE).unwrap());
    assert_eq!(std::fs::read(&photos).unwrap(), bytes);
}

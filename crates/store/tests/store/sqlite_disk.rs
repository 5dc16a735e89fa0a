//! The SQLite ledger's files: one that is gone is not written to, a log that is found is moved before anything else.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use switchboard_core::Slice;
use switchboard_core::verb::Serve;
use switchboard_store::conformance::{self, Ledger, register};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Engine, Error, ManualClock};
use tempfile::TempDir;

struct Kit {
    dir: TempDir,
    clock: ManualClock,
}

impl Kit {
    fn new() -> Kit {
        Kit {
            dir: tempfile::tempdir().unwrap(),
            clock: ManualClock::at(conformance::START),
        }
    }

    fn folder(&self) -> PathBuf {
        let folder = self.dir.path().join("data");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn engine(&self, path: &Path) -> Box<dyn Engine> {
        Box::new(SqliteEngine::open(path, Box::new(self.clock.clone())).unwrap())
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::new(self.engine(&self.folder().join("ledger.db")));
        ledger.run(register("a1", &[])).unwrap();
        ledger
    }

    /// What a killed hub leaves: the file, and a log with an agent in it that the file does not have.
    fn left_behind(&self) -> PathBuf {
        let at = self.dir.path().join("left");
        fs::create_dir_all(&at).unwrap();
        let path = at.join("ledger.db");
        drop(self.engine(&path));
        let mut ledger = Ledger::new(self.engine(&path));
        // No checkpoint gets past this.
        let _reads = reading(&path);
        ledger.run(register("a1", &[])).unwrap();
        let killed = self.dir.path().join("killed");
        fs::create_dir_all(&killed).unwrap();
        for name in ["ledger.db-wal", "ledger.db"] {
            fs::copy(at.join(name), killed.join(name)).unwrap();
        }
        killed.join("ledger.db")
    }
}

/// A program that reads the ledger as it is now, until it says `COMMIT`.
fn reading(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.execute_batch("BEGIN; SELECT count(*) FROM agents")
        .unwrap();
    db
}

fn log_bytes(path: &Path) -> u64 {
    path.with_extension("db-wal").metadata().unwrap().len()
}

/// Agents in the database file alone.
fn agents_in_file(path: &Path) -> u32 {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.db");
    fs::copy(path, &copy).unwrap();
    let db = Connection::open(copy).unwrap();
    db.query_row("SELECT count(*) FROM agents", [], |row| row.get(0))
        .unwrap()
}

#[track_caller]
fn is_unavailable<T: std::fmt::Debug>(answer: Result<T, Error>, word: &str) {
    match answer {
        Err(Error::Unavailable(why)) => assert!(why.contains(word), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// What becomes of the directory, in a word and in fact.
type Way = (&'static str, fn(&Path));

#[test]
fn a_ledger_that_is_gone_is_neither_written_nor_read_also_when_its_files_come_back() {
    let ways: [Way; 5] = [
        ("removed", |data| fs::remove_dir_all(data).unwrap()),
        ("moved", |data| {
            fs::rename(data, data.with_file_name("away")).unwrap();
        }),
        ("without its log", |data| {
            fs::remove_file(data.join("ledger.db-wal")).unwrap();
        }),
        ("without its shared memory", |data| {
            fs::remove_file(data.join("ledger.db-shm")).unwrap();
        }),
        ("replaced", |data| {
            fs::copy(data.join("ledger.db"), data.join("copy")).unwrap();
            fs::rename(data.join("copy"), data.join("ledger.db")).unwrap();
        }),
    ];
    for (way, take_away) in ways {
        let kit = Kit::new();
        let mut ledger = kit.ledger();
        let reader = ledger.reader();
        reader.check().unwrap();
        let folder = kit.folder();
        take_away(&folder);
        is_unavailable(ledger.engine().look(), "restart the hub");
        let mut slice = Slice::default();
        is_unavailable(ledger.engine().begin(&mut slice), "restart the hub");
        is_unavailable(reader.check(), "restart the hub");
        is_unavailable(reader.is_ready(), "restart the hub");
        let door = ledger.engine().door().unwrap();
        assert!(door.open().is_err(), "{way}");
        // Others come in their place.
        fs::create_dir_all(&folder).unwrap();
        for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
            fs::write(folder.join(name), name).unwrap();
        }
        is_unavailable(ledger.engine().begin(&mut slice), "restart the hub");
        drop((reader, ledger));
        for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
            let found = fs::read_to_string(folder.join(name));
            assert_eq!(found.unwrap(), name, "{way}: not the hub's to touch");
        }
    }
}

#[test]
fn a_batch_under_way_is_not_committed_to_a_ledger_that_is_gone() {
    let kit = Kit::new();
    let mut ledger = kit.ledger();
    let mut slice = Slice::default();
    let folder = kit.folder();
    let engine = ledger.engine();
    engine.begin(&mut slice).unwrap();
    let away = folder.with_file_name("away");
    fs::rename(&folder, &away).unwrap();
    // A look is good for a moment.
    while !matches!(engine.look(), Err(Error::Unavailable(_))) {}
    is_unavailable(engine.commit(), "moved");
    engine.rollback();
    drop(ledger);
    // Moved back, it is whole.
    fs::rename(&away, &folder).unwrap();
    let reader = kit.engine(&folder.join("ledger.db")).reader().unwrap();
    assert_eq!(
        conformance::Everything::read(reader.as_ref()).agents.len(),
        1
    );
}

#[test]
fn a_link_to_the_ledger_is_followed_and_watched() {
    let kit = Kit::new();
    drop(kit.ledger());
    let link = kit.dir.path().join("link.db");
    std::os::unix::fs::symlink(kit.folder().join("ledger.db"), &link).unwrap();
    let mut engine = kit.engine(&link);
    engine.look().unwrap();
    fs::remove_file(&link).unwrap();
    is_unavailable(engine.look(), "link.db");
}

#[test]
fn a_log_that_is_found_is_in_the_file_before_anything_is_written() {
    let kit = Kit::new();
    let path = kit.left_behind();
    assert!(log_bytes(&path) > 0);
    assert_eq!(agents_in_file(&path), 0);
    let engine = kit.engine(&path);
    assert!(engine.is_writable());
    assert_eq!(agents_in_file(&path), 1);
}

#[test]
fn while_somebody_reads_a_log_that_was_found_nothing_is_written_behind_it() {
    let kit = Kit::new();
    let path = kit.left_behind();
    let foreign = reading(&path);
    let before = fs::read(path.with_extension("db-wal")).unwrap();
    let mut engine = kit.engine(&path);
    assert!(!engine.is_writable());
    let reader = engine.reader().unwrap();
    assert_eq!(
        conformance::Everything::read(reader.as_ref()).agents.len(),
        1
    );
    let mut slice = Slice::default();
    is_unavailable(engine.begin(&mut slice), "must be checkpointed first");
    is_unavailable(reader.is_ready(), "open read transaction");
    let mut session = engine.door().unwrap().open().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let written = session.sequence("DELETE FROM messages", until);
    assert!(
        written
            .unwrap_err()
            .message
            .contains("open read transaction")
    );
    let after = fs::read(path.with_extension("db-wal")).unwrap();
    assert!(before == after, "something was written into the log");
    foreign.execute_batch("COMMIT").unwrap();
    while !engine.is_writable() {
        engine.look().unwrap();
    }
    reader.is_ready().unwrap();
    engine.begin(&mut slice).unwrap();
    engine.rollback();
    assert_eq!(agents_in_file(&path), 1);
}

#[test]
fn a_log_beyond_its_bound_takes_no_more_until_it_could_be_moved() {
    let kit = Kit::new();
    let mut ledger = kit.ledger();
    let path = kit.folder().join("ledger.db");
    let foreign = reading(&path);
    ledger.run(Serve { starting: true }).unwrap();
    // Sparse: nothing of it is on the disk, and nothing of it is valid.
    let log = fs::File::options()
        .write(true)
        .open(path.with_extension("db-wal"))
        .unwrap();
    let bound = switchboard_core::limits::LOG_FILE_BYTES_MAX;
    let mut slice = Slice::default();
    log.set_len(bound).unwrap();
    ledger.engine().look().unwrap();
    ledger.engine().begin(&mut slice).unwrap();
    ledger.engine().rollback();
    log.set_len(bound + 1).unwrap();
    ledger.engine().look().unwrap();
    is_unavailable(ledger.engine().begin(&mut slice), "writes are refused");
    foreign.execute_batch("COMMIT").unwrap();
    while ledger.engine().begin(&mut slice).is_err() {
        std::thread::yield_now();
    }
    ledger.engine().rollback();
    assert!(log_bytes(&path) < bound);
}

//! Bits flip on the disk: what was acknowledged is there, or the ledger is refused. Never in silence something older.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use switchboard_core::verb::{CreateTasks, NewTask};
use switchboard_store::conformance::{self, Ledger, Random};
use switchboard_store::copy::{self, Place};
use switchboard_store::postgres::{Address, PostgresEngine};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Engine as _, Error, ManualClock};
use tempfile::TempDir;

const BATCHES: u64 = 24;
/// How often a bit is flipped in each kind of file; each time two starts.
const FLIPS: u64 = 60;

fn open(path: &Path) -> Result<SqliteEngine, Error> {
    let clock = ManualClock::at(conformance::START);
    SqliteEngine::open(path, Box::new(clock))
}

fn log_of(ledger: &Path) -> PathBuf {
    ledger.with_extension("db-wal")
}

fn create(ledger: &mut Ledger, n: u64) {
    let tasks = vec![NewTask::plain(format!("t-{n}"), "a title")];
    ledger.run(CreateTasks { tasks }).expect("the id is new");
}

/// The files of a ledger as a kill leaves them: nothing of the last batches is in the file itself.
struct Killed {
    dir: TempDir,
    /// Bytes of the log that belong to the last commit and may be lost to a power cut: from here on.
    last_from: usize,
    /// Events that were acknowledged, and those without the last commit.
    events: u64,
    events_before: u64,
}

impl Killed {
    /// `moved`: so many batches are in the file itself, too.
    fn after(moved: u64) -> Killed {
        let dir = tempfile::tempdir().expect("a directory");
        let live = tempfile::tempdir().expect("a directory");
        let path = live.path().join("x.db");
        let mut ledger = Ledger::new(Box::new(open(&path).expect("a new file opens")));
        create(&mut ledger, 0);
        let reader = Connection::open(&path).expect("it opens");
        let reads = "BEGIN; SELECT count(*) FROM tasks";
        // Reads on, so that the log is not begun anew.
        reader.execute_batch(reads).expect("it reads");
        let (mut last_from, mut events_before) = (0, 0);
        for n in 1..BATCHES {
            (last_from, events_before) = (bytes_of(&log_of(&path)), seq(&ledger));
            create(&mut ledger, n);
            if n == moved {
                reader.execute_batch("ROLLBACK").expect("it ends");
                reader.execute_batch(reads).expect("it reads");
                Connection::open(&path)
                    .and_then(|db| db.execute_batch("PRAGMA wal_checkpoint(PASSIVE)"))
                    .expect("it is moved");
            }
        }
        for file in [path.clone(), log_of(&path)] {
            fs::copy(&file, dir.path().join(file.file_name().expect("a name"))).expect("a copy");
        }
        let events = seq(&ledger);
        Killed {
            dir,
            last_from,
            events,
            events_before,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("x.db")
    }

    /// The same files with one bit changed; then it is started.
    fn start_with_flip(&self, in_log: bool, byte: usize, bit: u8) -> Result<u64, Error> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.db");
        fs::copy(self.path(), &path).expect("a copy");
        fs::copy(log_of(&self.path()), log_of(&path)).expect("a copy");
        let file = if in_log { log_of(&path) } else { path.clone() };
        let mut bytes = fs::read(&file).expect("it is there");
        bytes[byte] ^= 1 << bit;
        fs::write(&file, &bytes).expect("it can be written");
        let opened = open(&path).map(|engine| Ledger::new(Box::new(engine)).reader());
        if opened.is_err() {
            assert!(
                fs::read(&file).expect("it is there") == bytes,
                "it was changed"
            );
        }
        opened?.head().map(|head| head.seq)
    }
}

fn bytes_of(file: &Path) -> usize {
    fs::metadata(file).map_or(0, |meta| meta.len() as usize)
}

fn seq(ledger: &Ledger) -> u64 {
    ledger.reader().head().expect("it has a head").seq
}

fn seed() -> u64 {
    let seed = std::env::var("SWITCHBOARD_SEED").ok();
    seed.map_or(7, |seed| seed.parse().expect("a number"))
}

#[test]
fn a_bit_flipped_in_the_log_is_refused_unless_a_power_cut_leaves_the_same() {
    let seed = seed();
    println!("SWITCHBOARD_SEED={seed}");
    let mut random = Random::new(seed);
    let mut refused = 0;
    for moved in [0, BATCHES / 2, BATCHES - 1] {
        let killed = Killed::after(moved);
        let bytes = bytes_of(&log_of(&killed.path()));
        assert_eq!(bytes_of(&killed.path()) % 4096, 0);
        for _ in 0..FLIPS {
            // Every third one in the first bytes, on which all the others rest.
            let end = if random.percent(30) { 32 } else { bytes };
            let (byte, bit) = (random.below(end as u64) as usize, random.below(8) as u8);
            let said = format!("{moved} moved, byte {byte} of {bytes}, bit {bit}");
            match killed.start_with_flip(true, byte, bit) {
                Err(Error::Corrupt(why)) => {
                    assert!(why.contains("backup"), "{said}: {why}");
                    refused += 1;
                }
                Err(error) => assert!(byte < 32, "{said}: {error}"),
                Ok(found) if found == killed.events => {}
                Ok(found) => {
                    assert!(byte >= killed.last_from, "{said}: only {found} events");
                    assert_ne!(moved, BATCHES - 1, "{said}: the file had all of it");
                    assert_eq!(found, killed.events_before, "{said}");
                }
            }
        }
    }
    assert!(refused > FLIPS, "only {refused} were refused");
}

#[test]
fn what_a_kill_or_a_power_cut_leaves_of_the_log_is_taken_up() {
    let killed = Killed::after(3);
    let whole = fs::read(log_of(&killed.path())).expect("it is there");
    let frame = 4096 + 24;
    let cuts = [
        killed.last_from,
        killed.last_from + frame,
        whole.len() - 1,
        whole.len(),
    ];
    for cut in cuts {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.db");
        fs::copy(killed.path(), &path).expect("a copy");
        fs::write(log_of(&path), &whole[..cut]).expect("it can be written");
        let found = seq(&Ledger::new(Box::new(open(&path).expect("it is taken up"))));
        let expected = if cut == whole.len() {
            killed.events
        } else {
            killed.events_before
        };
        assert_eq!(found, expected, "cut at {cut} of {}", whole.len());
    }
}

#[test]
fn commits_of_strangers_that_were_never_synced_are_an_ordinary_power_cut() {
    let live = tempfile::tempdir().expect("a directory");
    let path = live.path().join("x.db");
    let mut ledger = Ledger::new(Box::new(open(&path).expect("a new file opens")));
    create(&mut ledger, 0);
    let before = bytes_of(&log_of(&path));
    let stranger = Connection::open(&path).expect("it opens");
    stranger
        .execute_batch("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0")
        .expect("a setting");
    for n in 0..5 {
        let sql = format!("INSERT INTO swarm_metadata(key, value) VALUES ('k{n}', 'v')");
        stranger.execute_batch(&sql).expect("it is written");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("x.db");
    fs::copy(&path, &copy).expect("a copy");
    let mut log = fs::read(log_of(&path)).expect("it is there");
    assert!(log.len() > before + 4096, "{before} of {}", log.len());
    log[before + 100] ^= 1;
    fs::write(log_of(&copy), log).expect("it can be written");
    let opened = Ledger::new(Box::new(open(&copy).expect("it is taken up")));
    assert_eq!(seq(&opened), seq(&ledger));
}

#[test]
fn a_file_that_lost_its_bytes_is_refused_while_its_log_is_there() {
    let killed = Killed::after(0);
    fs::write(killed.path(), b"").expect("it can be written");
    let refused = open(&killed.path()).map(drop).expect_err("it is damaged");
    assert!(refused.to_string().contains("is empty"), "{refused}");
    assert!(bytes_of(&log_of(&killed.path())) > 0);
}

/// The names in a directory may reach the disk in any order: the journal of the first commit can be there again beside the
/// log that came after it. A power cut while that is put right leaves an empty file.
#[test]
fn what_a_power_cut_leaves_of_a_file_that_was_just_made_is_taken_up() {
    let killed = Killed::after(0);
    let head = fs::read(log_of(&killed.path())).expect("it is there")[..32].to_vec();
    let dir = tempfile::tempdir().expect("a directory");
    let made = dir.path().join("made.db");
    Connection::open(&made)
        .and_then(|db| db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())))
        .expect("it is made");
    let page = fs::read(&made).expect("it is there");
    assert_eq!(page.len(), 4096);
    // <https://sqlite.org/fileformat2.html#the_rollback_journal>: no page was there before.
    let mut journal = vec![0; 512];
    journal[..8].copy_from_slice(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    journal[20..24].copy_from_slice(&512_u32.to_be_bytes());
    journal[24..28].copy_from_slice(&4096_u32.to_be_bytes());
    for (bytes, journal) in [
        (&page[..], None),
        (&page, Some(&journal)),
        (&[], None),
        (&[], Some(&journal)),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.db");
        fs::write(&path, bytes).expect("it can be written");
        fs::write(log_of(&path), &head).expect("it can be written");
        if let Some(journal) = journal {
            fs::write(path.with_extension("db-journal"), journal).expect("it can be written");
        }
        let said = format!("{} bytes, journal: {}", bytes.len(), journal.is_some());
        let engine = open(&path).unwrap_or_else(|error| panic!("{said}: {error}"));
        create(&mut Ledger::new(Box::new(engine)), 0);
    }
}

#[test]
fn damage_that_a_reader_finds_ends_the_writing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.db");
    let mut ledger = Ledger::new(Box::new(open(&path).expect("a new file opens")));
    for n in 0..200 {
        create(&mut ledger, n);
    }
    drop(ledger);
    let mut engine = open(&path).expect("it opens");
    let reader = engine.reader().expect("it reads");
    let page: i64 = Connection::open(&path)
        .and_then(|db| {
            let leaf = "SELECT max(pageno) FROM dbstat WHERE name = 'tasks' AND pagetype = 'leaf'";
            db.query_row(leaf, [], |row| row.get(0))
        })
        .expect("a table has pages");
    let mut bytes = fs::read(&path).expect("it is there");
    let from = (page as usize - 1) * 4096;
    bytes[from..from + 4096].fill(0xa5);
    fs::write(&path, bytes).expect("it can be written");
    engine
        .begin(&mut switchboard_core::Slice::default())
        .expect("nobody has seen it yet");
    engine.rollback();
    assert!(!engine.look().expect("it looks"));
    let all = switchboard_store::Page {
        after: None,
        limit: 500,
    };
    let listed = reader.tasks(&switchboard_store::TaskFilter::default(), &all);
    assert!(matches!(listed, Err(Error::Corrupt(_))), "{listed:?}");
    assert!(engine.look().expect("it looks"), "the writer is not called");
    for _ in 0..2 {
        let begun = engine.begin(&mut switchboard_core::Slice::default());
        assert!(matches!(begun, Err(Error::Corrupt(_))), "{begun:?}");
    }
    assert!(matches!(engine.commit(), Err(Error::Corrupt(_))));
}

#[test]
fn a_bit_flipped_in_the_file_is_refused_or_leaves_the_log_of_events_as_it_was() {
    let seed = seed();
    println!("SWITCHBOARD_SEED={seed}");
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().expect("a directory");
    let whole = dir.path().join("whole.db");
    let mut ledger = Ledger::new(Box::new(open(&whole).expect("a new file opens")));
    for n in 0..200 {
        create(&mut ledger, n);
    }
    let events = ledger.reader().events(0, 10_000).expect("it reads");
    drop(ledger);
    let bytes = fs::read(&whole).expect("it is there");
    let mut refused = 0;
    for _ in 0..FLIPS {
        let path = dir.path().join("flipped.db");
        let (byte, bit) = (random.below(bytes.len() as u64) as usize, random.below(8));
        let mut flipped = bytes.clone();
        flipped[byte] ^= 1 << bit;
        fs::write(&path, flipped).expect("it can be written");
        let _ = fs::remove_file(log_of(&path));
        match open(&path) {
            Ok(engine) => {
                let reader = engine.reader().expect("it reads");
                let found = reader.events(0, 10_000).expect("it reads");
                assert!(found == events, "byte {byte}, bit {bit}: other events");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0, "none was refused");
}

#[test]
fn the_chain_begins_after_rows_that_have_no_hash_and_is_kept_when_rows_are_pruned() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.db");
    let sql = |sql: &str| {
        let db = Connection::open(&path).expect("it opens");
        db.execute_batch(sql).expect("it is done");
    };
    let fill = |from: u64| {
        let mut ledger = Ledger::new(Box::new(open(&path).expect("it opens")));
        for n in from..from + 10 {
            create(&mut ledger, n);
        }
    };
    let verify = || {
        let db = Connection::open(&path).expect("it opens");
        let verified = switchboard_store::sqlite::verify_log(&db, None);
        verified.map(|verified| (verified.rows, verified.without_hash))
    };
    fill(0);
    sql("UPDATE sb_log SET before = NULL, hash = NULL");
    fill(10);
    assert_eq!(verify().expect("it is sound"), (20, 10));
    sql("DELETE FROM sb_log WHERE first <= 15");
    fill(20);
    assert_eq!(verify().expect("it is sound"), (15, 0));
    sql("UPDATE sb_log SET body = replace(body, 't-21', 't-99')");
    let broken = verify().expect_err("it was changed").to_string();
    assert!(broken.contains("were changed after"), "{broken}");
    let refused = open(&path)
        .map(drop)
        .expect_err("it is refused")
        .to_string();
    assert!(refused.contains("backup"), "{refused}");
}

#[test]
fn a_database_chains_what_any_build_logs_and_a_change_is_found() {
    let Some(server) = switchboard_test_cluster::Cluster::shared("the chain of the log") else {
        return;
    };
    let database = server.create_database();
    let address = || Address::parse(&database.url).expect("an address");
    let fill = |from: u64| {
        let engine = PostgresEngine::open(address()).expect("it opens");
        let mut ledger = Ledger::new(Box::new(engine));
        for n in from..from + 10 {
            create(&mut ledger, n);
        }
    };
    fill(0);
    fill(10);
    let verify = || switchboard_store::postgres::verify_log(&address(), None);
    let sound = || {
        let verified = verify().expect("it is sound");
        (verified.rows, verified.without_hash)
    };
    assert_eq!(sound(), (20, 0));

    // Coordinators that take turns, also after a batch that came to nothing.
    let open = || PostgresEngine::open(address()).expect("it opens");
    let mut coordinators = [(); 2].map(|()| Ledger::new(Box::new(open())));
    for (n, turn) in [0, 1, 0, 0, 0, 1, 1, 0].into_iter().enumerate() {
        let vain = CreateTasks {
            tasks: vec![NewTask::plain("in vain", "a title")],
        };
        coordinators[turn].run_in_vain(&[&vain]);
        create(&mut coordinators[turn], 20 + n as u64);
        create(&mut coordinators[turn], 40 + n as u64);
    }
    assert_eq!(sound(), (36, 0));
    // Who knows the row before brings the hash along.
    database.sql("ALTER TABLE sb_log DISABLE TRIGGER USER");
    create(&mut coordinators[0], 60);
    create(&mut coordinators[0], 61);
    database.sql("ALTER TABLE sb_log ENABLE TRIGGER USER");
    assert_eq!(sound(), (38, 0));

    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("copy.db");
    let database_url = database.url.clone();
    database.sql("UPDATE sb_head SET served_at = 0");
    let (from, to) = (Place::Postgres(address()), Place::Sqlite(path.clone()));
    copy::run(&from, &to, &NoKey, &mut |_| ControlFlow::Continue(()))
        .unwrap_or_else(|failure| panic!("{database_url}: {failure}"));
    let db = Connection::open(&path).expect("it opens");
    let verified = switchboard_store::sqlite::verify_log(&db, None).expect("both hash alike");
    assert_eq!((verified.rows, verified.without_hash), (38, 0));

    database.sql("UPDATE sb_log SET body = replace(body, 't-7', 't-8')");
    let broken = verify().expect_err("it was changed").to_string();
    assert!(broken.contains("were changed after"), "{broken}");
    assert!(PostgresEngine::open(address()).is_err());
}

struct NoKey;

impl copy::KeyFile for NoKey {
    fn key(&self) -> Result<Option<copy::Key>, Error> {
        Ok(None)
    }

    fn keep(&self, _: &copy::Key) -> Result<(), Error> {
        Ok(())
    }
}

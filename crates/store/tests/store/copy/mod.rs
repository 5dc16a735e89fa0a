//! A ledger is moved from a file to a database and back: everything arrives, or the copy is not served.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use switchboard_store::conformance::{self, Deed, Everything, Ledger, Random, perform};
use switchboard_store::copy::{self, Copied, Failure, Key, KeyFile, Phase, Place, Summary};
use switchboard_store::postgres::{Address, PostgresEngine};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Engine, Error, ManualClock};
use switchboard_test_cluster::{Cluster, Database, PgBouncer, PoolMode};
use tempfile::TempDir;

mod moved;
mod refused;

/// The file beside a ledger.
#[derive(Default)]
struct Kept(Mutex<Option<Key>>);

impl KeyFile for Kept {
    fn key(&self) -> Result<Option<Key>, Error> {
        Ok(*self.0.lock().expect("nobody panicked"))
    }

    fn keep(&self, key: &Key) -> Result<(), Error> {
        *self.0.lock().expect("nobody panicked") = Some(*key);
        Ok(())
    }
}

const KEY: Key = [7; 32];

fn kept() -> Kept {
    Kept(Mutex::new(Some(KEY)))
}

struct World {
    dir: TempDir,
    database: Database,
}

/// A file with a history, and an empty database.
fn world(seed: u64) -> Option<World> {
    let server = Cluster::shared("copying to and from PostgreSQL")?;
    let world = World {
        dir: tempfile::tempdir().expect("a directory"),
        database: server.create_database(),
    };
    fill(&world.file("source.db"), seed, 400);
    Some(world)
}

impl World {
    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn source(&self) -> Place {
        Place::Sqlite(self.file("source.db"))
    }

    fn there(&self) -> Place {
        Place::Postgres(Address::parse(&self.database.url).expect("an address"))
    }

    fn back(&self) -> Place {
        Place::Sqlite(self.file("made/back.db"))
    }
}

/// Lets a swarm live a while, then adds what swarms seldom do.
fn fill(file: &Path, seed: u64, steps: usize) {
    let clock = ManualClock::at(conformance::START);
    let engine = SqliteEngine::open(file, Box::new(clock.clone())).expect("a new file opens");
    let mut ledger = Ledger::new(Box::new(engine));
    let mut random = Random::new(seed);
    for _ in 0..steps / 4 {
        let seen = Everything::read(&*ledger.reader());
        let deeds: Vec<Deed> = (0..4).map(|_| Deed::choose(random.draw(), &seen)).collect();
        perform(&mut ledger, &clock, &deeds);
    }
    drop(ledger);
    as_the_hub(file).execute_batch(
        "UPDATE tasks SET title = 'nul ' || char(0) || ' sub ' || char(26) || '0 end' WHERE number % 2 = 1;
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2600)
         INSERT INTO sb_nonce SELECT 'agent ' || (i % 7), 'nonce ' || char(i % 40) || i, i FROM n;
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
         INSERT INTO sb_dep SELECT 'gone ' || (i / 900), i, 'task' FROM n;
         INSERT INTO sb_former_agent VALUES ('ä' || char(0), 'former', 1, 2, 3, 4, 5);
         INSERT INTO sb_sql_agent VALUES ('direct');
         INSERT INTO sb_record(kind, key, value, owner, position, due_at) VALUES ('sample', 'ä',
           '{\"v\":2,\"kind\":\"sample\",\"name\":\"ä\",\"owner\":\"\",\"position\":-7,\"due_at\":9}', '', -7, 9);
         INSERT INTO messages(number, id, type, from_agent, to_agent, rev, copy_of) VALUES (-3, 'm:direct', 'custom', 'a', 'direct', 1, 1);
         INSERT INTO migrations(id, name) VALUES (1, 'theirs');
         INSERT INTO swarm_metadata(key, value) VALUES ('note', NULL);
         INSERT INTO quality_snapshots(id, test_coverage, build_output) VALUES ('hand', 0.1, 'x');
         INSERT INTO sb_answer(n, principal, operation, key, body_hash, answer, at)
           SELECT coalesce(max(n), 0) + 1, 'p', 'o', 'k', x'00ff', zeroblob(100), 1 FROM sb_answer;
         UPDATE sb_head SET answer_rows = answer_rows + 1, answer_bytes = answer_bytes + 100;",
    )
    .expect("rows by hand");
}

/// Whatever it writes is not taken for a hand write.
fn as_the_hub(file: &Path) -> Connection {
    let db = Connection::open(file).expect("a file");
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .expect("triggers are switched off");
    db
}

fn everything(place: &Place) -> Everything {
    let clock = ManualClock::at(conformance::START);
    let engine: Box<dyn Engine> = match place {
        Place::Sqlite(file) => {
            Box::new(SqliteEngine::open(file, Box::new(clock)).expect("the file opens"))
        }
        Place::Postgres(address) => {
            Box::new(PostgresEngine::open(address.clone()).expect("the database opens"))
        }
    };
    Everything::read(&*engine.reader().expect("a reader"))
}

fn quietly(_: Copied) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[track_caller]
fn copied(from: &Place, to: &Place, keys: &Kept) -> Summary {
    copy::run(from, to, keys, &mut quietly).expect("the copy is made")
}

#[track_caller]
fn refused(done: Result<Summary, Failure>, words: &[&str]) {
    let said = done.expect_err("it is refused").to_string();
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[track_caller]
fn opens_in_vain(place: &Place) {
    let said = match place {
        Place::Sqlite(file) => {
            let clock = ManualClock::at(conformance::START);
            SqliteEngine::open(file, Box::new(clock)).err()
        }
        Place::Postgres(address) => PostgresEngine::open(address.clone()).err(),
    };
    let said = said.expect("half a ledger is not served").to_string();
    assert!(said.contains("unfinished copy"), "{said}");
}

#[test]
fn a_ledger_goes_to_a_database_and_back_and_stays_the_same() {
    for seed in 0..3 {
        let Some(world) = world(seed) else { return };
        let (source, there, back) = (world.source(), world.there(), world.back());
        let before = everything(&source);
        assert!(
            before
                .tasks
                .iter()
                .any(|task| task.about.title.contains('\0'))
        );
        let went = copied(&source, &there, &kept());
        assert_eq!(went.notes, Vec::<String>::new());
        assert_eq!(went.events, before.log.len() as u64);
        assert_eq!(went.resumed, 0);
        before.assert_same(&everything(&there), "in the database");
        let keys = Kept::default();
        let came = copied(&there, &back, &keys);
        assert_eq!(came, went);
        assert_eq!(keys.key().unwrap(), Some(KEY), "the key moved along");
        before.assert_same(&everything(&back), "after its return");
        moved::abandoned(&source);
        before.assert_same(&everything(&source), "where it came from");
        // Also what no reader sees.
        let same = copy::verify(&source, &back, &keys, &mut quietly).expect("they are the same");
        assert_eq!(same.rows, went.rows);
    }
}

#[test]
fn learnings_are_found_by_their_words_after_a_return() {
    let Some(world) = world(5) else { return };
    as_the_hub(&world.file("source.db"))
        .execute_batch(
            "INSERT INTO sb_learning(id, text, created_at) VALUES ('l-hand', 'the quokka sleeps', 1);
             INSERT INTO sb_learning_words(sb_learning_words) VALUES ('rebuild')",
        )
        .unwrap();
    copied(&world.source(), &world.there(), &kept());
    copied(&world.there(), &world.back(), &Kept::default());
    let Place::Sqlite(file) = world.back() else {
        unreachable!()
    };
    let clock = ManualClock::at(conformance::START);
    let engine = SqliteEngine::open(&file, Box::new(clock)).unwrap();
    let found = engine.reader().unwrap().learnings("quokka", 5).unwrap();
    assert_eq!(found.len(), 1);
}

/// Stops after each page, again and again, until it is done.
fn in_many_runs(from: &Place, to: &Place, keys: &Kept) -> (u32, Summary) {
    let (mut runs, mut copied) = (0, 0);
    loop {
        runs += 1;
        assert!(runs < 1000, "every run gets somewhere");
        let pages = Cell::new(0);
        let done = copy::run(from, to, keys, &mut |step| {
            if step.phase == Phase::Verifying {
                return ControlFlow::Continue(());
            }
            assert!(step.rows > copied, "no page is copied twice");
            assert!(step.rows <= step.of);
            copied = step.rows;
            pages.set(pages.get() + 1);
            ControlFlow::Break(())
        });
        match done {
            Ok(summary) => return (runs, summary),
            Err(Failure::Stopped) => opens_in_vain(to),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_copy_that_was_stopped_after_any_page_goes_on_there() {
    let Some(world) = world(11) else { return };
    let before = everything(&world.source());
    let (runs, summary) = in_many_runs(&world.source(), &world.there(), &kept());
    assert!(runs > 15, "there were {runs}");
    assert_eq!(
        summary.resumed,
        summary.rows - 1,
        "all but the head was there"
    );
    before.assert_same(&everything(&world.there()), "in the database");
    let (runs, _) = in_many_runs(&world.there(), &world.back(), &Kept::default());
    assert!(runs > 15, "there were {runs}");
    before.assert_same(&everything(&world.back()), "after its return");
}

/// Stops when all is copied and nothing is verified.
fn all_but_verified(from: &Place, to: &Place, keys: &Kept) {
    let done = copy::run(from, to, keys, &mut |step| match step.phase {
        Phase::Copying => ControlFlow::Continue(()),
        Phase::Verifying => ControlFlow::Break(()),
    });
    assert!(matches!(done, Err(Failure::Stopped)));
}

#[test]
fn a_row_that_changed_in_the_target_is_found_and_named_and_the_target_stays_unfinished() {
    let Some(world) = world(17) else { return };
    let (source, there, keys) = (world.source(), world.there(), kept());
    all_but_verified(&source, &there, &keys);
    let last = world.database.sql("SELECT max(number) FROM tasks");
    let sql = format!("UPDATE tasks SET title = 'other' WHERE number = {last}");
    world.database.sql(&sql);
    let Err(Failure::Differs { differences, count }) =
        copy::run(&source, &there, &keys, &mut quietly)
    else {
        panic!("the change was not seen");
    };
    assert_eq!(count, 1);
    assert_eq!(differences[0].table, "tasks");
    assert_eq!(differences[0].row, format!("number={last}"));
    assert_eq!(differences[0].column, Some("title"));
    assert!(
        differences[0].says.contains("\"other\" in the target"),
        "{}",
        differences[0]
    );
    opens_in_vain(&there);
}

#[test]
fn whatever_differs_between_two_ledgers_is_named() {
    let Some(world) = world(23) else { return };
    let (source, there, keys) = (world.source(), world.there(), kept());
    copied(&source, &there, &keys);
    let task = world.database.sql("SELECT max(number) FROM tasks");
    let log: i64 = world
        .database
        .sql("SELECT max(first) FROM sb_log")
        .parse()
        .unwrap();
    let cases: [(&str, &str); 8] = [
        (
            "DELETE FROM tasks WHERE number = (SELECT max(number) FROM tasks)",
            &format!("tasks number={task}: it is missing from the target"),
        ),
        (
            "INSERT INTO sb_dep VALUES ('zz', 5, 'extra')",
            "sb_dep needs=\"zz\", number=5: it is in the target only",
        ),
        (
            "UPDATE sb_nonce SET valid_until = -1 WHERE value = 'nonce ' || chr(5) || '5'",
            "sb_nonce agent=\"agent 5\", value=\"nonce \\u{5}5\", column valid_until: 5 in the source, -1 in the target",
        ),
        (
            "UPDATE quality_snapshots SET test_coverage = 0.2 WHERE id = 'hand'",
            "column test_coverage: 0.1 in the source, 0.2 in the target",
        ),
        (
            "UPDATE sb_answer SET answer = '\\x01' WHERE key = 'k'",
            "column answer: 100 bytes in the source, 1 bytes in the target",
        ),
        (
            "UPDATE sb_head SET fencing = 99999",
            "sb_head id=1, column fencing",
        ),
        (
            "UPDATE sb_log SET body = regexp_replace(body, '\"at\":[0-9]+', '\"at\":1') WHERE first = (SELECT max(first) FROM sb_log)",
            "has different content in the target",
        ),
        (
            "DELETE FROM sb_log WHERE first = (SELECT max(first) FROM sb_log)",
            &format!("sb_log first={log}: it is missing from the target"),
        ),
    ];
    for (sql, expected) in cases {
        let changed = world.database.sql(&format!(
            "SET switchboard.hub = 'on'; WITH done AS ({sql} RETURNING 1) SELECT count(*) FROM done"
        ));
        assert_eq!(changed, "1", "{sql}");
        refused(
            copy::verify(&source, &there, &keys, &mut quietly),
            &[expected],
        );
    }
}

#[test]
fn many_differences_are_counted_and_some_are_named() {
    let Some(world) = world(29) else { return };
    let (source, there, keys) = (world.source(), world.there(), kept());
    copied(&source, &there, &keys);
    world
        .database
        .sql("UPDATE sb_nonce SET valid_until = valid_until + 1");
    let Err(Failure::Differs { differences, count }) =
        copy::verify(&source, &there, &keys, &mut quietly)
    else {
        panic!("the change was not seen");
    };
    assert_eq!(differences.len(), copy::DIFFERENCES_MAX);
    assert!(count > 2600, "{count}");
}

#[test]
fn a_log_with_a_gap_is_not_taken_for_whole() {
    let Some(world) = world(31) else { return };
    let db = as_the_hub(&world.file("source.db"));
    db.execute_batch("DELETE FROM sb_log WHERE first = (SELECT first FROM sb_log ORDER BY first LIMIT 1 OFFSET 3)")
        .unwrap();
    drop(db);
    refused(
        copy::run(&world.source(), &world.there(), &kept(), &mut quietly),
        &["sb_log", "are missing"],
    );
}

#[test]
fn wrong_counters_of_the_source_are_told_and_do_not_stop_the_copy() {
    let Some(world) = world(37) else { return };
    let db = as_the_hub(&world.file("source.db"));
    db.execute_batch("UPDATE sb_head SET leases = leases + 5, task_number = 0")
        .unwrap();
    drop(db);
    let summary = copied(&world.source(), &world.there(), &kept());
    assert_eq!(summary.notes.len(), 2, "{:?}", summary.notes);
    assert!(summary.notes[0].contains("leases"), "{:?}", summary.notes);
}

#[test]
fn a_ledger_moves_through_a_pooler_as_well() {
    let Some(world) = world(73) else { return };
    let server = Cluster::shared("a pooler").expect("it was there a moment ago");
    let pooler = match PgBouncer::start(server, PoolMode::Transaction) {
        Ok(pooler) => pooler,
        Err(missing) => return missing.skip("copying through a pooler"),
    };
    let address = Address::parse(&pooler.url(&world.database.name)).expect("an address");
    let there = Place::Postgres(address);
    let before = everything(&world.source());
    copied(&world.source(), &there, &kept());
    copied(&there, &world.back(), &Kept::default());
    before.assert_same(&everything(&world.back()), "after its return");
}

#[test]
fn a_page_is_bounded_in_bytes() {
    let Some(world) = world(79) else { return };
    let db = as_the_hub(&world.file("source.db"));
    db.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
         INSERT INTO quality_snapshots(id, build_output) SELECT 'big ' || i, hex(randomblob(150000)) FROM n",
    )
    .unwrap();
    drop(db);
    for (from, to) in [
        (world.source(), world.there()),
        (world.there(), world.back()),
    ] {
        let mut pages = 0;
        copy::run(&from, &to, &kept(), &mut |step| {
            let is_big = step.table == "quality_snapshots" && step.phase == Phase::Copying;
            pages += u32::from(is_big);
            ControlFlow::Continue(())
        })
        .expect("the copy is made");
        // 12 MB, at 4 MB and one row each.
        assert!(pages >= 3, "{from} came in {pages} pages");
    }
}

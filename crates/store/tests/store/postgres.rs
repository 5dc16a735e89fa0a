//! The PostgreSQL engine: the same histories as in memory, by one coordinator or by two that take turns.

use switchboard_core::query::Readable;
use switchboard_core::slice::Save;
use switchboard_core::{Ask, Slice, Timestamp};
use switchboard_store::conformance::{self, Cache, Ledger, Random};
use switchboard_store::memory::MemoryEngine;
use switchboard_store::postgres::{Address, PostgresEngine, Steps};
use switchboard_store::{Begun, Engine, Error, ManualClock, Reader};
use switchboard_test_cluster::{Cluster, Database, PgBouncer, PoolMode};

fn open(url: &str, clock: &ManualClock) -> PostgresEngine {
    let address = Address::parse(url).expect("the cluster's address is understood");
    PostgresEngine::open_with(address, Some(Box::new(clock.clone())), Steps::all())
        .expect("a new database opens")
}

fn same_as_memory(
    what: &str,
    seeds: std::ops::Range<u64>,
    ledger: impl Fn(&Database, &ManualClock, u64) -> Ledger,
) {
    let Some(server) = Cluster::shared(what) else {
        return;
    };
    for seed in seeds {
        let database = server.create_database();
        let clock = ManualClock::at(conformance::START);
        let memory = Box::new(MemoryEngine::new(Box::new(clock.clone())));
        let mut left = Ledger::new(memory);
        let mut right = ledger(&database, &clock, seed);
        conformance::differential(&mut left, &mut right, &clock, seed, 200);
    }
}

#[test]
fn a_database_tells_the_same_history_as_memory() {
    same_as_memory("the differential run", 0..4, |database, clock, _| {
        Ledger::new(Box::new(open(&database.url, clock)))
    });
}

#[test]
fn a_database_tells_the_same_history_when_memory_is_lost_at_random() {
    same_as_memory(
        "the differential run without memory",
        200..204,
        |database, clock, seed| {
            let cache = match seed % 2 {
                0 => Cache::Forgotten,
                _ => Cache::ForgottenAtRandom(Random::new(seed)),
            };
            Ledger::new(Box::new(open(&database.url, clock))).with_cache(cache)
        },
    );
}

#[test]
fn two_coordinators_that_take_turns_tell_the_same_history_as_memory() {
    same_as_memory(
        "the differential run of two coordinators",
        300..306,
        |database, clock, seed| {
            let engines = [open(&database.url, clock), open(&database.url, clock)];
            Turns::ledger(engines, seed)
        },
    );
}

#[test]
fn a_database_behind_a_pooler_tells_the_same_history_as_memory() {
    let Some(server) = Cluster::shared("the differential run through a pooler") else {
        return;
    };
    let pooler = match PgBouncer::start(server, PoolMode::Transaction) {
        Ok(pooler) => pooler,
        Err(missing) => return missing.skip("the differential run through a pooler"),
    };
    same_as_memory(
        "the differential run through a pooler",
        400..402,
        |database, clock, seed| {
            let url = pooler.url(&database.name);
            let engines = [open(&url, clock), open(&url, clock)];
            assert!(
                engines.iter().all(PostgresEngine::is_pooled),
                "it is noticed"
            );
            Turns::ledger(engines, seed)
        },
    );
}

#[test]
fn a_database_passes_the_conformance_suite() {
    let Some(server) = Cluster::shared("the conformance suite") else {
        return;
    };
    // A schema for each ledger: made much quicker than a database, and found by the search path.
    let database = server.create_database();
    let mut made = 0;
    conformance::run(&mut |clock| {
        made += 1;
        database.sql(&format!("CREATE SCHEMA ledger_{made}"));
        let url = format!("{}?options=-csearch_path%3Dledger_{made}", database.url);
        Box::new(open(&url, &clock))
    });
}

#[test]
fn several_coordinators_may_start_at_once_on_an_empty_database() {
    let Some(server) = Cluster::shared("starting at once") else {
        return;
    };
    let database = server.create_database();
    let clock = ManualClock::at(conformance::START);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut engine = open(&database.url, &clock);
                let mut slice = Slice::default();
                engine.begin(&mut slice).expect("it is served");
                engine.rollback();
            });
        }
    });
}

#[test]
fn a_build_goes_on_beside_a_newer_one_that_knows_one_more_step() {
    let Some(server) = Cluster::shared("two builds on one ledger") else {
        return;
    };
    let database = server.create_database();
    let address = Address::parse(&database.url).expect("an address");
    let before = || PostgresEngine::open(address.clone());
    let mut old = before().expect("the older build makes the ledger");
    let new = PostgresEngine::open_with(address.clone(), None, Steps::and_the_next());
    let mut new = new.expect("the newer one brings it on");
    for engine in [&mut old, &mut new] {
        let mut slice = Slice::default();
        engine.begin(&mut slice).expect("both serve it");
        engine.rollback();
    }
    before().expect("the older build may start again");
    database.sql("UPDATE sb_head SET schema_floor = 1000");
    assert!(matches!(before(), Err(Error::NewerSchema { .. })));
    let refused = new.begin(&mut Slice::default());
    assert!(
        matches!(refused, Err(Error::NewerSchema { .. })),
        "{refused:?}"
    );
}

#[test]
fn engrams_of_an_older_ledger_stay_and_older_builds_keep_theirs_beside_newer_ones() {
    let Some(server) = Cluster::shared("engrams of two builds") else {
        return;
    };
    let database = server.create_database();
    let address = Address::parse(&database.url).expect("an address");
    let older = Steps::before("0017_guards").expect("there is such a step");
    drop(PostgresEngine::open_with(address.clone(), None, older).expect("an older ledger"));
    let keep = |id: &str, second: u64, words: &str| {
        database.sql(&format!(
            r#"INSERT INTO sb_engram(n, id, scope, version, created_at, hash, bytes, topics, from_seq, to_seq, body, words)
               SELECT (SELECT coalesce(max(n), 0) FROM sb_engram) + i, id, 'st', '20260212-12000{second}Z', 5, 'sha256:1', 4,
                 '["a","\"q\""]', 1, 10, E'{{"b\n', '{words}'
               FROM unnest(ARRAY['{id}']) WITH ORDINALITY AS v(id, i)"#
        ))
    };
    keep("e_b", 1, "Mind the lock");
    keep("e_a", 2, "late orders");
    let engine = PostgresEngine::open(address).expect("the newer build brings it on");
    let reader = engine.reader().expect("a reader");
    let reader = &*reader as &dyn Readable<Error = Error>;
    let ids = || {
        let entries = reader.engrams().expect("listed");
        let ids: Vec<String> = entries.iter().map(|it| it.id.to_string()).collect();
        let theirs = database.sql("SELECT id FROM sb_engram ORDER BY n");
        assert!(theirs.lines().eq(&ids), "{theirs}");
        ids
    };
    assert_eq!(
        ids(),
        ["e_b", "e_a"],
        "in the order in which they were kept"
    );
    keep("e_0", 3, "what an older build keeps of the Lock");
    assert_eq!(ids(), ["e_b", "e_a", "e_0"]);
    let found = |words: &str| reader.engrams_with(words, 9).expect("searched");
    assert_eq!(found("lock").len(), 2);
    for engram in [&found("older")[0], &found("mind")[0]] {
        let theirs = database.sql(&format!(
            "SELECT scope, version, created_at, hash, bytes, topics, from_seq, to_seq, words FROM sb_engram WHERE id = '{}'",
            engram.entry.id
        ));
        let entry = &engram.entry;
        let ours = format!(
            r#"{}|{}|{}|{}|{}|["a","\"q\""]|{}|{}|{}"#,
            entry.scope,
            entry.version,
            entry.created_at.0,
            entry.hash,
            entry.bytes,
            entry.from_seq,
            entry.to_seq,
            engram.words
        );
        assert_eq!(theirs.trim_end(), ours);
        assert_eq!((&*engram.body, &*entry.topics[1]), ("{\"b\n", "\"q\""));
    }
    database.sql("DELETE FROM sb_engram WHERE id = ANY(ARRAY['e_b', 'e_none'])");
    assert_eq!(ids(), ["e_a", "e_0"]);
    assert_eq!(found("lock").len(), 1);
}

/// Two engines on one database, each with a working set of its own; each batch goes to one of them.
struct Turns {
    engines: [PostgresEngine; 2],
    /// What the one whose turn it is not remembers.
    remembered: Slice,
    turn: usize,
    random: Random,
}

impl Turns {
    fn ledger(engines: [PostgresEngine; 2], seed: u64) -> Ledger {
        Ledger::new(Box::new(Turns {
            engines,
            remembered: Slice::default(),
            turn: 0,
            random: Random::new(seed),
        }))
    }

    fn engine(&mut self) -> &mut PostgresEngine {
        &mut self.engines[self.turn]
    }
}

impl Engine for Turns {
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        if self.random.percent(50) {
            self.turn = 1 - self.turn;
            std::mem::swap(&mut self.remembered, slice);
        }
        self.engine().begin(slice)
    }

    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error> {
        self.engine().load(asks, slice)
    }

    fn save(&mut self, save: &Save<'_>) -> Result<(), Error> {
        self.engine().save(save)
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.engine().commit()
    }

    fn rollback(&mut self) {
        self.engine().rollback();
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, Error> {
        self.engine().next_due()
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        self.engines[self.turn].reader()
    }
}

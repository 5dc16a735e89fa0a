//! Synchronous replication: nothing counts as written that only the primary has.

use std::thread;
use std::time::{Duration, Instant};

use switchboard_core::{Changes, Event, Slice};
use switchboard_store::postgres::{Address, PostgresEngine};
use switchboard_store::{Engine, Error};
use switchboard_test_cluster::{Cluster, Database};

const DEADLINE: Duration = Duration::from_secs(120);

/// Server processes whose commit waits for the standby.
const WAITING: &str = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/// A primary whose commits wait for its standby, and a ledger on it.
struct Pair {
    // Dropped before its server.
    database: Database,
    primary: Cluster,
    standby: Cluster,
}

impl Pair {
    fn start(what: &str) -> Option<Pair> {
        let primary = Cluster::start()
            .map_err(|missing| missing.skip(what))
            .ok()?;
        let database = primary.create_database();
        drop(engine(&database));
        let standby = primary.standby("second");
        primary.sql(
            "postgres",
            "ALTER SYSTEM SET synchronous_standby_names = 'second'",
        );
        primary.sql("postgres", "SELECT pg_reload_conf()");
        let pair = Pair {
            database,
            primary,
            standby,
        };
        pair.until_state("sync");
        Some(pair)
    }

    fn until_state(&self, state: &str) {
        let states = "SELECT sync_state FROM pg_stat_replication";
        until(state, || self.primary.sql("postgres", states) == state);
    }

    fn cut_off(&self) {
        self.standby.follow(None);
        self.until_state("");
    }

    /// Until a commit waits for the standby, in another server process than this. Tells in which.
    fn wait_for_a_commit(&self, but: &str) -> String {
        let waits = format!("SELECT min(pid) {WAITING}");
        let waiting = || self.primary.sql("postgres", &waits);
        until("a commit waits for the standby", || {
            let pid = waiting();
            !pid.is_empty() && pid != but
        });
        waiting()
    }

    /// Ends waits with this function, in vain if there is none any more.
    fn end_waits(&self, function: &str) {
        let end = format!("SELECT {function}(pid) {WAITING}");
        let _ = self.primary.try_sql("postgres", &end);
    }

    /// The primary is gone for good. Tells how many events are left.
    fn fail_over(self) -> String {
        self.primary.stop_immediate();
        self.standby.promote();
        let copy = self.standby.database(&self.database.name);
        copy.sql("SELECT seq FROM sb_head")
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Who takes the database away would wait for a standby that is cut off.
        if self.primary.pid().is_some() {
            self.primary.stop_immediate();
        }
    }
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn engine(database: &Database) -> PostgresEngine {
    let address = Address::parse(&database.url).expect("an address");
    PostgresEngine::open(address).expect("it opens")
}

fn save_one(engine: &mut PostgresEngine, slice: &mut Slice) {
    let now = engine.begin(slice).expect("a batch begins").now;
    let mut changes = Changes::default();
    changes.event(Event::ClockSteppedBack { by_ms: 1 });
    slice.apply(changes, now);
    slice
        .save_all(now, true, |save| engine.save(save))
        .expect("it is saved");
    slice.end_batch();
}

/// Runs until the standby was cut off, what ends the wait of a commit was done, and the standby follows again.
fn answered_after(
    pair: &Pair,
    end_the_wait: impl FnOnce(),
    commit: impl FnOnce() -> Result<(), Error> + Send,
) -> Result<(), Error> {
    pair.cut_off();
    thread::scope(|scope| {
        let answer = scope.spawn(commit);
        let first = pair.wait_for_a_commit("");
        end_the_wait();
        // It makes sure with another one, which waits as well.
        pair.wait_for_a_commit(&first);
        assert!(!answer.is_finished(), "only the primary has it");
        pair.standby.follow(Some(&pair.primary));
        answer.join().expect("it is answered")
    })
}

#[test]
fn a_commit_whose_wait_was_ended_counts_once_a_standby_has_it() {
    let Some(pair) = Pair::start("ended waits for a standby") else {
        return;
    };
    let mut ours = engine(&pair.database);
    let mut slice = Slice::default();
    let ends: [&dyn Fn(); 3] = [
        &|| pair.end_waits("pg_cancel_backend"),
        &|| pair.end_waits("pg_terminate_backend"),
        &|| {
            pair.primary.stop_immediate();
            pair.primary.start_again();
        },
    ];
    for end in ends {
        let answer = answered_after(&pair, end, || {
            save_one(&mut ours, &mut slice);
            ours.commit()
        });
        answer.expect("it was found and made sure of");
    }
    assert_eq!(pair.fail_over(), "3");
}

#[test]
fn a_commit_that_no_standby_has_in_time_is_in_doubt() {
    let Some(pair) = Pair::start("a standby that stays away") else {
        return;
    };
    let mut ours = engine(&pair.database);
    let mut slice = Slice::default();
    pair.cut_off();
    let answer = thread::scope(|scope| {
        let answer = scope.spawn(|| {
            save_one(&mut ours, &mut slice);
            ours.commit()
        });
        while !answer.is_finished() {
            pair.end_waits("pg_cancel_backend");
        }
        answer.join().expect("it is answered")
    });
    assert!(matches!(answer, Err(Error::InDoubt(_))), "{answer:?}");
    assert_eq!(pair.fail_over(), "0", "nobody was told that it is there");
}

#[test]
fn nobody_is_answered_from_what_others_wrote_and_no_standby_has() {
    let Some(pair) = Pair::start("answers from what others wrote") else {
        return;
    };
    let mut ours = engine(&pair.database);
    pair.cut_off();
    // Another coordinator wrote, its wait was ended, and it is gone.
    thread::scope(|scope| {
        let write = "UPDATE sb_head SET seq = 1, writer = 7, generation = 1";
        let wrote = scope.spawn(|| pair.database.sql(write));
        pair.wait_for_a_commit("");
        pair.end_waits("pg_cancel_backend");
        wrote.join().expect("it is written");
    });
    thread::scope(|scope| {
        let answer = scope.spawn(|| {
            let mut slice = Slice::default();
            ours.begin(&mut slice).expect("a batch begins");
            assert_eq!(slice.head.seq, 1, "it is seen");
            ours.end_unwritten()
        });
        pair.wait_for_a_commit("");
        assert!(!answer.is_finished(), "only the primary has it");
        pair.standby.follow(Some(&pair.primary));
        answer.join().expect("it ends").expect("now it is safe");
    });
    // Once is enough.
    pair.cut_off();
    ours.begin(&mut Slice::default()).expect("a batch begins");
    ours.end_unwritten().expect("nobody wrote since");
    assert_eq!(pair.fail_over(), "1");
}

#[test]
fn a_writer_whose_connection_ended_between_batches_begins_on_another() {
    let Some(server) = Cluster::shared("a connection that ends between batches") else {
        return;
    };
    let database = server.create_database();
    let mut ours = engine(&database);
    let mut slice = Slice::default();
    for expected in ["1", "2", "3"] {
        save_one(&mut ours, &mut slice);
        ours.commit().expect("it is written");
        assert_eq!(database.sql("SELECT seq FROM sb_head"), expected);
        database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
    }
    ours.next_due().expect("it can be asked as well");
}

//! A database that has less than was acknowledged: it is noticed by whoever knows better, and said once.

use switchboard_core::verb::{BeginEpoch, Verb as _};
use switchboard_core::{Changes, Event, LedgerEpoch, Slice};
use switchboard_store::postgres::{Address, PostgresEngine};
use switchboard_store::{Begun, Engine};
use switchboard_test_cluster::{Cluster, Database};

struct Coordinator {
    engine: PostgresEngine,
    slice: Slice,
}

impl Coordinator {
    fn on(database: &Database) -> Coordinator {
        let address = Address::parse(&database.url).expect("an address");
        Coordinator {
            engine: PostgresEngine::open(address).expect("it opens"),
            slice: Slice::default(),
        }
    }

    /// One event, after a new epoch if the batch is told to begin one.
    fn write(&mut self) -> Option<BeginEpoch> {
        let begun = self.begin();
        if let Some(rewound) = begun.rewound {
            let (_, changes) = rewound
                .decide(&self.slice, begun.now)
                .expect("nothing is refused");
            self.slice.apply(changes, begun.now);
        }
        let mut changes = Changes::default();
        changes.event(Event::ClockSteppedBack { by_ms: 1 });
        self.slice.apply(changes, begun.now);
        let engine = &mut self.engine;
        self.slice
            .save_all(begun.now, true, |save| engine.save(save))
            .expect("it is saved");
        self.slice.end_batch();
        self.engine.commit().expect("it is written");
        begun.rewound
    }

    fn begin(&mut self) -> Begun {
        self.engine.begin(&mut self.slice).expect("a batch begins")
    }

    fn finds_nothing_lost(&mut self) {
        assert_eq!(self.begin().rewound, None);
        self.engine.rollback();
    }

    fn is_in(&mut self, number: u64, after: u64) {
        self.finds_nothing_lost();
        assert_eq!(self.slice.head.epoch, LedgerEpoch { number, after });
    }
}

/// As if a standby had become the primary that had received only so much.
fn loses_all_after(database: &Database, seq: u64) {
    database.sql(&format!(
        "DELETE FROM sb_log WHERE first > {seq};
         UPDATE sb_head SET seq = {seq}, writer = 0, generation = 0"
    ));
}

fn cut_connections(database: &Database) {
    database.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
}

#[test]
fn a_head_below_what_was_written_or_seen_begins_an_epoch_once() {
    let Some(server) = Cluster::shared("a ledger that was rewound") else {
        return;
    };
    let database = server.create_database();
    let mut one = Coordinator::on(&database);
    let mut other = Coordinator::on(&database);
    let mut late = Coordinator::on(&database);
    late.finds_nothing_lost();
    for _ in 0..5 {
        assert_eq!(one.write(), None);
    }
    other.finds_nothing_lost();
    loses_all_after(&database, 3);
    let lost = BeginEpoch { told: 5, common: 3 };
    // Until it is written it is found again.
    assert_eq!(one.begin().rewound, Some(lost));
    one.engine.rollback();
    assert_eq!(other.write(), Some(lost), "it had seen them");
    for coordinator in [&mut one, &mut other, &mut late] {
        coordinator.is_in(2, 3);
    }
    assert_eq!(one.write(), None);
}

#[test]
fn a_loss_that_others_have_written_over_is_noticed_by_whose_it_was() {
    let Some(server) = Cluster::shared("a ledger that was rewound and written") else {
        return;
    };
    let database = server.create_database();
    let (mut one, mut other) = (Coordinator::on(&database), Coordinator::on(&database));
    assert_eq!(other.write(), None);
    for _ in 0..4 {
        assert_eq!(one.write(), None);
    }
    cut_connections(&database);
    loses_all_after(&database, 3);
    for _ in 0..4 {
        assert_eq!(other.write(), None, "it knows of the first only");
    }
    let lost = BeginEpoch { told: 5, common: 3 };
    assert_eq!(one.write(), Some(lost));
    one.is_in(2, 3);
    other.is_in(2, 3);
    // A connection that ends, and old events that are pruned, are no loss.
    cut_connections(&database);
    other.finds_nothing_lost();
    cut_connections(&database);
    database.sql("DELETE FROM sb_log WHERE first < 8");
    other.finds_nothing_lost();
}

#[test]
fn what_only_the_tail_has_seen_counts_as_told() {
    let Some(server) = Cluster::shared("a tail that has seen more") else {
        return;
    };
    let database = server.create_database();
    let (mut one, mut other) = (Coordinator::on(&database), Coordinator::on(&database));
    other.finds_nothing_lost();
    let tail = other.engine.tail().expect("a tail opens");
    let mut tail = tail.expect("others may write");
    for _ in 0..5 {
        one.write();
    }
    while tail.wait().expect("the head is read") < 5 {}
    loses_all_after(&database, 3);
    let lost = BeginEpoch { told: 5, common: 3 };
    assert_eq!(other.write(), Some(lost));
    tail.wait().expect("the head is read");
    let epoch = LedgerEpoch {
        number: 2,
        after: 3,
    };
    assert_eq!(tail.epoch(), epoch);
}

//! Word of other coordinators on a real server: heard, polled for, and found again after a lost connection.

use std::time::{Duration, Instant};

use switchboard_core::AgentId;
use switchboard_core::verb::{Claim, CreateTasks, Filter, NewTask};
use switchboard_store::conformance::{Ledger, register, send};
use switchboard_store::postgres::{Address, PostgresEngine};
use switchboard_store::{Error, Foreign, Tail};
use switchboard_test_cluster::{Cluster, Database, PgBouncer, PoolMode, Server};

/// Whatever takes longer than this does not happen.
const DEADLINE: Duration = Duration::from_secs(60);

/// A coordinator: its writer, and its word of the others.
struct Coordinator {
    ledger: Ledger,
    tail: Box<dyn Tail>,
}

impl Coordinator {
    fn at(url: &str) -> Coordinator {
        let address = Address::parse(url).expect("the cluster's address is understood");
        let engine = PostgresEngine::open(address).expect("the database opens");
        let mut ledger = Ledger::new(Box::new(engine));
        let tail = ledger.engine().tail().expect("a tail opens");
        Coordinator {
            tail: tail.expect("others may write this ledger"),
            ledger,
        }
    }

    fn register(&mut self, agent: &str) {
        let registered = self.ledger.run(register(agent, &[]));
        registered.expect("the id is free");
        self.told();
    }

    fn create(&mut self, ids: &[&str]) {
        let tasks = ids.iter().map(|id| NewTask::plain(*id, id)).collect();
        let created = self.ledger.run(CreateTasks { tasks });
        created.expect("the tasks can be made");
        self.told();
    }

    fn told(&mut self) {
        self.tail.announcer()(self.seq());
    }

    fn seq(&self) -> u64 {
        self.ledger.reader().head().expect("there is a head").seq
    }

    /// Waits, as often as it takes, until it knows of an event.
    fn learns_of(&mut self, seq: u64) {
        let until = Instant::now() + DEADLINE;
        while self.tail.wait().expect("the head is read") < seq {
            assert!(Instant::now() < until, "no word of event {seq}");
        }
    }

    /// The numbers of events that others wrote.
    fn foreign(&mut self, after: u64) -> (Vec<u64>, u64) {
        let Foreign { events, upto } = self.tail.foreign(after, 100).expect("the log is read");
        let numbers = events.iter().map(|logged| logged.seq).collect();
        (numbers, upto)
    }
}

fn hear_of_each_other(left_url: &str, right_url: &str) {
    let (mut left, mut right) = (Coordinator::at(left_url), Coordinator::at(right_url));
    left.register("ann");
    left.create(&["t1", "t2"]);
    let first = left.seq();
    right.learns_of(first);
    left.learns_of(first);
    assert_eq!(right.foreign(0), ((1..=first).collect(), first));
    assert_eq!(left.foreign(0), (Vec::new(), first), "all its own");
    right.create(&["t3"]);
    let last = right.seq();
    left.learns_of(last);
    assert_eq!(left.foreign(0), ((first + 1..=last).collect(), last));
    assert_eq!(left.foreign(first), ((first + 1..=last).collect(), last));
    assert_eq!(right.foreign(first), (Vec::new(), last), "its own");
    assert_eq!(right.foreign(last), (Vec::new(), last), "nothing more");
}

fn ledger(what: &str) -> Option<(&'static Server, Database)> {
    let server = Cluster::shared(what)?;
    Some((server, server.create_database()))
}

#[test]
fn coordinators_hear_of_each_other_by_notification() {
    let Some((_, database)) = ledger("word of other coordinators") else {
        return;
    };
    hear_of_each_other(&database.url, &database.url);
}

#[test]
fn coordinators_find_out_about_each_other_without_notifications() {
    let Some((_, database)) = ledger("word of other coordinators by looking") else {
        return;
    };
    let url = format!("{}?notify=off", database.url);
    hear_of_each_other(&url, &url);
}

#[test]
fn a_coordinator_behind_a_pooler_and_one_without_hear_of_each_other() {
    let what = "word of other coordinators through a pooler";
    let Some((server, database)) = ledger(what) else {
        return;
    };
    let pooler = match PgBouncer::start(server, PoolMode::Transaction) {
        Ok(pooler) => pooler,
        Err(missing) => return missing.skip(what),
    };
    hear_of_each_other(&pooler.url(&database.name), &database.url);
}

#[test]
fn a_stretch_of_the_log_ends_where_a_batch_ends() {
    let Some((_, database)) = ledger("stretches of the log") else {
        return;
    };
    let mut left = Coordinator::at(&database.url);
    let mut right = Coordinator::at(&database.url);
    left.create(&["t1", "t2", "t3"]);
    let first = left.seq();
    left.create(&["t4"]);
    let last = left.seq();
    let one = right.tail.foreign(0, 1).expect("the log is read");
    assert_eq!((one.events.len() as u64, one.upto), (first, first));
    let rest = right.tail.foreign(one.upto, 1).expect("the log is read");
    assert_eq!((rest.events.len() as u64, rest.upto), (last - first, last));
}

#[test]
fn what_waits_is_looked_up_as_it_is_now() {
    let Some((_, database)) = ledger("lanes and recipients") else {
        return;
    };
    let mut one = Coordinator::at(&database.url);
    for agent in ["ann", "bob", "cas"] {
        one.register(agent);
    }
    one.create(&["t1", "t2", "t3"]);
    let claim = Claim {
        agent: "ann".into(),
        filter: Filter::default(),
        task: Some("t2".into()),
    };
    one.ledger.run(claim).expect("the task is free");
    let asked = ["t1", "t2", "t3", "t4"].map(Into::into);
    let lanes = one.tail.lanes_of(&asked).expect("lanes are read");
    assert_eq!(lanes.len(), 2, "t2 is taken, t4 is none");
    assert_eq!(lanes[0], lanes[1], "tasks of one kind");
    assert!(one.tail.lanes_of(&[]).expect("lanes are read").is_empty());
    for (id, to) in [("m1", Some("bob")), ("m2", None)] {
        let sent = one.ledger.run(send(id, "ann", to));
        sent.expect("they are there");
    }
    let mut recipients = |ids: &[&str]| {
        let ids: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
        let mut found = one.tail.recipients_of(&ids).expect("recipients are read");
        found.sort();
        found
    };
    let named = |names: &[&str]| -> Vec<AgentId> { names.iter().map(|it| (*it).into()).collect() };
    assert_eq!(recipients(&["m1"]), named(&["bob"]));
    assert_eq!(recipients(&["m1", "m2"]), named(&["bob", "cas"]));
    database.sql("UPDATE sb_delivery SET state = 'handed' WHERE agent = 'bob'");
    assert_eq!(recipients(&["m1", "m2"]), named(&["cas"]), "what waits");
    assert!(recipients(&["m3"]).is_empty(), "no such message");
}

#[test]
fn a_server_that_drops_every_connection_is_found_again() {
    let Some((_, database)) = ledger("dropped connections") else {
        return;
    };
    let mut before = Coordinator::at(&database.url);
    let reader = before.ledger.reader();
    before.create(&["t1"]);
    let seq = before.seq();
    before.learns_of(seq);
    assert_eq!(reader.head().expect("it is read").seq, seq);
    for round in 0..3 {
        database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
        assert_eq!(reader.head().expect("asked again").seq, before.seq());
        before.foreign(0);
        let mut other = Coordinator::at(&database.url);
        other.create(&[&*format!("later-{round}")]);
        before.learns_of(other.seq());
    }
}

#[test]
fn a_server_that_is_away_is_told_of_and_found_again() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(missing) => return missing.skip("a server that goes away"),
    };
    let database = cluster.create_database();
    let mut one = Coordinator::at(&database.url);
    one.create(&["t1"]);
    let (reader, seq) = (one.ledger.reader(), one.seq());
    one.learns_of(seq);
    assert_eq!(reader.head().expect("it is read").seq, seq);
    cluster.stop_immediate();
    for _ in 0..3 {
        let head = reader.head();
        assert!(matches!(head, Err(Error::Unavailable(_))), "{head:?}");
        let word = one.tail.wait();
        assert!(matches!(word, Err(Error::Unavailable(_))), "{word:?}");
    }
    cluster.start_again();
    let until = Instant::now() + DEADLINE;
    while reader.head().is_err() || one.tail.wait().is_err() {
        assert!(Instant::now() < until, "the server is there again");
    }
    assert_eq!(reader.head().expect("it is read").seq, seq);
    assert_eq!(one.tail.wait().expect("it is read"), seq);
}

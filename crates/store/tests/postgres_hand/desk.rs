//! A sequencer as small as it can be, with a client that writes into the same database by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchboard_core::verb::{HandStep, Note, Written};
use switchboard_core::{Ask, GatePolicy, Slice, Timestamp, Want};
use switchboard_store::conformance::{AnyVerb, Everything};
use switchboard_store::postgres::{Address, PostgresEngine, Steps};
use switchboard_store::{Engine, ManualClock, Reader};
use switchboard_test_cluster::{Cluster, Database};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A ledger, and a hand beside it.
pub struct Desk {
    pub clock: ManualClock,
    pub hand: Hand,
    pub url: String,
    engine: PostgresEngine,
    reader: Box<dyn Reader>,
    slice: Slice,
    policy: Arc<GatePolicy>,
}

const ROUNDS_MAX: usize = 1000;

/// A database for many ledgers, each in a schema of its own.
pub struct Room {
    pub database: Database,
    made: AtomicU64,
}

impl Room {
    /// `None` where there is no PostgreSQL.
    pub fn new(what: &str) -> Option<Room> {
        let server = Cluster::shared(what)?;
        Some(Room {
            database: server.create_database(),
            made: AtomicU64::new(0),
        })
    }

    pub fn desk(&self) -> Desk {
        let name = format!("ledger_{}", self.made.fetch_add(1, Ordering::Relaxed));
        self.database.sql(&format!("CREATE SCHEMA {name}"));
        let url = format!("{}?options=-csearch_path%3D{name}", self.database.url);
        let clock = ManualClock::at(real_now());
        let engine = open(&url, &clock);
        Desk {
            reader: engine.reader().unwrap(),
            engine,
            hand: Hand::new(&url),
            url,
            clock,
            slice: Slice::default(),
            policy: Arc::default(),
        }
    }
}

fn open(url: &str, clock: &ManualClock) -> PostgresEngine {
    let address = Address::parse(url).unwrap();
    PostgresEngine::open_with(address, Some(Box::new(clock.clone())), Steps::all()).unwrap()
}

impl Desk {
    pub fn everything(&self) -> Everything {
        Everything::read(&*self.reader)
    }

    /// Takes in all that was written by hand, at most `page` notes to a batch; then the verbs, in the last batch.
    pub fn run(&mut self, page: usize, verbs: &[&dyn AnyVerb]) -> Vec<String> {
        self.batches(page, verbs, &mut || {})
    }

    /// The same while something else goes on, which each batch waits for after it has begun.
    pub fn run_while(&mut self, page: usize, meanwhile: &mut dyn FnMut()) {
        self.batches(page, &[], meanwhile);
    }

    fn batches(
        &mut self,
        page: usize,
        verbs: &[&dyn AnyVerb],
        meanwhile: &mut dyn FnMut(),
    ) -> Vec<String> {
        loop {
            let begun = self.engine.begin(&mut self.slice).unwrap();
            meanwhile();
            let now = begun.now;
            let mut is_full = false;
            if begun.by_hand {
                let found = self.engine.hand_notes(page, &mut self.slice).unwrap();
                is_full = !found.is_last;
                found.notes.iter().for_each(|note| self.take_in(note, now));
            }
            let mut replies = Vec::new();
            if !is_full {
                for verb in verbs {
                    self.load(|want| verb.asks(want, now));
                    replies.push(match verb.decide(&self.slice, now) {
                        Ok((reply, changes)) => {
                            self.slice.apply(changes, now);
                            reply
                        }
                        Err(refusal) => refusal.to_string(),
                    });
                }
            }
            let engine = &mut self.engine;
            let saved = self.slice.save_all(now, true, |save| engine.save(save));
            saved.unwrap();
            self.engine.commit().unwrap();
            self.slice.end_batch();
            if !is_full {
                return replies;
            }
        }
    }

    fn take_in(&mut self, note: &Note, now: Timestamp) {
        let mut why = None;
        for step in note.steps(&self.policy) {
            why = self.step(&*step, now);
            if why.is_some() {
                break;
            }
        }
        if let Written::Unreadable { why: reason, .. } = &note.written {
            why = Some(reason.clone());
        }
        if let Some(why) = why {
            self.slice.apply(note.undone(why), now);
        }
    }

    fn step(&mut self, step: &dyn HandStep, now: Timestamp) -> Option<String> {
        self.load(|want| step.asks(want, now));
        match step.decide(&self.slice, now) {
            Ok(changes) => {
                self.slice.apply(changes, now);
                None
            }
            Err(refusal) => Some(refusal.to_string()),
        }
    }

    fn load(&mut self, asks: impl Fn(&mut Want<'_>)) {
        for _ in 0..ROUNDS_MAX {
            let mut want = Want::new(&self.slice);
            asks(&mut want);
            let missing = want.into_asks();
            if missing.is_empty() {
                return;
            }
            let engine = &mut self.engine;
            if missing.iter().any(Ask::is_range) && self.slice.has_unsaved_rows() {
                self.slice.save_rows(|save| engine.save(save)).unwrap();
            }
            engine.load(&missing, &mut self.slice).unwrap();
        }
        panic!("it never stops asking");
    }
}

/// A program with a connection of its own.
pub struct Hand {
    pub runtime: Runtime,
    pub client: Client,
}

impl Hand {
    pub fn new(url: &str) -> Hand {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(async move { drop(connection.await) });
            client
        });
        Hand { runtime, client }
    }

    /// The rows of the last statement that has any, as text.
    pub fn try_sql(&self, sql: &str) -> Result<Vec<Vec<String>>, tokio_postgres::Error> {
        let answer = self.runtime.block_on(self.client.simple_query(sql))?;
        let rows = answer.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                let text = |at| row.get(at).unwrap_or("NULL").to_owned();
                Some((0..row.len()).map(text).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    }

    /// What must hold.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> Vec<Vec<String>> {
        match self.try_sql(sql) {
            Ok(rows) => rows,
            Err(error) => panic!("{}: {sql}", said(&error)),
        }
    }

    /// One value of one row.
    #[track_caller]
    pub fn one(&self, sql: &str) -> String {
        let rows = self.sql(sql);
        assert_eq!((rows.len(), rows[0].len()), (1, 1), "{rows:?}: {sql}");
        rows[0][0].clone()
    }
}

/// The server's own words.
pub fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{}: {}", said.code().code(), said.message()),
        None => error.to_string(),
    }
}

/// The triggers tell the time by the database's clock, so the ledger's begins there.
pub fn real_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap())
}

/// Whoever waits longer than this waits in vain.
pub const DEADLINE: Duration = Duration::from_secs(60);

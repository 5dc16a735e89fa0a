//! A ledger that several hubs of one process share, each through an engine whose world fails on command.
//!
//! The file is SQLite's; that each hub hears of the others is done here by looking at the log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use switchboard_core::slice::Save;
use switchboard_core::verb::BeginEpoch;
use switchboard_core::{
    AgentId, Ask, DeliveryState, LaneKey, LedgerEpoch, MessageId, Slice, TaskId, TaskStatus,
    Timestamp,
};
use switchboard_hub::Running;
use switchboard_hub::config::Config;
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Begun, Engine, Error, Foreign, ManualClock, Reader, Tail, TaskRef};
use tempfile::TempDir;

use crate::failing_reader::FailingReader;
use crate::harness::{Client, SOON, TestHub, config};

/// A day in 2033: nowhere near any machine's clock.
pub const START: Timestamp = Timestamp(2_000_000_000_000);

pub struct Ledger {
    pub clock: ManualClock,
    pub key: Arc<Mutex<Option<[u8; 32]>>>,
    home: TempDir,
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger {
            clock: ManualClock::at(START),
            key: Arc::default(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    pub async fn coordinator(&self) -> (TestHub, World) {
        self.coordinator_as(|_| {}).await
    }

    pub async fn coordinator_as(&self, change: impl FnOnce(&mut Config)) -> (TestHub, World) {
        let home = tempfile::tempdir().unwrap();
        let mut config = config(home.path());
        change(&mut config);
        let world = World::default();
        let path = self.home.path().join("ledger.db");
        let engine = OneOfMany {
            inner: SqliteEngine::open(&path, Box::new(self.clock.clone())).unwrap(),
            world: world.clone(),
            key: Arc::clone(&self.key),
            saved: None,
        };
        let running = Running::start_with(config, Box::new(engine), "shared")
            .await
            .unwrap();
        let client = Client { addr: running.addr };
        let hub = TestHub {
            running,
            client,
            home,
        };
        (hub, world)
    }
}

/// What goes wrong for one hub, and what was seen of it.
#[derive(Clone, Default)]
pub struct World(pub Arc<Flags>);

#[derive(Default)]
pub struct Flags {
    pub writer_away: AtomicBool,
    pub readers_away: AtomicBool,
    pub tokens_away: AtomicBool,
    pub tail_away: AtomicBool,
    /// The next commit is in doubt; and whether it was written.
    pub in_doubt: Mutex<Option<bool>>,
    /// The next batch finds that the ledger has lost something.
    pub rewound: Mutex<Option<BeginEpoch>>,
    /// Commits wait for a standby that is away.
    pub commits_wait: AtomicBool,
    pub refused_batches: AtomicU64,
    pub refused_reads: AtomicU64,
    pub refused_waits: AtomicU64,
    pub lanes_asked_for: AtomicU64,
    pub announced: AtomicU64,
    pub tail_ended: AtomicBool,
    /// The numbers of the events that this hub wrote, by batch.
    own: Mutex<Vec<(u64, u64)>>,
}

impl World {
    pub fn is_away(&self, away: bool) {
        self.0.writer_away.store(away, Ordering::SeqCst);
        self.0.readers_away.store(away, Ordering::SeqCst);
        self.0.tail_away.store(away, Ordering::SeqCst);
    }

    pub fn refuse(flag: &AtomicBool, count: &AtomicU64) -> Result<(), Error> {
        if flag.load(Ordering::SeqCst) {
            count.fetch_add(1, Ordering::SeqCst);
            return Err(Error::Unavailable("the test took it away".to_owned()));
        }
        Ok(())
    }

    /// Until so many were counted.
    pub async fn saw(&self, wanted: u64, count: fn(&Flags) -> &AtomicU64) {
        eventually(async || count(&self.0).load(Ordering::SeqCst) >= wanted).await;
    }

    /// Until so many more were counted.
    pub async fn sees(&self, more: u64, count: fn(&Flags) -> &AtomicU64) {
        let seen = count(&self.0).load(Ordering::SeqCst);
        self.saw(seen + more, count).await;
    }
}

/// Asks until it is so.
pub async fn eventually(mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so().await {
        assert!(Instant::now() < deadline, "it never came to be");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

struct OneOfMany {
    inner: SqliteEngine,
    world: World,
    key: Arc<Mutex<Option<[u8; 32]>>>,
    /// The events of the batch that goes on.
    saved: Option<(u64, u64)>,
}

impl Engine for OneOfMany {
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        World::refuse(&self.world.0.writer_away, &self.world.0.refused_batches)?;
        self.saved = None;
        let begun = self.inner.begin(slice)?;
        let rewound = self.world.0.rewound.lock().unwrap().take();
        Ok(Begun { rewound, ..begun })
    }

    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error> {
        self.inner.load(asks, slice)
    }

    fn save(&mut self, save: &Save<'_>) -> Result<(), Error> {
        if let (Some(first), Some(last)) = (save.log.first(), save.log.last()) {
            self.saved = Some((first.seq, last.seq));
        }
        self.inner.save(save)
    }

    fn commit(&mut self) -> Result<(), Error> {
        while self.world.0.commits_wait.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(2));
        }
        // Not one of the caretaker's, which only says that it serves.
        let in_doubt = self
            .saved
            .and_then(|_| self.world.0.in_doubt.lock().unwrap().take());
        if in_doubt != Some(false) {
            self.world.0.own.lock().unwrap().extend(self.saved.take());
            self.inner.commit()?;
        }
        match in_doubt {
            Some(_) => Err(Error::InDoubt("the test cut the line".to_owned())),
            None => Ok(()),
        }
    }

    fn rollback(&mut self) {
        self.inner.rollback();
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, Error> {
        self.inner.next_due()
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(FailingReader {
            inner: self.inner.reader()?,
            world: self.world.clone(),
            key: Arc::clone(&self.key),
        }))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn tail(&self) -> Result<Option<Box<dyn Tail>>, Error> {
        Ok(Some(Box::new(FileTail {
            reader: self.inner.reader()?,
            world: self.world.clone(),
            last: 0,
            epoch: LedgerEpoch::default(),
        })))
    }

    fn shared_key(&mut self, fresh: &[u8; 32]) -> Result<Option<[u8; 32]>, Error> {
        Ok(Some(*self.key.lock().unwrap().get_or_insert(*fresh)))
    }
}

struct FileTail {
    reader: Box<dyn Reader>,
    world: World,
    last: u64,
    epoch: LedgerEpoch,
}

impl Tail for FileTail {
    fn announcer(&self) -> Box<dyn Fn(u64) + Send + Sync> {
        let world = self.world.clone();
        Box::new(move |seq| {
            world.0.announced.fetch_max(seq, Ordering::SeqCst);
        })
    }

    fn wait(&mut self) -> Result<u64, Error> {
        World::refuse(&self.world.0.tail_away, &self.world.0.refused_waits)?;
        let until = Instant::now() + Duration::from_millis(100);
        loop {
            let head = self.reader.head()?;
            let seq = head.seq;
            self.epoch = head.epoch;
            if seq > self.last || Instant::now() >= until {
                self.last = seq;
                return Ok(seq);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn epoch(&self) -> LedgerEpoch {
        self.epoch
    }

    fn foreign(&mut self, after: u64, limit: usize) -> Result<Foreign, Error> {
        let events = self.reader.events(after, limit)?;
        let upto = events.last().map_or(after, |last| last.seq);
        let own = self.world.0.own.lock().unwrap();
        let is_own = |seq: u64| own.iter().any(|(from, to)| (*from..=*to).contains(&seq));
        let events = events
            .into_iter()
            .filter(|logged| !is_own(logged.seq))
            .collect();
        Ok(Foreign { events, upto })
    }

    fn lanes_of(&mut self, tasks: &[TaskId]) -> Result<Vec<LaneKey>, Error> {
        let asked_for = &self.world.0.lanes_asked_for;
        asked_for.fetch_add(tasks.len() as u64, Ordering::SeqCst);
        let mut lanes = Vec::new();
        for id in tasks {
            let task = self.reader.task(&TaskRef::Id(id.clone()))?;
            let ready = task.filter(|task| task.status() == TaskStatus::Ready);
            lanes.extend(ready.as_ref().map(LaneKey::of));
        }
        Ok(lanes)
    }

    fn recipients_of(&mut self, messages: &[MessageId]) -> Result<Vec<AgentId>, Error> {
        let mut agents = Vec::new();
        for id in messages {
            for delivery in self
                .reader
                .message(id)?
                .into_iter()
                .flat_map(|found| found.1)
            {
                if delivery.state == DeliveryState::Queued {
                    agents.push(delivery.agent);
                }
            }
        }
        Ok(agents)
    }
}

impl Drop for FileTail {
    fn drop(&mut self) {
        self.world.0.tail_ended.store(true, Ordering::SeqCst);
    }
}

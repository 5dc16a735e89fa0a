//! A ledger in memory: the model that other engines are compared with, so it must be obviously right.
//!
//! Rows lie in plain maps; every range is found by looking at all of them. A batch works on its own copy,
//! which becomes the ledger when it commits. Nothing here is fast, and nothing survives the process.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use switchboard_core::attempt::Attempt;
use switchboard_core::changes::Nonce;
use switchboard_core::idempotency::{Key, Remembered};
use switchboard_core::lane::{Lane, LaneId, Rep};
use switchboard_core::slice::Save;
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, AgentId, Ask, Baseline, Delivery, DeliveryState, Engram, FormerAgent, Head, Learning,
    Lease, LeasePath, Logged, Message, MessageId, Record, RecordKey, Slice, Snapshot, Task, TaskId,
    TaskState, Timestamp, TokenId,
};

use crate::clock::{LedgerClock, Mark};
use crate::{Begun, Clock, Engine, Error, Reader};

mod load;
mod read;
mod save;

pub struct MemoryEngine {
    clock: LedgerClock,
    committed: Shared,
    /// What this engine knows to be committed; anything else was written by another one.
    known: Option<Arc<Rows>>,
    /// The rows of the batch that goes on; a copy from the first save on.
    batch: Option<Batch>,
}

/// What was committed last. Readers take the whole of it and look at leisure.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Arc<Rows>>>);

struct Batch {
    rows: Arc<Rows>,
    /// Remembered answers that this batch deleted: rows and bytes that the saved head does not know of.
    pruned_answers: (u64, u64),
}

#[derive(Clone, Debug, Default)]
struct Rows {
    head: Head,
    log: BTreeMap<u64, Logged>,
    agents: BTreeMap<AgentId, Agent>,
    former_agents: BTreeMap<AgentId, FormerAgent>,
    tasks: BTreeMap<TaskId, Task>,
    attempts: Vec<Attempt>,
    lanes: BTreeMap<LaneId, Lane>,
    /// How many lanes are filed under a word.
    reps: BTreeMap<Rep, u64>,
    leases: BTreeMap<LeasePath, Lease>,
    messages: BTreeMap<MessageId, Message>,
    deliveries: BTreeMap<(MessageId, AgentId), Delivery>,
    /// In the order of recording, like the learnings.
    snapshots: Vec<Snapshot>,
    baseline: Option<Baseline>,
    learnings: Vec<Learning>,
    remembered: BTreeMap<Key, Remembered>,
    nonces: HashSet<Nonce>,
    tokens: BTreeMap<TokenId, Token>,
    records: BTreeMap<RecordKey, Record>,
    /// In the order of keeping.
    engrams: Vec<Engram>,
}

impl MemoryEngine {
    pub fn new(clock: Box<dyn Clock>) -> Self {
        MemoryEngine {
            clock: LedgerClock::new(clock),
            committed: Shared::default(),
            known: None,
            batch: None,
        }
    }

    /// The engine of another coordinator on the same ledger.
    pub fn beside(&self, clock: Box<dyn Clock>) -> Self {
        MemoryEngine {
            committed: self.committed.clone(),
            ..MemoryEngine::new(clock)
        }
    }

    fn batch(&mut self) -> &mut Batch {
        self.batch
            .as_mut()
            .expect("loads and saves happen within a batch")
    }
}

impl Engine for MemoryEngine {
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        assert!(self.batch.is_none(), "the batch before has ended");
        let rows = self.committed.get();
        let is_known = |known: &Arc<Rows>| Arc::ptr_eq(known, &rows);
        if !self.known.as_ref().is_some_and(is_known) {
            slice.forget();
        }
        self.known = Some(Arc::clone(&rows));
        slice.head = rows.head.clone();
        slice.has_head = true;
        let told = self
            .clock
            .tell(rows.head.last_at, || Ok::<_, Error>(Mark::default()))?;
        self.batch = Some(Batch {
            rows,
            pruned_answers: (0, 0),
        });
        Ok(Begun {
            now: told.now,
            wall: told.wall,
            clock_stepped_ms: told.clock_stepped_ms,
            by_hand: false,
            rewound: None,
        })
    }

    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error> {
        let rows = &self.batch().rows;
        for ask in asks {
            rows.answer(ask, slice);
        }
        Ok(())
    }

    fn save(&mut self, save: &Save<'_>) -> Result<(), Error> {
        self.batch().save(save);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let batch = self.batch.take().expect("a commit ends a batch");
        self.known = Some(Arc::clone(&batch.rows));
        *self.committed.lock() = batch.rows;
        Ok(())
    }

    fn rollback(&mut self) {
        self.batch = None;
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, Error> {
        let rows = match &self.batch {
            Some(batch) => Arc::clone(&batch.rows),
            None => self.committed.get(),
        };
        Ok(rows.next_due())
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(read::MemoryReader(self.committed.clone())))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Arc<Rows>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Arc<Rows> {
        Arc::clone(&self.lock())
    }
}

impl Rows {
    fn next_due(&self) -> Option<Timestamp> {
        let retries = self.tasks.values().filter_map(|task| match task.state {
            TaskState::RetryWait { until } => Some(until),
            TaskState::Waiting
            | TaskState::Ready
            | TaskState::Claimed { .. }
            | TaskState::InProgress { .. }
            | TaskState::NeedsPerson { .. }
            | TaskState::Completed { .. }
            | TaskState::Failed { .. }
            | TaskState::Canceled { .. } => None,
        });
        let leases = self.leases.values().map(|lease| lease.expires_at);
        let queued = self
            .deliveries
            .values()
            .filter(|delivery| delivery.state == DeliveryState::Queued);
        let messages = queued.filter_map(|delivery| delivery.expires_at);
        let live = self.agents.values().filter(|agent| agent.is_live());
        let silence = live.map(|agent| agent.seen_at + agent.silent_after);
        let watches = self.tasks.values().filter_map(|task| task.watch);
        let watches = watches.map(|watch| watch.look_at);
        let due = retries.chain(leases).chain(messages);
        due.chain(silence).chain(watches).min()
    }
}

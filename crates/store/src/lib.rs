//! What Switchboard remembers: one small trait for the writer, one for readers, an engine for each place.
//!
//! Engines fetch and keep rows; no rule lives here. `conformance` is the suite that every engine passes; it and the engine in
//! memory are there for tests only (feature `testing`).
//! The rules are in `switchboard_core`; who calls [`Engine`] is the sequencer in the hub.

mod by_hand;
pub mod chain;
pub mod clock;
mod columns;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod copy;
mod error;
mod finished;
pub mod inspect;
pub mod journal;
#[cfg(feature = "testing")]
pub mod memory;
pub mod moved;
mod paging;
pub mod postgres;
mod rows;
mod schema;
pub mod sqlite;
pub mod swarm_db;
mod table;
mod text;

use std::time::Duration;

use switchboard_core::slice::Save;
use switchboard_core::verb::{BeginEpoch, Note};
use switchboard_core::{
    AgentId, Ask, LaneKey, LedgerEpoch, Logged, MessageId, Slice, TaskId, Timestamp,
};

pub use clock::{Clock, ManualClock, Mark, Reading, SystemClock, Wall};
pub use error::Error;
pub use switchboard_core::query::{
    AgentCounts, AgentFilter, HeldTask, LeaseFilter, MessageFilter, MessageSince, Page, Pages,
    Readable, Since, SnapshotFilter, TaskFilter, TaskRef,
};

/// A connection that only reads, on a thread of its own.
pub trait Reader: Readable<Error = Error> + Send {}

impl<T: Readable<Error = Error> + Send> Reader for T {}

/// The one writer's side of a ledger. A batch is begin, any number of loads and saves, then commit or rollback.
pub trait Engine: Send {
    /// Takes the ledger's head, so that nobody else writes until the batch ends, and tells the time.
    ///
    /// Puts the head into `slice`, and first forgets what it holds if anyone else may have written since.
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error>;

    /// To be called before the first batch: whether the time that seems to have passed since the last one is believed.
    fn start_clock(&mut self, _wall: Wall) -> Result<(), Error> {
        Ok(())
    }

    /// Answers every ask into `slice`. Before a range is asked for ([`Ask::is_range`]), unsaved rows must have been saved.
    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error>;

    fn save(&mut self, save: &Save<'_>) -> Result<(), Error>;

    /// Returns once everything saved is durable.
    fn commit(&mut self) -> Result<(), Error>;

    fn rollback(&mut self);

    /// Ends a batch that saved nothing. Returns once what it was decided by is durable, too.
    fn end_unwritten(&mut self) -> Result<(), Error> {
        self.rollback();
        Ok(())
    }

    /// What was written into the ledger's tables by hand and not taken in yet: the oldest, at most `limit` of them, and
    /// fewer where they are large. What the hub knew of those rows goes into `slice`.
    fn hand_notes(&mut self, _limit: usize, _slice: &mut Slice) -> Result<HandPage, Error> {
        Ok(HandPage {
            notes: Vec::new(),
            is_last: true,
        })
    }

    /// How often to look whether anybody else wrote; `None` where nobody can, or where [`Engine::tail`] tells.
    fn looks_every(&self) -> Option<Duration> {
        None
    }

    /// Whether anybody else wrote since the last batch.
    fn look(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    /// The earliest instant at which a stored row becomes due: a retry, a lease's or a message's end, an agent's
    /// silence (its last stored sign of life plus `silent_after`).
    fn next_due(&mut self) -> Result<Option<Timestamp>, Error>;

    /// Readers of the same ledger; each sees what was committed before it asked.
    fn reader(&self) -> Result<Box<dyn Reader>, Error>;

    /// Whether other processes write this ledger too. Then nothing may be held back in this one's memory.
    fn is_shared(&self) -> bool {
        false
    }

    /// Word of what other processes write; `None` where nobody else can.
    fn tail(&self) -> Result<Option<Box<dyn Tail>>, Error> {
        Ok(None)
    }

    /// False if it was opened and does not take writes yet, for a reason that passes; each batch says why.
    fn is_writable(&self) -> bool {
        true
    }

    /// Raw SQL on the public tables; `None` where strangers speak to the engine itself, or cannot.
    fn door(&self) -> Option<sqlite::door::Door> {
        None
    }

    /// The key that all who serve this ledger sign with: `fresh`, unless there is one already. `None` where each
    /// process keeps its own beside the ledger.
    fn shared_key(&mut self, _fresh: &[u8; 32]) -> Result<Option<[u8; 32]>, Error> {
        Ok(None)
    }
}

/// Follows what other processes commit. Being told is a hint; reading the log is the guarantee.
pub trait Tail: Send {
    /// Tells the others that this process committed up to `seq`, sooner or later, once for many calls.
    fn announcer(&self) -> Box<dyn Fn(u64) + Send + Sync>;

    /// Waits for others to write, not much longer than a moment. Returns the last committed event's number.
    fn wait(&mut self) -> Result<u64, Error>;

    /// Whether the last wait found hand writes that nobody has taken in yet.
    fn is_by_hand(&self) -> bool {
        false
    }

    /// The ledger's epoch that the last wait found.
    fn epoch(&self) -> LedgerEpoch {
        LedgerEpoch::default()
    }

    /// What others logged after a number, in order, at most `limit` batches; and how far this went. Events of this
    /// process are left out.
    fn foreign(&mut self, after: u64, limit: usize) -> Result<Foreign, Error>;

    /// The lanes in which these tasks wait right now, once per task that does.
    fn lanes_of(&mut self, tasks: &[TaskId]) -> Result<Vec<LaneKey>, Error>;

    /// The agents for which these messages wait right now.
    fn recipients_of(&mut self, messages: &[MessageId]) -> Result<Vec<AgentId>, Error>;
}

/// A stretch of the log, without what this process wrote itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreign {
    pub events: Vec<Logged>,
    /// Everything up to this number was looked at.
    pub upto: u64,
}

/// Some of what was written by hand.
#[derive(Debug)]
pub struct HandPage {
    pub notes: Vec<Note>,
    /// There are none after these. If it is not known, there may be.
    pub is_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    pub now: Timestamp,
    /// What the wall clock shows: the machine's, or the database's.
    pub wall: Timestamp,
    /// The wall clock was set forward by so much, or back if negative; the ledger's time went on.
    pub clock_stepped_ms: Option<i64>,
    /// There are hand writes to take in: [`Engine::hand_notes`].
    pub by_hand: bool,
    /// The ledger has less than this process was told of: a new epoch is to begin.
    pub rewound: Option<BeginEpoch>,
}

//! What Switchboard remembers: one small trait for the writer, one for readers, an engine for each place.
//!
//! Engines fetch and keep rows; no rule lives here. [`conformance`] is the suite that every engine passes.
//! The rules are in `switchboard_core`; who calls [`Engine`] is the sequencer in the hub.

pub mod clock;
pub mod conformance;
mod error;
pub mod memory;
mod query;
pub mod sqlite;

use switchboard_core::slice::Save;
use switchboard_core::{Ask, Slice, Timestamp};

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::Error;
pub use query::{
    AgentCounts, AgentFilter, LeaseFilter, MessageFilter, MessageSince, Page, Pages, Reader, Since,
    SnapshotFilter, TaskFilter, TaskRef,
};

/// The one writer's side of a ledger. A batch is begin, any number of loads and saves, then commit or rollback.
pub trait Engine: Send {
    /// Takes the ledger's head, so that nobody else writes until the batch ends, and tells the time.
    ///
    /// Puts the head into `slice`, and first forgets what it holds if anyone else may have written since.
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error>;

    /// Answers every ask into `slice`. Before a range is asked for ([`Ask::is_range`]), unsaved rows must have been saved.
    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error>;

    fn save(&mut self, save: &Save<'_>) -> Result<(), Error>;

    /// Returns once everything saved is durable.
    fn commit(&mut self) -> Result<(), Error>;

    fn rollback(&mut self);

    /// The earliest instant at which a stored row becomes due: a retry, a lease's or a message's end, an agent's
    /// silence (its last stored sign of life plus `silent_after`).
    fn next_due(&mut self) -> Result<Option<Timestamp>, Error>;

    /// Readers of the same ledger; each sees what was committed before it asked.
    fn reader(&self) -> Result<Box<dyn Reader>, Error>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    pub now: Timestamp,
    /// The wall clock was set back by so much; the ledger's time went on.
    pub clock_stepped_back_ms: Option<u64>,
}

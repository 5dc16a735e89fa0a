//! The working set: rows a batch has loaded and changed, kept as a cache while nobody else writes.
//!
//! Verbs read it; [`Slice::apply`] takes their changes in; the engine fills it and saves what became dirty.
//! Point rows of agents, tasks and lanes, and what the director was told, outlive a batch, everything else is dropped at its end. The slice
//! is never the truth: whoever cannot tell that the ledger is undisturbed must [`Slice::forget`] first.

use crate::agent::{Agent, FormerAgent};
use crate::event::Logged;
use crate::head::Head;
use crate::id::{AgentId, MessageId, TaskId};
use crate::lane::LaneId;
use crate::lease::Lease;
use crate::message::{Delivery, Message};
use crate::path::LeasePath;
use crate::row::{Noun, Rows};
use crate::task::Task;
use crate::time::Timestamp;

mod apply;
mod cells;
mod lanes;
mod ranges;
mod save;

/// Quick and seeded anew in every process: keys come from outside.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

pub use cells::{AnyCells, Cells, Put};
pub use lanes::{LaneBook, QueueView};
pub use ranges::{FinishedPage, InboxAsk, InboxOrder, Kept, Ranges};
pub use save::Save;

#[derive(Debug, Default)]
pub struct Slice {
    pub head: Head,
    /// Whether `head` came from the store; an engine sets it, forgetting ends it.
    pub has_head: bool,
    pub lanes: LaneBook,
    /// Answers to range asks; valid within one batch.
    pub ranges: Ranges,
    rows: Rows,
    /// Signs of life that no saved row shows yet.
    pulses: Map<AgentId, HeldPulse>,
    /// They are in the save that is about to be committed.
    pulses_saved: bool,
    /// About how much text the known tasks hold.
    task_bytes: usize,
    unsaved: save::Unsaved,
    log: Vec<Logged>,
    notices: Notices,
}

/// What somebody may be waiting for; told after the commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// Lanes that a task entered, once per task.
    pub readied: Vec<LaneId>,
    /// Other nodes are told something.
    pub told: bool,
    /// Agents that a message waits for.
    pub inboxes: Vec<AgentId>,
    /// Agents whose sign of life is held back.
    pub pulsed: Vec<AgentId>,
    /// An agent left or fell silent: others may now take what it would have.
    pub agents_left: bool,
    /// An agent that was idle is no longer: it comes first with nothing any more.
    pub agents_busied: bool,
    /// New work is handed out again.
    pub work_resumed: bool,
    /// Agents whose row changed, signs of life aside.
    pub changed_agents: Vec<AgentId>,
    /// The earliest instant at which a changed row becomes due.
    pub due: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldPulse {
    pub at: Timestamp,
    /// All that were counted, not only those held back.
    pub heartbeats: u64,
    pub since: Timestamp,
}

/// Tasks kept between batches; past it all of them are dropped.
const TASKS_KEPT: usize = 8192;
const TASK_BYTES_KEPT: usize = 16 * 1024 * 1024;
const AGENTS_KEPT: usize = 20_000;

impl Slice {
    /// `None`: not loaded. `Some(None)`: there is no such row.
    pub fn known<T: Noun>(&self, key: &T::Key) -> Option<Option<&T>> {
        T::cells(&self.rows).known(key)
    }

    /// A row that was asked for.
    pub fn row<T: Noun>(&self, key: &T::Key) -> Option<&T> {
        self.known::<T>(key)
            .expect("a verb asks for every row it looks at")
    }

    pub fn agent(&self, id: &AgentId) -> Option<&Agent> {
        self.row(id)
    }

    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.row(id)
    }

    pub fn message(&self, id: &MessageId) -> Option<&Message> {
        self.row(id)
    }

    pub fn delivery(&self, message: &MessageId, agent: &AgentId) -> Option<&Delivery> {
        self.row(&(message.clone(), agent.clone()))
    }

    /// Leases are asked for by range: one that is not known is not there.
    pub fn lease(&self, path: &LeasePath) -> Option<&Lease> {
        self.rows.leases.get(path)
    }

    /// What is left of an agent without a row; known as soon as it is known that there is none.
    pub fn former_agent(&self, id: &AgentId) -> Option<&FormerAgent> {
        self.rows.former_agents.get(id)
    }

    // What an engine fills in. A row that is here already is as new as the store's, or newer.

    pub fn load<T: Noun>(&mut self, key: T::Key, row: Option<T>) {
        T::cells_mut(&mut self.rows).load(key, || row);
    }

    pub fn put_agent(&mut self, id: &AgentId, row: Option<Agent>) {
        let held = self.pulses.get(id).copied();
        self.rows.agents.load(id.clone(), || {
            row.map(|mut agent| {
                if let Some(pulse) = held {
                    agent.seen_at = agent.seen_at.max(pulse.at);
                    agent.heartbeats = agent.heartbeats.max(pulse.heartbeats);
                }
                agent
            })
        });
    }

    pub fn put_task(&mut self, id: &TaskId, row: Option<Task>) {
        let bytes = &mut self.task_bytes;
        self.rows.tasks.load(id.clone(), || {
            *bytes += row.as_ref().map_or(0, Task::bytes);
            row
        });
    }

    pub fn put_row<T: Noun>(&mut self, row: T) {
        self.load(row.key(), Some(row));
    }

    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// A sign of life that readers of the store cannot see yet.
    pub fn held_pulse(&self, agent: &AgentId) -> Option<(Timestamp, u64)> {
        self.pulses
            .get(agent)
            .map(|pulse| (pulse.at, pulse.heartbeats))
    }

    pub fn holds_pulses(&self) -> bool {
        !self.pulses.is_empty() && !self.pulses_saved
    }

    /// Ends a batch: drops what is valid within one only, and what became too much.
    pub fn end_batch(&mut self) {
        self.ranges.clear();
        self.rows.end_batch();
        self.rows.records.retain(|key, _| key.kind.lasts());
        self.log.clear();
        self.notices = Notices::default();
        self.lanes.trim();
        if self.pulses_saved {
            self.pulses.clear();
            self.pulses_saved = false;
        }
        if self.rows.tasks.len() > TASKS_KEPT || self.task_bytes > TASK_BYTES_KEPT {
            self.rows.tasks.clear();
            self.task_bytes = 0;
        }
        if self.rows.agents.len() > AGENTS_KEPT {
            self.rows.agents.clear();
            self.rows.former_agents.clear();
        }
    }

    /// Drops everything that was loaded: somebody else may have written. Held signs of life stay.
    pub fn forget(&mut self) {
        let pulses = std::mem::take(&mut self.pulses);
        *self = Slice {
            pulses,
            ..Slice::default()
        };
    }
}

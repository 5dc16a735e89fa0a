//! What a decision wants written: whole rows, keys to delete, events to append.

use crate::agent::{Agent, FormerAgent};
use crate::attempt::Attempt;
use crate::engram::Engram;
use crate::event::Event;
use crate::head::LedgerEpoch;
use crate::id::{AgentId, EngramId, MessageId, TaskId};
use crate::idempotency::{Key, Remembered};
use crate::lease::Lease;
use crate::memory::Learning;
use crate::message::{Delivery, Message};
use crate::path::LeasePath;
use crate::quality::{Baseline, Snapshot};
use crate::record::Record;
use crate::task::Task;
use crate::time::Timestamp;
use crate::token::Token;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub agents: Vec<Agent>,
    /// Signs of life that change nothing else; they may be held back for a moment.
    pub pulses: Vec<Pulse>,
    /// Rows of agents to drop, and what stays of each.
    pub forgotten_agents: Vec<FormerAgent>,
    pub tasks: Vec<Task>,
    pub forgotten_tasks: Vec<TaskId>,
    pub attempts: Vec<Attempt>,
    pub leases: Vec<Lease>,
    pub ended_leases: Vec<LeasePath>,
    pub messages: Vec<Message>,
    pub deliveries: Vec<Delivery>,
    pub snapshots: Vec<Snapshot>,
    pub baseline: Option<Baseline>,
    pub learnings: Vec<Learning>,
    pub engrams: Vec<Engram>,
    pub evicted_engrams: Vec<EngramId>,
    pub records: Vec<Record>,
    pub tokens: Vec<Token>,
    pub remembered: Vec<(Key, Remembered)>,
    pub nonces: Vec<Nonce>,
    pub prunes: Vec<Prune>,
    pub served: Option<Served>,
    pub epoch: Option<LedgerEpoch>,
    /// Notes of hand writes that are taken up, and the rows to be written anew for it.
    pub adopted: Vec<Adopted>,
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    pub agent: AgentId,
    pub at: Timestamp,
    pub heartbeat: bool,
}

/// A signature that was used and must not be used again while it could still be valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nonce {
    pub agent: AgentId,
    pub value: Box<str>,
    pub valid_until: Timestamp,
}

/// Old rows that no rule looks at any more, deleted in bounded steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prune {
    /// Only those below a number.
    Events {
        before: Timestamp,
        upto: u64,
        limit: usize,
    },
    Messages {
        before: Timestamp,
        limit: usize,
    },
    Remembered {
        before: Timestamp,
        limit: usize,
    },
    Nonces {
        before: Timestamp,
        limit: usize,
    },
}

/// A note of a hand write, and the row that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    pub note: u64,
    pub row: AdoptedRow,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AdoptedRow {
    Task(TaskId),
    Agent(AgentId),
    Message(MessageId),
    Lease(LeasePath),
    Baseline,
}

impl AdoptedRow {
    /// The public table, and the key of the row in it.
    pub fn names(&self) -> (&'static str, String) {
        match self {
            AdoptedRow::Task(id) => ("tasks", id.to_string()),
            AdoptedRow::Agent(id) => ("agents", id.to_string()),
            AdoptedRow::Message(id) => ("messages", id.to_string()),
            AdoptedRow::Lease(path) => ("leases", path.to_string()),
            AdoptedRow::Baseline => ("quality_baseline", "1".to_owned()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    pub at: Timestamp,
    /// Set when an outage ended now.
    pub floor: Option<Timestamp>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }

    pub fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    pub fn task(&mut self, (task, event): (Task, Event)) {
        self.tasks.push(task);
        self.events.push(event);
    }

    pub fn pulse(&mut self, agent: &AgentId, at: Timestamp) {
        self.pulses.push(Pulse {
            agent: agent.clone(),
            at,
            heartbeat: false,
        });
    }
}

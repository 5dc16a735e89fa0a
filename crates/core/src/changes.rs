//! What a decision wants written: whole rows, keys of rows to delete, events to append.

use crate::event::Event;
use crate::head::LedgerEpoch;
use crate::id::{AgentId, MessageId, TaskId};
use crate::outbox::Dispatch;
use crate::path::LeasePath;
use crate::record::Kind;
use crate::row::{Noun, Row, RowKey};
use crate::task::Task;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Rows to delete, before any is put: a key may be freed and taken by one decision.
    pub drops: Vec<RowKey>,
    pub puts: Vec<Row>,
    /// Signs of life that change nothing else; they may be held back for a moment.
    pub pulses: Vec<Pulse>,
    pub prunes: Vec<Prune>,
    pub served: Option<Served>,
    pub epoch: Option<LedgerEpoch>,
    /// Notes of hand writes that are taken up, and the rows to be written anew for it.
    pub adopted: Vec<Adopted>,
    pub events: Vec<Event>,
    /// What other nodes are told. Numbers are given when it is applied.
    pub dispatches: Vec<Dispatch>,
    /// Of these the first: an agent's own event about what it does here.
    pub published: Option<Box<PublishedStep>>,
}

/// An event that an agent published, in place of the one by which its task would tell the same.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedStep {
    pub task: Option<TaskId>,
    pub event: Dispatch,
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
    /// Those of an owner, by position.
    Records {
        kind: Kind,
        owner: &'static str,
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

    pub fn put(&mut self, row: impl Into<Row>) {
        self.puts.push(row.into());
    }

    pub fn remove<T: Noun>(&mut self, key: T::Key) {
        self.drops.push(T::named(key));
    }

    /// Takes what another decision of the same batch wants written along.
    pub fn absorb(&mut self, other: Changes) {
        self.drops.extend(other.drops);
        self.puts.extend(other.puts);
        self.pulses.extend(other.pulses);
        self.events.extend(other.events);
        self.dispatches.extend(other.dispatches);
    }

    /// The rows of a kind that are put so far.
    pub fn rows<T: Noun>(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.puts.iter().filter_map(T::of)
    }

    pub fn rows_mut<T: Noun>(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.puts.iter_mut().filter_map(T::of_mut)
    }

    /// A row that is put so far, as it was put last.
    pub fn row_mut<T: Noun>(&mut self, key: &T::Key) -> Option<&mut T> {
        self.rows_mut::<T>().rev().find(|row| row.key() == *key)
    }

    pub fn task(&mut self, (task, event): (Task, Event)) {
        self.put(task);
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

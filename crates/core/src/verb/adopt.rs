//! Takes in what somebody wrote into the public tables by hand, by the same verbs that the other doors use.
//!
//! A note tells of one row: as the hub last knew it, and as the hand left it. What it amounts to is a few ordinary
//! verbs, decided on the row as the hub knew it. The first step has the row written anew from the hub's own image,
//! whatever the hand did to it; so a step that is refused leaves the row as it was before.

use std::sync::Arc;

use super::set_baseline::{BaselineSource, SetBaseline};
use super::{Finding, Verb};
use crate::agent::Agent;
use crate::assertion::Asserted;
use crate::changes::{Adopted, AdoptedRow, Changes};
use crate::contract::Contract;
use crate::event::Event;
use crate::id::{AgentId, MessageId, TaskId};
use crate::lease::Lease;
use crate::message::{Meaning, Message};
use crate::path::LeasePath;
use crate::quality::{GatePolicy, Metrics};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

mod agent;
mod lease;
mod message;
mod person;
mod task;

pub use task::{TRANSITIONS, is_stewards};

/// One row that was written by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub number: u64,
    pub written: Written,
}

/// `was` is the row as the hub knew it, `is` as the hand left it; `None` where there is no row.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    Task {
        id: TaskId,
        was: Option<Box<Task>>,
        is: Option<Box<Task>>,
        /// What the snapshot that the row points to has measured.
        metrics: Option<Box<Metrics>>,
    },
    Agent {
        id: AgentId,
        was: Option<Box<Agent>>,
        is: Option<Box<Agent>>,
        how: AgentWritten,
    },
    Message {
        id: MessageId,
        was: Option<Box<Message>>,
        is: Option<Box<Message>>,
        /// Whose copy of a broadcast it was; otherwise the message's own recipient is meant.
        reader: Option<AgentId>,
    },
    Lease {
        path: LeasePath,
        was: Option<Lease>,
        is: Option<Lease>,
    },
    Baseline {
        is: Metrics,
        by: String,
    },
    /// No build of the hub can make sense of it.
    Unreadable {
        row: AdoptedRow,
        why: String,
    },
}

/// How a row of an agent came to be as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentWritten {
    /// Also over a row that was there.
    Inserted,
    /// An update that is a sign of life.
    Beat,
    Changed,
}

/// A verb among others, without its reply.
pub trait HandStep: Send {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp);
    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal>;
}

impl<V: Verb + Send> HandStep for V {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        Verb::asks(self, want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        Verb::decide(self, slice, now).map(|(_, changes)| changes)
    }
}

type Steps = Vec<Box<dyn HandStep>>;

/// Reads what a message means and claims, or tells what is wrong with it.
pub type Meant<'a> = &'a dyn Fn(&Message) -> Result<(Meaning, Vec<Asserted>), String>;

/// What a completion is held against.
#[derive(Clone, Copy)]
pub struct Gauge<'a> {
    pub policy: &'a Arc<GatePolicy>,
    /// Compares a result with what a contract says that it must be.
    pub judge: &'a dyn Fn(&Contract, &str) -> Finding,
}

impl Note {
    /// What it amounts to, in order. If one is refused, the rest is left out and [`Note::undone`] told instead.
    pub fn steps(&self, gauge: Gauge<'_>, meaning: Meant<'_>) -> Vec<Box<dyn HandStep>> {
        let mut steps: Steps = vec![Box::new(Open {
            adopted: self.adopted(),
        })];
        match &self.written {
            Written::Task {
                was, is, metrics, ..
            } => task::steps(
                &mut steps,
                was.as_deref(),
                is.as_deref(),
                metrics.as_deref(),
                gauge,
            ),
            Written::Agent { was, is, how, id } => {
                agent::steps(&mut steps, id, was.as_deref(), is.as_deref(), *how);
            }
            Written::Message {
                was, is, reader, ..
            } => message::steps(
                &mut steps,
                was.as_deref(),
                is.as_deref(),
                reader.as_ref(),
                meaning,
            ),
            Written::Lease { path, was, is } => {
                lease::steps(&mut steps, path, was.as_ref(), is.as_ref());
            }
            Written::Baseline { is, by } => steps.push(Box::new(SetBaseline {
                source: BaselineSource::Given(is.clone()),
                by: by.clone(),
            })),
            Written::Unreadable { .. } => {}
        }
        steps
    }

    /// Only has the row written anew.
    pub fn restore(&self) -> Box<dyn HandStep> {
        Box::new(Open {
            adopted: self.adopted(),
        })
    }

    /// Tells that it did not hold.
    pub fn undone(&self, why: String) -> Changes {
        let (table, key) = self.row().names();
        let event = Event::WriteUndone {
            table: table.to_owned(),
            key,
            why,
        };
        Changes {
            events: vec![event],
            ..Changes::default()
        }
    }

    pub fn row(&self) -> AdoptedRow {
        match &self.written {
            Written::Task { id, .. } => AdoptedRow::Task(id.clone()),
            Written::Agent { id, .. } => AdoptedRow::Agent(id.clone()),
            Written::Message { id, .. } => AdoptedRow::Message(id.clone()),
            Written::Lease { path, .. } => AdoptedRow::Lease(path.clone()),
            Written::Baseline { .. } => AdoptedRow::Baseline,
            Written::Unreadable { row, .. } => row.clone(),
        }
    }

    fn adopted(&self) -> Adopted {
        Adopted {
            note: self.number,
            row: self.row(),
        }
    }
}

/// The note is taken up, and its row written anew from what the hub knows.
struct Open {
    adopted: Adopted,
}

impl HandStep for Open {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        match &self.adopted.row {
            AdoptedRow::Task(id) => {
                want.task(id);
            }
            AdoptedRow::Agent(id) => {
                want.agent(id);
            }
            AdoptedRow::Message(id) => {
                want.message(id);
            }
            AdoptedRow::Lease(path) => {
                let _ = want.leases_near(path);
            }
            AdoptedRow::Baseline => {}
        }
    }

    fn decide(&self, _slice: &Slice, _now: Timestamp) -> Result<Changes, Refusal> {
        Ok(Changes {
            adopted: vec![self.adopted.clone()],
            ..Changes::default()
        })
    }
}

#[cfg(test)]
mod tests;

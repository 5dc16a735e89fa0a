//! What must hold after every tick, and at the end: beyond the laws of any history, those of time and of what agents
//! were told.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_core::{AgentId, Event, MessageId, TaskId, Timestamp, limits};
use switchboard_store::conformance::Everything;

use super::agent::Facts;
use crate::laws::obey;

/// Reads the log as it grows.
#[derive(Default)]
pub struct Laws {
    read: u64,
    /// Last sign of life that was committed, and the one at an earlier instant.
    heard: BTreeMap<AgentId, (Timestamp, Timestamp)>,
    silent: BTreeSet<AgentId>,
    epochs: BTreeMap<TaskId, u64>,
    claimed: BTreeMap<(TaskId, u64), AgentId>,
    completed: BTreeMap<TaskId, (AgentId, u64)>,
    delivered: BTreeSet<(MessageId, AgentId)>,
    fencing: u64,
}

/// Since when silence counts, as agents see it: the last start, or the first batch after nobody served. With the log's
/// number at that time, because several coordinators act at one instant.
#[derive(Default)]
pub struct ServedSince(Vec<(u64, Timestamp)>);

impl ServedSince {
    pub fn begin(&mut self, seq: u64, now: Timestamp) {
        self.0.push((seq, now));
    }

    fn at(&self, seq: u64) -> Timestamp {
        let before = self.0.iter().rev().find(|(begun, _)| *begun < seq);
        before.map_or(Timestamp::ZERO, |(_, at)| *at)
    }
}

impl Laws {
    /// A call of this agent was committed, and not refused.
    pub fn heard(&mut self, agent: &AgentId, now: Timestamp) {
        let (last, before) = self.heard.entry(agent.clone()).or_default();
        if *last < now {
            (*last, *before) = (now, *last);
        }
    }

    pub fn hold(&mut self, before: &Everything, after: &Everything, served: &ServedSince) {
        obey(before, after, &[]);
        let read = self.read;
        for logged in after.log.iter().filter(|logged| logged.seq > read) {
            self.take(&logged.event, logged.at, served.at(logged.seq));
        }
        self.read = after.head.seq;
    }

    fn take(&mut self, event: &Event, at: Timestamp, served_since: Timestamp) {
        match event {
            Event::AgentSilent { agent } => {
                let (last, before) = self.heard.get(agent).copied().unwrap_or_default();
                // A call at the same instant may have come after, at another coordinator.
                let heard = if last == at { before } else { last };
                let quiet = at.since(heard.max(served_since));
                assert!(
                    quiet >= limits::SILENT_AFTER,
                    "{agent} was declared dead after {quiet:?} of silence while somebody served"
                );
                self.silent.insert(agent.clone());
            }
            Event::TaskClaimed {
                task, agent, epoch, ..
            } => {
                let before = self.epochs.insert(task.clone(), *epoch);
                assert!(
                    before.is_none_or(|before| before < *epoch),
                    "an epoch came again: {event:?}"
                );
                self.claimed.insert((task.clone(), *epoch), agent.clone());
            }
            Event::TaskCompleted {
                task, agent, epoch, ..
            } => {
                let before = self.completed.insert(task.clone(), (agent.clone(), *epoch));
                assert_eq!(before, None, "completed twice: {event:?}");
                assert_eq!(
                    self.epochs.get(task),
                    Some(epoch),
                    "completed under another claim: {event:?}"
                );
            }
            Event::MessageDelivered { message, agent } => {
                let is_new = self.delivered.insert((message.clone(), agent.clone()));
                assert!(is_new, "delivered twice: {event:?}");
            }
            Event::LeaseAcquired { fencing, .. } => {
                assert!(
                    *fencing > self.fencing,
                    "a fencing token came again: {event:?}"
                );
                self.fencing = *fencing;
            }
            // The others are held by the laws of any history.
            _ => {}
        }
    }

    /// Whatever was told is so.
    pub fn agree_with(&self, facts: &Facts, end: &Everything) {
        let tasks: BTreeSet<&TaskId> = end.tasks.iter().map(|task| &task.id).collect();
        for task in &facts.created {
            assert!(
                tasks.contains(task),
                "{task} was acknowledged and is not there"
            );
        }
        for (claim, agent) in &facts.claimed {
            assert_eq!(self.claimed.get(claim), Some(agent), "{claim:?}");
        }
        for (task, by) in &facts.completed {
            assert_eq!(self.completed.get(task), Some(by), "{task}");
        }
        for (message, agent) in &facts.received {
            assert!(
                self.delivered.contains(&(message.clone(), agent.clone())),
                "{message} to {agent}"
            );
        }
        let sent: BTreeSet<&MessageId> = end.messages.iter().map(|message| &message.id).collect();
        for message in &facts.sent {
            assert!(
                sent.contains(message),
                "{message} was acknowledged and is not there"
            );
        }
        // Only who fell silent loses a task.
        for (task, epoch, agent) in &facts.lost {
            assert!(
                self.silent.contains(agent),
                "{agent} lost {task} under epoch {epoch} and was never silent"
            );
        }
    }
}

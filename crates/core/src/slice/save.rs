//! What must be written, gathered so that a row changed ten times in a batch is written once.

use super::{Notices, Set, Slice};
use crate::agent::{Agent, FormerAgent};
use crate::attempt::Attempt;
use crate::changes::{Adopted, Nonce, Prune};
use crate::engram::Engram;
use crate::event::Logged;
use crate::head::Head;
use crate::id::{AgentId, EngramId, MessageId, TaskId};
use crate::idempotency::{Key, Remembered};
use crate::lane::{Lane, LaneId, Rep};
use crate::lease::Lease;
use crate::limits;
use crate::memory::Learning;
use crate::message::{Delivery, Message};
use crate::path::LeasePath;
use crate::quality::{Baseline, Snapshot};
use crate::record::{Record, RecordKey};
use crate::task::Task;
use crate::time::Timestamp;
use crate::token::Token;

#[derive(Debug, Default)]
pub(super) struct Dirty {
    pub head: bool,
    pub agents: Vec<AgentId>,
    pub redescribed_agents: Vec<AgentId>,
    pub forgotten_agents: Vec<FormerAgent>,
    pub tasks: Vec<TaskId>,
    pub redescribed_tasks: Set<TaskId>,
    pub requeued_tasks: Set<TaskId>,
    pub forgotten_tasks: Vec<(TaskId, u64)>,
    pub leases: Vec<LeasePath>,
    pub ended_leases: Vec<LeasePath>,
    pub messages: Vec<MessageId>,
    pub deliveries: Vec<(MessageId, AgentId)>,
    pub attempts: Vec<Attempt>,
    pub snapshots: Vec<Snapshot>,
    pub baseline: bool,
    pub learnings: Vec<Learning>,
    pub engrams: Vec<Engram>,
    pub evicted_engrams: Vec<EngramId>,
    pub records: Vec<RecordKey>,
    pub remembered: Vec<(Key, Remembered)>,
    pub nonces: Vec<Nonce>,
    pub tokens: Vec<Token>,
    pub prunes: Vec<Prune>,
    pub adopted: Vec<Adopted>,
}

/// The rows to write. Puts of rows come with whether the row is new.
#[derive(Debug)]
pub struct Save<'a> {
    /// Absent while a batch goes on; the last save of a batch has it, and the events with it.
    pub head: Option<&'a Head>,
    pub log: &'a [Logged],
    pub agents: Vec<(&'a Agent, bool)>,
    /// Those of `agents` that say something new about themselves, not only about what they do.
    pub redescribed_agents: &'a [AgentId],
    /// Rows to drop, and what stays of each.
    pub forgotten_agents: &'a [FormerAgent],
    /// Agents whose last sign of life is due to be written, with all heartbeats counted. Rows of `agents` that are
    /// not new leave both to this.
    pub pulses: Vec<(&'a AgentId, Timestamp, u64)>,
    pub tasks: Vec<(&'a Task, bool)>,
    /// Those of `tasks` whose description changed, not only their state.
    pub redescribed_tasks: &'a Set<TaskId>,
    /// Those of `tasks` for which more changed than who works on them and how far they are.
    pub requeued_tasks: &'a Set<TaskId>,
    pub forgotten_tasks: &'a [(TaskId, u64)],
    pub lanes: Vec<&'a Lane>,
    pub closed_lanes: &'a [LaneId],
    /// How many lanes are filed under a word.
    pub reps: Vec<(&'a Rep, u64)>,
    pub leases: Vec<(&'a Lease, bool)>,
    pub ended_leases: &'a [LeasePath],
    pub messages: Vec<(&'a Message, bool)>,
    pub deliveries: Vec<(&'a Delivery, bool)>,
    pub attempts: &'a [Attempt],
    pub snapshots: &'a [Snapshot],
    pub baseline: Option<&'a Baseline>,
    pub learnings: &'a [Learning],
    /// Deleted before others are added.
    pub evicted_engrams: &'a [EngramId],
    pub engrams: &'a [Engram],
    pub records: Vec<(&'a Record, bool)>,
    pub remembered: &'a [(Key, Remembered)],
    pub nonces: &'a [Nonce],
    pub tokens: &'a [Token],
    pub prunes: &'a [Prune],
    /// Notes to drop. Their rows are written anew: among the puts, or gone.
    pub adopted: &'a [Adopted],
}

impl Slice {
    /// Whether anything must be written before this batch may end.
    pub fn is_dirty(&self, now: Timestamp) -> bool {
        self.has_unsaved_rows()
            || !self.log.is_empty()
            || self.dirty.head
            || self.pulses_are_due(now)
    }

    /// Whether a range read from the store now would miss something.
    pub fn has_unsaved_rows(&self) -> bool {
        let Dirty {
            head: _,
            agents,
            redescribed_agents: _,
            forgotten_agents,
            tasks,
            redescribed_tasks: _,
            requeued_tasks: _,
            forgotten_tasks,
            leases,
            ended_leases,
            messages,
            deliveries,
            attempts,
            snapshots,
            baseline,
            learnings,
            engrams,
            evicted_engrams,
            records,
            remembered,
            nonces,
            tokens,
            prunes,
            adopted,
        } = &self.dirty;
        *baseline
            || !(agents.is_empty()
                && forgotten_agents.is_empty()
                && tasks.is_empty()
                && forgotten_tasks.is_empty()
                && leases.is_empty()
                && ended_leases.is_empty()
                && messages.is_empty()
                && deliveries.is_empty()
                && attempts.is_empty()
                && snapshots.is_empty()
                && learnings.is_empty()
                && engrams.is_empty()
                && evicted_engrams.is_empty()
                && records.is_empty()
                && remembered.is_empty()
                && nonces.is_empty()
                && tokens.is_empty()
                && prunes.is_empty()
                && adopted.is_empty()
                && self.lanes.dirty.is_empty()
                && self.lanes.dirty_reps.is_empty())
    }

    fn pulses_are_due(&self, now: Timestamp) -> bool {
        self.pulses
            .values()
            .any(|pulse| now.since(pulse.since) >= limits::PULSE_EVERY)
    }

    /// Hands the unsaved rows to `write`, without head and events, so that ranges can be read.
    pub fn save_rows<E>(
        &mut self,
        write: impl FnOnce(&Save<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let closed = self.close_empty_lanes();
        write(&self.unsaved(&closed))?;
        self.mark_saved();
        // They are in the batch, however little follows: without this one that changes no more is rolled back with them.
        self.dirty.head = true;
        Ok(())
    }

    /// Hands everything that is left of a batch to `write`: rows, due signs of life, head and events.
    pub fn save_all<E>(
        &mut self,
        now: Timestamp,
        all_pulses: bool,
        write: impl FnOnce(&Save<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let closed = self.close_empty_lanes();
        let with_pulses = all_pulses || self.pulses_are_due(now);
        let mut save = self.unsaved(&closed);
        if with_pulses {
            save.pulses = self
                .pulses
                .iter()
                .map(|(id, pulse)| (id, pulse.at, pulse.heartbeats))
                .collect();
        }
        save.head = Some(&self.head);
        save.log = &self.log;
        write(&save)?;
        self.pulses_saved = with_pulses;
        self.dirty.head = false;
        self.mark_saved();
        Ok(())
    }

    /// The events of this batch so far.
    pub fn log(&self) -> &[Logged] {
        &self.log
    }

    /// Hands over what is told after the commit, while the next batch goes on.
    pub fn take_told(&mut self) -> (Vec<Logged>, Notices) {
        (
            std::mem::take(&mut self.log),
            std::mem::take(&mut self.notices),
        )
    }

    fn close_empty_lanes(&mut self) -> Vec<LaneId> {
        let empty: Vec<LaneId> = self
            .lanes
            .dirty
            .iter()
            .copied()
            .filter(|id| self.lanes.get(*id).is_some_and(Lane::is_empty))
            .collect();
        for id in &empty {
            self.lanes.close(*id);
        }
        empty
    }

    fn unsaved<'a>(&'a self, closed_lanes: &'a [LaneId]) -> Save<'a> {
        let dirty = &self.dirty;
        Save {
            head: None,
            log: &[],
            agents: rows(&self.agents, &dirty.agents),
            redescribed_agents: &dirty.redescribed_agents,
            forgotten_agents: &dirty.forgotten_agents,
            pulses: Vec::new(),
            tasks: rows(&self.tasks, &dirty.tasks),
            redescribed_tasks: &dirty.redescribed_tasks,
            requeued_tasks: &dirty.requeued_tasks,
            forgotten_tasks: &dirty.forgotten_tasks,
            lanes: self
                .lanes
                .dirty
                .iter()
                .filter_map(|id| self.lanes.get(*id))
                .collect(),
            closed_lanes,
            reps: self
                .lanes
                .dirty_reps
                .iter()
                .map(|rep| (rep, self.lanes.lanes_under(rep).unwrap_or(0)))
                .collect(),
            leases: rows(&self.leases, &dirty.leases),
            ended_leases: &dirty.ended_leases,
            messages: rows(&self.messages, &dirty.messages),
            deliveries: rows(&self.deliveries, &dirty.deliveries),
            attempts: &dirty.attempts,
            snapshots: &dirty.snapshots,
            baseline: self
                .ranges
                .baseline
                .as_ref()
                .filter(|_| dirty.baseline)
                .and_then(Option::as_ref),
            learnings: &dirty.learnings,
            evicted_engrams: &dirty.evicted_engrams,
            engrams: &dirty.engrams,
            records: rows(&self.records, &dirty.records),
            remembered: &dirty.remembered,
            nonces: &dirty.nonces,
            tokens: &dirty.tokens,
            prunes: &dirty.prunes,
            adopted: &dirty.adopted,
        }
    }

    fn mark_saved(&mut self) {
        clean(&mut self.agents, &self.dirty.agents);
        clean(&mut self.tasks, &self.dirty.tasks);
        clean(&mut self.leases, &self.dirty.leases);
        clean(&mut self.messages, &self.dirty.messages);
        clean(&mut self.deliveries, &self.dirty.deliveries);
        clean(&mut self.records, &self.dirty.records);
        self.lanes.dirty.clear();
        self.lanes.dirty_reps.clear();
        self.dirty = Dirty {
            head: self.dirty.head,
            ..Dirty::default()
        };
    }
}

type Cells<K, T> = super::Map<K, super::Cell<T>>;

fn rows<'a, K: Eq + std::hash::Hash, T>(cells: &'a Cells<K, T>, dirty: &[K]) -> Vec<(&'a T, bool)> {
    let cells = dirty.iter().filter_map(|key| cells.get(key));
    cells
        .filter_map(|cell| cell.row.as_ref().map(|row| (row, cell.new)))
        .collect()
}

fn clean<K: Eq + std::hash::Hash, T>(cells: &mut Cells<K, T>, dirty: &[K]) {
    for key in dirty {
        if let Some(cell) = cells.get_mut(key) {
            cell.dirty = false;
            cell.new = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Changes;

    #[test]
    fn rows_that_were_saved_in_the_middle_of_a_batch_are_committed_with_it() {
        let mut slice = Slice::default();
        let now = Timestamp(1);
        let key = Key {
            principal: "a".into(),
            operation: "RECEIVE_MESSAGES",
            key: "k".into(),
        };
        let remembered = Remembered {
            body_hash: [0; 32],
            answer: b"{}".as_slice().into(),
            at: now,
        };
        let changes = Changes {
            remembered: vec![(key, remembered)],
            ..Changes::default()
        };
        slice.apply(changes, now);
        slice.save_rows(|_| Ok::<_, ()>(())).unwrap();
        assert!(slice.is_dirty(now), "nothing else follows");
        slice.save_all(now, false, |_| Ok::<_, ()>(())).unwrap();
        assert!(!slice.is_dirty(now));
    }
}

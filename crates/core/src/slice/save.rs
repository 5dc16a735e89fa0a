//! What must be written, gathered so that a row changed ten times in a batch is written once.

use super::{Put, Slice};
use crate::changes::{Adopted, Prune};
use crate::event::Logged;
use crate::head::Head;
use crate::id::AgentId;
use crate::lane::{Lane, LaneId, Rep};
use crate::limits;
use crate::row::{Noun, Rows};
use crate::time::Timestamp;

/// What is to be saved and is no row of the working set.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    pub head: bool,
    /// Among it is that the ledger is served, which is written anyway.
    pub is_serving: bool,
    pub prunes: Vec<Prune>,
    pub adopted: Vec<Adopted>,
}

/// What to write: first what is dropped, then what is put.
#[derive(Debug)]
pub struct Save<'a> {
    rows: &'a Rows,
    /// Absent while a batch goes on; the last save of a batch has it, and the events with it.
    pub head: Option<&'a Head>,
    pub log: &'a [Logged],
    /// Agents whose last sign of life is due to be written, with all heartbeats counted. Rows of agents that are
    /// not new leave both to this.
    pub pulses: Vec<(&'a AgentId, Timestamp, u64)>,
    pub lanes: Vec<&'a Lane>,
    pub closed_lanes: &'a [LaneId],
    /// How many lanes are filed under a word.
    pub reps: Vec<(&'a Rep, u64)>,
    pub prunes: &'a [Prune],
    /// Notes to drop. Their rows are written anew: among the puts, or gone.
    pub adopted: &'a [Adopted],
}

impl<'a> Save<'a> {
    /// The rows of a kind to write.
    pub fn puts<T: Noun + 'a>(&self) -> impl Iterator<Item = (&'a T, Put)> + use<'a, T> {
        T::cells(self.rows).puts()
    }

    /// The rows of a kind to delete: their keys, and the rows as they were known.
    pub fn drops<T: Noun + 'a>(
        &self,
    ) -> impl Iterator<Item = (&'a T::Key, Option<&'a T>)> + use<'a, T> {
        T::cells(self.rows).drops()
    }
}

impl Slice {
    /// Whether anything must be written before this batch may end.
    pub fn is_dirty(&self, now: Timestamp) -> bool {
        self.has_unsaved_rows()
            || !self.log.is_empty()
            || self.unsaved.head
            || self.pulses_are_due(now)
    }

    /// Whether a range read from the store now would miss something.
    pub fn has_unsaved_rows(&self) -> bool {
        !(self.rows.each().all(|cells| cells.is_saved())
            && self.unsaved.prunes.is_empty()
            && self.unsaved.adopted.is_empty()
            && self.lanes.is_saved())
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
        let closed = self.lanes.close_empty();
        write(&self.unsaved(&closed))?;
        self.mark_saved();
        // They are in the batch, however little follows: without this one that changes no more is rolled back with them.
        self.unsaved.head = true;
        Ok(())
    }

    /// Hands everything that is left of a batch to `write`: rows, due signs of life, head and events.
    pub fn save_all<E>(
        &mut self,
        now: Timestamp,
        all_pulses: bool,
        write: impl FnOnce(&Save<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let closed = self.lanes.close_empty();
        let with_pulses = all_pulses || self.unsaved.is_serving || self.pulses_are_due(now);
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
        self.unsaved.head = false;
        self.unsaved.is_serving = false;
        self.mark_saved();
        Ok(())
    }

    /// The events of this batch so far.
    pub fn log(&self) -> &[Logged] {
        &self.log
    }

    fn unsaved<'a>(&'a self, closed_lanes: &'a [LaneId]) -> Save<'a> {
        Save {
            rows: &self.rows,
            head: None,
            log: &[],
            pulses: Vec::new(),
            lanes: self.lanes.changed().collect(),
            closed_lanes,
            reps: self.lanes.changed_reps().collect(),
            prunes: &self.unsaved.prunes,
            adopted: &self.unsaved.adopted,
        }
    }

    fn mark_saved(&mut self) {
        self.rows.each_mut().for_each(|cells| cells.mark_saved());
        self.lanes.mark_saved();
        self.unsaved.prunes.clear();
        self.unsaved.adopted.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Agent;
    use crate::changes::{Changes, Served};
    use crate::idempotency::{Key, Remembered};

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
            key,
            body_hash: [0; 32],
            answer: b"{}".as_slice().into(),
            at: now,
        };
        let mut changes = Changes::default();
        changes.put(remembered);
        slice.apply(changes, now);
        slice.save_rows(|_| Ok::<_, ()>(())).unwrap();
        assert!(slice.is_dirty(now), "nothing else follows");
        slice.save_all(now, false, |_| Ok::<_, ()>(())).unwrap();
        assert!(!slice.is_dirty(now));
    }

    /// So they are at most as late as that word is rare.
    #[test]
    fn signs_of_life_are_written_with_the_word_that_the_ledger_is_served() {
        let (mut slice, now) = (Slice::default(), Timestamp(1_000_000));
        slice.put_row(Agent::newcomer("a".into(), now));
        let mut changes = Changes::default();
        changes.pulse(&"a".into(), now);
        slice.apply(changes, now);
        let written = |slice: &mut Slice| {
            let mut written = 0;
            let save = |save: &Save<'_>| {
                written = save.pulses.len();
                Ok::<_, ()>(())
            };
            slice.save_all(now, false, save).unwrap();
            written
        };
        assert_eq!(written(&mut slice), 0, "held back");
        let served = Some(Served {
            at: now,
            floor: None,
        });
        let changes = Changes {
            served,
            ..Changes::default()
        };
        slice.apply(changes, now);
        assert_eq!(written(&mut slice), 1);
    }
}

//! Takes in hand writes as a hub does: a note's steps in turn, each on what it asks for alone.

use std::sync::Arc;

use super::Swarm;
use crate::changes::{AdoptedRow, Changes};
use crate::id::{AgentId, MessageId, TaskId};
use crate::lane::Lane;
use crate::lease::Lease;
use crate::message::{DeliveryState, Meaning, Message, To};
use crate::path::LeasePath;
use crate::quality::{GatePolicy, Metrics};
use crate::refusal::Refusal;
use crate::task::{Task, TaskStatus};
use crate::verb::{AgentWritten, Finding, Gauge, HandStep, Note, Written};
use crate::{Agent, Slice};

impl Swarm {
    /// Takes a hand write in. If a step is refused, that is told and the rest left out.
    pub fn adopt(&mut self, written: Written) -> Result<(), Refusal> {
        self.adopt_under(GatePolicy::default(), written)
    }

    pub fn adopt_under(&mut self, policy: GatePolicy, written: Written) -> Result<(), Refusal> {
        self.adopt_note(policy, &Ok(Meaning::Nothing), written)
    }

    /// The same for a message that means this, or means nothing that can be read.
    pub fn adopt_meant(
        &mut self,
        meaning: Result<Meaning, String>,
        written: Written,
    ) -> Result<(), Refusal> {
        self.adopt_note(GatePolicy::default(), &meaning, written)
    }

    fn adopt_note(
        &mut self,
        policy: GatePolicy,
        meaning: &Result<Meaning, String>,
        written: Written,
    ) -> Result<(), Refusal> {
        let note = Note {
            number: self.adopted.len() as u64 + 1,
            written,
        };
        self.said.clear();
        let mut outcome = Ok(());
        let meant = |_: &Message| Ok((meaning.clone()?, Vec::new()));
        let gauge = Gauge {
            policy: &Arc::new(policy),
            judge: &|_, result| Finding {
                breach: result
                    .contains("broken")
                    .then(|| "contract_violation".to_owned()),
            },
        };
        for step in note.steps(gauge, &meant) {
            outcome = self.step(&*step);
            if outcome.is_err() {
                break;
            }
        }
        let why = match (&note.written, &outcome) {
            (_, Err(refusal)) => Some(refusal.to_string()),
            (Written::Unreadable { why, .. }, Ok(())) => Some(why.clone()),
            (_, Ok(())) => None,
        };
        if let Some(why) = why {
            let slice = self.load(|_| {});
            self.settle(slice, note.undone(why));
        }
        assert_eq!(
            self.adopted
                .last()
                .map(|adopted| (adopted.note, &adopted.row)),
            Some((note.number, &note.row())),
            "every note is dropped"
        );
        self.check();
        outcome
    }

    /// Takes one step of a note.
    pub fn step(&mut self, step: &dyn HandStep) -> Result<(), Refusal> {
        let now = self.now;
        let slice = self.load(|want| step.asks(want, now));
        let changes = step.decide(&slice, now)?;
        self.settle(slice, changes);
        Ok(())
    }

    fn settle(&mut self, mut slice: Slice, changes: Changes) {
        slice.apply(changes, self.now);
        let said = self.save(slice);
        self.said.extend(said);
    }

    /// What a hand makes of a task's row.
    pub fn task_by_hand(&self, id: &str, edit: impl FnOnce(&mut Task)) -> Written {
        let was = self.task(id).clone();
        let mut is = was.clone();
        edit(&mut is);
        Written::Task {
            id: id.into(),
            was: Some(was.into()),
            is: Some(is.into()),
            metrics: None,
        }
    }

    /// What a hand makes of an agent's row.
    pub fn agent_by_hand(
        &self,
        id: &str,
        how: AgentWritten,
        edit: impl FnOnce(&mut Agent),
    ) -> Written {
        let was = self.agent(id).clone();
        let mut is = was.clone();
        edit(&mut is);
        Written::Agent {
            id: id.into(),
            was: Some(was.into()),
            is: Some(is.into()),
            how,
        }
    }

    /// What a hand makes of a message's row, or of this reader's copy of it.
    pub fn message_by_hand(
        &self,
        id: &str,
        reader: Option<&str>,
        edit: impl FnOnce(&mut Message),
    ) -> Written {
        let mut was = self.message(id).clone();
        if let Some(reader) = reader {
            // A copy has no flags but its reader's own.
            was.to = To::One(reader.into());
            was.acknowledged = None;
        }
        let mut is = was.clone();
        edit(&mut is);
        Written::Message {
            id: id.into(),
            was: Some(was.into()),
            is: Some(is.into()),
            reader: reader.map(AgentId::from),
        }
    }

    /// What a hand makes of a lease's row; there may be none before, or after.
    pub fn lease_by_hand(&self, path: &str, is: Option<Lease>) -> Written {
        let path = LeasePath::stored(path);
        Written::Lease {
            was: self.leases.get(&path).cloned(),
            is,
            path,
        }
    }

    pub fn message(&self, id: &str) -> &Message {
        let id = MessageId::from(id);
        self.messages.get(&id).expect("the message exists")
    }

    /// Whether rows, counters and lanes tell the same.
    fn check(&self) {
        let count = |keep: &dyn Fn(&Task) -> bool| {
            let kept = self.tasks.values().filter(|task| keep(task));
            kept.count() as u64
        };
        for status in TaskStatus::ALL {
            let there = count(&|task| task.status() == *status);
            assert_eq!(self.head.count(*status), there, "{status} tasks");
        }
        let lanes = |sum: fn(&Lane) -> u64| self.lanes.values().map(sum).sum::<u64>();
        let ready = count(&|task| task.status() == TaskStatus::Ready);
        assert_eq!(lanes(|lane| lane.ready), ready, "tasks in lanes");
        let held = count(&|task| task.holder().is_some());
        assert_eq!(lanes(|lane| lane.held), held, "held tasks of lanes");
        assert_eq!(self.head.leases, self.leases.len() as u64, "leases");
        let queued = |agent: Option<&AgentId>| {
            let rows = self.deliveries.values();
            let rows = rows.filter(|row| row.state == DeliveryState::Queued);
            rows.filter(|row| agent.is_none_or(|agent| row.agent == *agent))
                .count()
        };
        assert_eq!(self.head.queued_deliveries, queued(None) as u64, "messages");
        for agent in self.agents.values() {
            let mut holds: Vec<&TaskId> = agent.holds.iter().collect();
            holds.sort();
            let held = self.tasks.values();
            let held = held.filter(|task| task.holder() == Some(&agent.id));
            assert_eq!(holds, held.map(|task| &task.id).collect::<Vec<_>>());
            assert_eq!(
                agent.inbox as usize,
                queued(Some(&agent.id)),
                "{}",
                agent.id
            );
        }
    }
}

/// A row that no build of the hub can make sense of.
pub(crate) fn unreadable(row: AdoptedRow) -> Written {
    Written::Unreadable {
        row,
        why: "a column holds nonsense".to_owned(),
    }
}

/// A clean build with this many type errors.
pub(crate) fn measured(type_errors: u32) -> Metrics {
    Metrics {
        build_success: true,
        type_errors,
        lint_errors: 0,
        lint_warnings: 0,
        tests_passing: 10,
        tests_failing: 0,
        test_coverage: None,
    }
}

//! What a person does to a task by hand: without naming an agent, where no agent holds it.

use super::HandStep;
use super::task::{failure_of, find};
use crate::agent::Agent;
use crate::attempt::Outcome;
use crate::changes::Changes;
use crate::id::{AgentId, STEWARD, SnapshotId, TaskId};
use crate::lane::LaneKey;
use crate::refusal::{NotYours, Refusal};
use crate::slice::Slice;
use crate::task::{Failure, Phase, Progress, Task, TaskStatus};
use crate::time::Timestamp;
use crate::verb::ending::{
    end_claim, release_dependants, tell_dependants, want_dependants_released, want_dependants_told,
    want_end,
};
use crate::want::Want;

pub(super) enum Act {
    /// The steward holds it from then on.
    Begin,
    Complete {
        result: Box<str>,
        snapshot: Option<SnapshotId>,
    },
    /// Somebody else shall look at it.
    Ask {
        result: Box<str>,
    },
    Fail(Failure),
    /// It no longer waits for what it depends on.
    Unblock,
}

impl Act {
    /// On a task that nobody holds.
    pub fn of_nobody(was: &Task, is: &Task) -> Option<Act> {
        let names_nobody = || is.holder().is_some_and(|agent| agent.as_str().is_empty());
        match (was.status(), is.status()) {
            (_, TaskStatus::InProgress) if names_nobody() => Some(Act::Begin),
            (TaskStatus::Waiting, TaskStatus::Ready) => Some(Act::Unblock),
            (
                TaskStatus::Waiting | TaskStatus::Ready | TaskStatus::RetryWait,
                TaskStatus::Completed | TaskStatus::Failed,
            ) => Act::of_holder(is),
            _ => None,
        }
    }

    /// On one that the steward holds.
    pub fn of_holder(is: &Task) -> Option<Act> {
        let result = is.result.clone().unwrap_or_else(|| "{}".into());
        match is.status() {
            TaskStatus::Completed => Some(Act::Complete {
                result,
                snapshot: is.snapshot.clone(),
            }),
            TaskStatus::NeedsPerson => Some(Act::Ask { result }),
            TaskStatus::Failed | TaskStatus::RetryWait => Some(Act::Fail(failure_of(is))),
            TaskStatus::InProgress => Some(Act::Begin),
            TaskStatus::Waiting
            | TaskStatus::Ready
            | TaskStatus::Claimed
            | TaskStatus::Canceled => None,
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Act::Complete { .. } => Outcome::Completed,
            Act::Ask { .. } => Outcome::NeedsPerson,
            Act::Fail(_) => Outcome::Failed,
            Act::Begin | Act::Unblock => Outcome::Released,
        }
    }
}

pub(super) struct ByPerson {
    pub task: TaskId,
    pub act: Act,
}

impl HandStep for ByPerson {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(task) = want.task(&self.task) {
            want_end(want, task);
            want.lane_for(&LaneKey::of(task));
            want_dependants_released(want, task);
            want_dependants_told(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let task = find(slice, &self.task)?;
        let mut changes = Changes::default();
        let mut steward = Agent::newcomer(AgentId::new(STEWARD), now);
        match (task.holder(), task.status()) {
            (Some(holder), _) if *holder == steward.id => {
                if let Act::Begin | Act::Unblock = self.act {
                    return Ok(changes);
                }
                end_claim(
                    slice,
                    &mut changes,
                    task,
                    self.act.outcome(),
                    &mut steward,
                    now,
                );
            }
            (None, TaskStatus::Waiting | TaskStatus::Ready | TaskStatus::RetryWait) => {}
            (holder, status) => {
                let why = match holder.cloned() {
                    None => NotYours::AlreadyFinished { status },
                    holder => NotYours::NotHolder { holder },
                };
                let task = self.task.clone();
                return Err(Refusal::TaskNotYours { task, why });
            }
        }
        self.act(slice, &mut changes, task, &steward.id, now);
        Ok(changes)
    }
}

impl ByPerson {
    fn act(&self, slice: &Slice, changes: &mut Changes, task: &Task, by: &AgentId, now: Timestamp) {
        let mut after = task.clone();
        match &self.act {
            Act::Begin => {
                let (claimed, event) = after.claim(by, now);
                let progress = Progress {
                    phase: Phase::Implementing,
                    percent: 0,
                    note: String::new(),
                    files: Vec::new(),
                    told_at: now,
                    told_percent: 0,
                };
                let (begun, told) = claimed.advance(progress, now);
                changes.put(begun);
                changes
                    .events
                    .extend([Some(event), told].into_iter().flatten());
            }
            Act::Complete { result, snapshot } => {
                if snapshot.is_some() {
                    after.snapshot.clone_from(snapshot);
                }
                changes.task(after.complete(by, result.clone(), now));
                release_dependants(slice, changes, task, now);
            }
            Act::Ask { result } => {
                changes.task(after.ask_person(by, result.clone(), "asked by hand", now));
            }
            Act::Fail(failure) => {
                changes.task(after.fail(failure.clone(), now));
                tell_dependants(slice, changes, &self.task, now);
            }
            // The hub may have been first.
            Act::Unblock if task.status() == TaskStatus::Waiting => {
                after.blockers.clear();
                changes.task(after.reopen("readied by hand", now));
            }
            Act::Unblock => {}
        }
    }
}

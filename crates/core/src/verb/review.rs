//! A person rules on a completion that waited for one.

use super::Verb;
use super::ending::{
    release_dependants, tell_dependants, want_dependants_released, want_dependants_told,
};
use crate::changes::Changes;
use crate::id::TaskId;
use crate::lane::LaneKey;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Failure, FailureKind, Task, TaskState};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub task: TaskId,
    pub ruling: Ruling,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    Approve,
    /// Back into the queue.
    Redo,
    /// It failed for good.
    Drop,
}

impl Verb for Review {
    type Reply = Task;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let Some(task) = want.task(&self.task) else {
            return;
        };
        match self.ruling {
            Ruling::Approve => want_dependants_released(want, task),
            Ruling::Redo => {
                want.lane_for(&LaneKey::of(task));
            }
            Ruling::Drop => want_dependants_told(want, task),
        }
        if let TaskState::NeedsPerson { by, .. } = &task.state {
            want.agent(by);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Task, Changes), Refusal> {
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        let TaskState::NeedsPerson { by, .. } = &task.state else {
            return Err(Refusal::WrongState {
                task: task.id.clone(),
                status: task.status(),
                wanted: "needs_review",
            });
        };
        let contract = task.contract.as_ref();
        let is_broken = contract.is_some_and(|contract| contract.is_broken);
        if is_broken && self.ruling == Ruling::Approve {
            return Err(Refusal::Invalid {
                field: "task_id",
                message: format!(
                    "the result of task {} breaks its contract, and no result that does is told elsewhere; reject it",
                    task.id
                ),
            });
        }
        let mut changes = Changes::default();
        let (after, event) = match self.ruling {
            Ruling::Approve => {
                if let Some(agent) = slice.agent(by) {
                    let mut agent = agent.clone();
                    agent.completed += 1;
                    changes.put(agent);
                }
                task.clone().approve(by.clone(), now)
            }
            Ruling::Redo => task.clone().reopen(&self.reason, now),
            Ruling::Drop => {
                let failure = Failure {
                    kind: FailureKind::QualityFailure,
                    message: self.reason.clone(),
                };
                task.clone().fail(failure, now)
            }
        };
        changes.task((after.clone(), event));
        match self.ruling {
            Ruling::Approve => release_dependants(slice, &mut changes, task, now),
            Ruling::Redo => {}
            Ruling::Drop => tell_dependants(slice, &mut changes, &self.task, now),
        }
        Ok((after, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, task_with, word};
    use super::*;
    use crate::task::TaskStatus;

    fn review(ruling: Ruling) -> Review {
        Review {
            task: "T".into(),
            ruling,
            reason: "looked at it".to_owned(),
        }
    }

    #[test]
    fn a_person_rules_only_on_what_waits_for_one() {
        for ruling in [Ruling::Approve, Ruling::Redo, Ruling::Drop] {
            for status in TaskStatus::ALL {
                let outcome = Swarm::with_task(*status).run(review(ruling));
                let expected = match status {
                    TaskStatus::NeedsPerson => "ok",
                    TaskStatus::Waiting
                    | TaskStatus::Ready
                    | TaskStatus::Claimed
                    | TaskStatus::InProgress
                    | TaskStatus::RetryWait
                    | TaskStatus::Completed
                    | TaskStatus::Failed
                    | TaskStatus::Canceled => "wrong_state",
                };
                assert_eq!(word(&outcome), expected, "{ruling:?}, {status}");
            }
            assert_eq!(word(&Swarm::new().run(review(ruling))), "task_not_found");
        }
    }

    #[test]
    fn rulings_by_table() {
        let table = [
            (Ruling::Approve, TaskStatus::Completed, TaskStatus::Ready, 1),
            (Ruling::Redo, TaskStatus::Ready, TaskStatus::Waiting, 0),
            (Ruling::Drop, TaskStatus::Failed, TaskStatus::Waiting, 0),
        ];
        for (ruling, status, dependant, completed) in table {
            let mut swarm = Swarm::with_task(TaskStatus::NeedsPerson);
            swarm.create(task_with("after", |task| {
                task.dependencies = vec!["T".into()]
            }));
            swarm.ok(review(ruling));
            assert_eq!(swarm.task("T").status(), status, "{ruling:?}");
            assert_eq!(swarm.task("after").status(), dependant, "{ruling:?}");
            assert_eq!(swarm.agent("A").completed, completed, "{ruling:?}");
        }
    }
}

//! A person gives a task another chance, now and with its budget anew.

use super::Verb;
use crate::changes::Changes;
use crate::id::TaskId;
use crate::lane::LaneKey;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Task, TaskStatus};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryTask {
    pub task: TaskId,
}

impl Verb for RetryTask {
    type Reply = Task;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(task) = want.task(&self.task) {
            want.lane_for(&LaneKey::of(task));
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Task, Changes), Refusal> {
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        match task.status() {
            TaskStatus::Failed | TaskStatus::Canceled | TaskStatus::RetryWait => {}
            status @ (TaskStatus::Waiting
            | TaskStatus::Ready
            | TaskStatus::Claimed
            | TaskStatus::InProgress
            | TaskStatus::NeedsPerson
            | TaskStatus::Completed) => {
                return Err(Refusal::WrongState {
                    task: task.id.clone(),
                    status,
                    wanted: "failed, canceled or pending_retry",
                });
            }
        }
        let mut again = task.clone();
        again.retries = 0;
        let (again, event) = again.reopen("retried by a person", now);
        let mut changes = Changes::default();
        changes.task((again.clone(), event));
        Ok((again, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cancel;
    use super::super::testing::{Swarm, task_with, word};
    use super::*;

    #[test]
    fn a_person_retries_what_failed_was_canceled_or_waits() {
        for status in TaskStatus::ALL {
            let mut swarm = Swarm::with_task(*status);
            let outcome = swarm.run(RetryTask { task: "T".into() });
            let expected = match status {
                TaskStatus::Failed | TaskStatus::Canceled | TaskStatus::RetryWait => "ok",
                TaskStatus::Waiting
                | TaskStatus::Ready
                | TaskStatus::Claimed
                | TaskStatus::InProgress
                | TaskStatus::NeedsPerson
                | TaskStatus::Completed => "wrong_state",
            };
            assert_eq!(word(&outcome), expected, "{status}");
            if outcome.is_ok() {
                let task = swarm.task("T");
                assert_eq!(
                    (task.status(), task.retries),
                    (TaskStatus::Ready, 0),
                    "{status}"
                );
            }
        }
        let outcome = Swarm::new().run(RetryTask { task: "T".into() });
        assert_eq!(word(&outcome), "task_not_found");
    }

    #[test]
    fn a_retried_task_still_waits_for_what_it_depends_on() {
        let mut swarm = Swarm::new();
        swarm.add("D");
        swarm.create(task_with("T", |task| task.dependencies = vec!["D".into()]));
        let reason = String::new();
        swarm.ok(Cancel {
            task: "T".into(),
            reason,
        });
        let task = swarm.ok(RetryTask { task: "T".into() });
        assert_eq!(task.status(), TaskStatus::Waiting);
        assert_eq!(swarm.said(), ["task_blocked"]);
    }
}

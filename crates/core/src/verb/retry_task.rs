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

//! Caretaker: tasks whose backoff is over become ready.

use super::{Step, Verb};
use crate::changes::Changes;
use crate::lane::LaneKey;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::TaskState;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseRetries;

impl Verb for ReleaseRetries {
    type Reply = Step;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for id in want.due_retries(now, limits::CARETAKER_STEP) {
            if let Some(task) = want.task(id) {
                want.lane_for(&LaneKey::of(task));
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Step, Changes), Refusal> {
        let mut changes = Changes::default();
        let due = Want::new(slice).due_retries(now, limits::CARETAKER_STEP);
        for task in due.iter().filter_map(|id| slice.task(id)) {
            if matches!(task.state, TaskState::RetryWait { until } if until <= now) {
                changes.task(task.clone().reopen("retry", now));
            }
        }
        let done = changes.tasks.len();
        Ok((
            Step {
                done,
                more: due.len() == limits::CARETAKER_STEP && done > 0,
            },
            changes,
        ))
    }
}

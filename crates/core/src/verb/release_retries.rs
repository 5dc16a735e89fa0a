//! Caretaker: tasks whose backoff is over become ready.

use super::{Sweep, Verb};
use crate::changes::Changes;
use crate::lane::LaneKey;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Task, TaskState};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseRetries;

impl Verb for ReleaseRetries {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for id in want.due_retries(now, limits::CARETAKER_STEP) {
            if let Some(task) = want.task(id) {
                want.lane_for(&LaneKey::of(task));
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut changes = Changes::default();
        let due = Want::new(slice).due_retries(now, limits::CARETAKER_STEP);
        for task in due.iter().filter_map(|id| slice.task(id)) {
            if matches!(task.state, TaskState::RetryWait { until } if until <= now) {
                changes.task(task.clone().reopen("retry", now));
            }
        }
        let done = changes.rows::<Task>().count();
        Ok((
            Sweep {
                done,
                more: due.len() == limits::CARETAKER_STEP && done > 0,
            },
            changes,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, fail, task_with};
    use super::super::{Cancel, CreateTasks};
    use super::*;
    use crate::task::TaskStatus;

    #[test]
    fn a_retry_is_due_when_its_backoff_is_over() {
        for (after_ms, status) in [
            (59_999, TaskStatus::RetryWait),
            (60_000, TaskStatus::Ready),
            (60_001, TaskStatus::Ready),
        ] {
            let mut swarm = Swarm::with_task(TaskStatus::RetryWait);
            swarm.wait(Duration::from_millis(after_ms));
            let done = usize::from(status == TaskStatus::Ready);
            assert_eq!(
                swarm.ok(ReleaseRetries),
                Sweep { done, more: false },
                "{after_ms}"
            );
            assert_eq!(swarm.task("T").status(), status, "{after_ms}");
            assert_eq!(swarm.ok(ReleaseRetries).done, 0, "once is enough");
        }
    }

    #[test]
    fn no_other_state_is_touched() {
        for status in TaskStatus::ALL
            .iter()
            .filter(|status| **status != TaskStatus::RetryWait)
        {
            let mut swarm = Swarm::with_task(*status);
            swarm.wait(Duration::from_secs(3600));
            assert_eq!(swarm.ok(ReleaseRetries).done, 0, "{status}");
        }
        let mut swarm = Swarm::with_task(TaskStatus::RetryWait);
        let reason = String::new();
        swarm.ok(Cancel {
            task: "T".into(),
            reason,
        });
        swarm.wait(Duration::from_secs(3600));
        assert_eq!(swarm.ok(ReleaseRetries).done, 0);
    }

    #[test]
    fn one_step_is_bounded() {
        let step = limits::CARETAKER_STEP;
        for (waiting, done, more) in [
            (step - 1, step - 1, false),
            (step, step, true),
            (step + 1, step, true),
        ] {
            let mut swarm = Swarm::new();
            swarm.join("A", &[]);
            let tasks = (0..waiting).map(|at| task_with(&format!("T{at}"), |_| ()));
            swarm.ok(CreateTasks {
                tasks: tasks.collect(),
            });
            for at in 0..waiting {
                swarm.hold("A", &format!("T{at}"));
                swarm.ok(fail("A", &format!("T{at}")));
            }
            swarm.wait(limits::RETRY_MAX);
            assert_eq!(
                swarm.ok(ReleaseRetries),
                Sweep { done, more },
                "{waiting} tasks"
            );
        }
    }
}

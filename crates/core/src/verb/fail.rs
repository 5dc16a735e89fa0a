//! FAIL: the holder gives up; the task is tried again, or not.

use std::time::Duration;

use super::ending::{end_claim, tell_dependants, want_dependants_told, want_end};
use super::{Verb, awake, check_holder, speaker};
use crate::attempt::Outcome;
use crate::changes::Changes;
use crate::id::{AgentId, TaskId};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Failure, FailureKind, TaskStatus};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    pub agent: AgentId,
    pub task: TaskId,
    pub epoch: Option<u64>,
    pub kind: FailureKind,
    pub message: String,
    pub details: Option<String>,
    pub recoverable: bool,
    pub suggested_action: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub status: TaskStatus,
    pub retry_after: Option<Duration>,
}

impl Verb for Fail {
    type Reply = Failed;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        if let Some(task) = want.task(&self.task) {
            want_end(want, task);
            want_dependants_told(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Failed, Changes), Refusal> {
        let agent = speaker(slice, &self.agent)?;
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        check_holder(task, &self.agent, self.epoch).map_err(|why| Refusal::TaskNotYours {
            task: self.task.clone(),
            why,
        })?;
        let mut changes = Changes::default();
        let mut agent = awake(agent, &mut changes, now);
        end_claim(slice, &mut changes, task, Outcome::Failed, &mut agent, now);
        agent.failed += 1;
        changes.agents.push(agent);
        if let Some(attempt) = changes.attempts.last_mut() {
            attempt.failure = Some(self.kind);
            attempt.message = Some(self.message.clone());
            attempt.details.clone_from(&self.details);
            attempt.suggested_action.clone_from(&self.suggested_action);
        }
        let failure = Failure {
            kind: self.kind,
            message: self.message.clone(),
        };
        let mut after = task.clone();
        // jetpack FAIL 2: counted before the budget is looked at and before the backoff is worked out.
        after.retries += 1;
        if self.recoverable && after.retries <= after.max_retries {
            after.remember_previous(&self.agent);
            let wait = after.backoff();
            changes.task(after.retry_later(failure, now + wait, now));
            return Ok((
                Failed {
                    status: TaskStatus::RetryWait,
                    retry_after: Some(wait),
                },
                changes,
            ));
        }
        changes.task(after.fail(failure, now));
        tell_dependants(slice, &mut changes, &self.task, now);
        Ok((
            Failed {
                status: TaskStatus::Failed,
                retry_after: None,
            },
            changes,
        ))
    }
}

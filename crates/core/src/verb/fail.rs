//! FAIL: the holder gives up; the task is tried again, or not.

use std::time::Duration;

use super::ending::{end_claim, give_up, tell_dependants, want_dependants_told, want_end};
use super::{Verb, awake, check_holder, speaker};
use crate::attempt::{Attempt, Outcome};
use crate::changes::Changes;
use crate::id::{AgentId, TaskId};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Failure, FailureKind, Task, TaskStatus, Trouble};
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
    /// It was not for the task, so no retry is spent on it.
    pub is_free: bool,
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
        changes.put(agent);
        if let Some(attempt) = changes.rows_mut::<Attempt>().next_back() {
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
        after.retries += u32::from(!(self.is_free && self.recoverable));
        if self.recoverable && after.retries <= after.about.max_retries {
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
        if self.recoverable {
            let mut trouble = Trouble::from(failure);
            trouble.remedy.clone_from(&self.suggested_action);
            give_up(slice, &mut changes, after, &self.agent, trouble, now);
        } else {
            changes.task(after.fail(failure, now));
            tell_dependants(slice, &mut changes, &self.task, now);
        }
        let status = changes.rows::<Task>().find(|task| task.id == self.task);
        Ok((
            Failed {
                status: status.map_or(TaskStatus::Failed, Task::status),
                retry_after: None,
            },
            changes,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReleaseRetries;
    use super::super::testing::{Standing, Swarm, fail, task_with, word};
    use super::*;
    use crate::task::{OnDependencyFailure, TaskState};

    #[test]
    fn only_the_holder_fails_it_by_state() {
        for status in TaskStatus::ALL {
            let (holder, other) = match status {
                TaskStatus::Claimed | TaskStatus::InProgress => ("ok", "not_holder"),
                TaskStatus::RetryWait => ("task_reassigned", "not_holder"),
                TaskStatus::Waiting | TaskStatus::Ready | TaskStatus::NeedsPerson => {
                    ("not_holder", "not_holder")
                }
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled => {
                    ("already_finished", "already_finished")
                }
            };
            let outcome = Swarm::with_task(*status).run(fail("A", "T"));
            assert_eq!(word(&outcome), holder, "A, {status}");
            let outcome = Swarm::with_task(*status).run(fail("B", "T"));
            assert_eq!(word(&outcome), other, "B, {status}");
        }
        for standing in [Standing::Unknown, Standing::Gone] {
            let outcome = Swarm::with_agent(standing).run(fail("A", "T"));
            assert_eq!(word(&outcome), "agent_not_registered");
        }
    }

    #[test]
    fn each_failure_counts_and_waits_longer_until_the_budget_is_spent() {
        // jetpack.fail.retry_count, jetpack.fail.backoff, jetpack.fail.pending_retry, jetpack.fail.budget_spent
        let mut swarm = Swarm::new();
        swarm.join("A", &[]);
        swarm.create(task_with("T", |task| task.about.max_retries = 5));
        for (retries, wait) in [(1, 60), (2, 120), (3, 240), (4, 300), (5, 300)] {
            swarm.hold("A", "T");
            let failed = swarm.ok(fail("A", "T"));
            let wait = Duration::from_secs(wait);
            assert_eq!(failed.retry_after, Some(wait), "retry {retries}");
            let task = swarm.task("T");
            let until = swarm.now + wait;
            assert_eq!(
                (&task.state, task.retries),
                (&TaskState::RetryWait { until }, retries)
            );
            swarm.wait(wait);
            swarm.ok(ReleaseRetries);
            assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
        }
        swarm.hold("A", "T");
        let failed = swarm.ok(fail("A", "T"));
        assert_eq!(
            (failed.status, failed.retry_after),
            (TaskStatus::Failed, None)
        );
        assert_eq!(swarm.task("T").retries, 6);
    }

    #[test]
    fn the_budget_at_its_edge() {
        // jetpack.fail.budget_spent: retried while retryCount ≤ max_retries
        for (max_retries, status) in [(0, TaskStatus::Failed), (1, TaskStatus::RetryWait)] {
            let mut swarm = Swarm::new();
            swarm.join("A", &[]);
            swarm.create(task_with("T", |task| task.about.max_retries = max_retries));
            swarm.hold("A", "T");
            assert_eq!(swarm.ok(fail("A", "T")).status, status, "{max_retries}");
        }
    }

    #[test]
    fn what_was_not_for_the_task_spends_no_retry() {
        let mut swarm = Swarm::new();
        swarm.join("A", &[]);
        swarm.create(task_with("T", |task| task.about.max_retries = 0));
        let free = || Fail {
            kind: FailureKind::ResourceError,
            is_free: true,
            ..fail("A", "T")
        };
        for _ in 0..3 {
            swarm.hold("A", "T");
            let failed = swarm.ok(free());
            let wait = Duration::from_secs(30);
            assert_eq!(failed.retry_after, Some(wait));
            assert_eq!(swarm.task("T").retries, 0);
            swarm.wait(wait);
            swarm.ok(ReleaseRetries);
        }
        swarm.hold("A", "T");
        let lost = Fail {
            recoverable: false,
            ..free()
        };
        assert_eq!(swarm.ok(lost).status, TaskStatus::Failed);
        assert_eq!(swarm.task("T").retries, 1, "nothing is tried again");
    }

    #[test]
    fn what_cannot_be_recovered_fails_at_once() {
        // jetpack.fail.not_recoverable
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let failed = swarm.ok(Fail {
            recoverable: false,
            ..fail("A", "T")
        });
        assert_eq!(
            (failed.status, failed.retry_after),
            (TaskStatus::Failed, None)
        );
        assert!(
            swarm.task("T").previous_agents.is_empty(),
            "no retry follows"
        );
        assert_eq!(swarm.said(), ["task_failed"]);
    }

    #[test]
    fn a_failure_is_recorded_on_task_attempt_and_agent() {
        // jetpack.fail.recorded, jetpack.fail.previous_agents, jetpack.fail.releases_leases, jetpack.fail.broadcast
        let mut swarm = Swarm::with_task(TaskStatus::InProgress);
        swarm.lease("A", "src/a.rs", Some("T"));
        swarm.lease("A", "docs", None);
        swarm.ok(Fail {
            kind: FailureKind::TaskTimeout,
            details: Some("trace".to_owned()),
            suggested_action: Some("split it".to_owned()),
            ..fail("A", "T")
        });
        let task = swarm.task("T");
        let last = Failure {
            kind: FailureKind::TaskTimeout,
            message: "it broke".to_owned(),
        };
        assert_eq!(task.last_failure, Some(last));
        assert_eq!(task.previous_agents, vec![AgentId::from("A")]);
        let attempt = &swarm.attempts[0];
        assert_eq!(attempt.outcome, Outcome::Failed);
        assert_eq!(attempt.failure, Some(FailureKind::TaskTimeout));
        assert_eq!(attempt.details.as_deref(), Some("trace"));
        assert_eq!(attempt.suggested_action.as_deref(), Some("split it"));
        assert_eq!(attempt.progress.as_ref().map(|last| last.percent), Some(40));
        assert_eq!(
            (swarm.agent("A").failed, swarm.agent("A").status()),
            (1, "idle")
        );
        assert_eq!(swarm.leased(), [("docs", "A")]);
        assert_eq!(swarm.said(), ["lease_released", "task_retry_planned"]);
    }

    #[test]
    fn dependants_of_a_failed_task_stay_blocked_or_fail_as_they_said() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let fails_along = |after: &'static str| {
            move |task: &mut super::super::NewTask| {
                task.dependencies = vec![after.into()];
                task.on_dependency_failure = OnDependencyFailure::Fail;
            }
        };
        swarm.create(task_with("waits", |task| {
            task.dependencies = vec!["T".into()]
        }));
        swarm.create(task_with("falls", fails_along("T")));
        swarm.create(task_with("falls too", fails_along("falls")));
        swarm.create(task_with("waits too", |task| {
            task.dependencies = vec!["falls".into()]
        }));
        swarm.ok(Fail {
            recoverable: false,
            ..fail("A", "T")
        });
        let status = |id| swarm.task(id).status();
        assert_eq!(status("waits"), TaskStatus::Waiting);
        assert_eq!(status("falls"), TaskStatus::Failed);
        assert_eq!(status("falls too"), TaskStatus::Failed);
        assert_eq!(status("waits too"), TaskStatus::Waiting);
        let failure = swarm.task("falls too").last_failure.clone();
        assert_eq!(
            failure.map(|one| one.kind),
            Some(FailureKind::DependencyError)
        );
        let told = swarm
            .said()
            .into_iter()
            .filter(|kind| *kind == "dependency_failed");
        assert_eq!(told.count(), 4);
    }

    #[test]
    fn a_failure_that_will_be_retried_tells_no_dependant() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.create(task_with("falls", |task| {
            task.dependencies = vec!["T".into()];
            task.on_dependency_failure = OnDependencyFailure::Fail;
        }));
        swarm.ok(fail("A", "T"));
        assert_eq!(swarm.task("falls").status(), TaskStatus::Waiting);
    }
}

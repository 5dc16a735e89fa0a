//! A worker of the bus reports an error: its flags decide whether the task is tried again, has failed, or waits for a person.

use std::time::Duration;

use super::ending::{end_claim, give_up, tell_dependants, want_dependants_told, want_end};
use super::{Verb, awake, check_holder, sign_of_life, speaker};
use crate::attempt::{Attempt, Outcome};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, TaskId};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Failure, FailureKind, Task, Trouble};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportError {
    pub agent: AgentId,
    /// The task it holds and is stuck with; `None` if the error is about nothing of the ledger's.
    pub task: Option<TaskId>,
    pub epoch: Option<u64>,
    /// What the worker calls the task.
    pub number: u64,
    pub error: String,
    pub kind: FailureKind,
    pub error_type: String,
    pub stage: String,
    pub attempt: u32,
    pub message: String,
    pub details: Option<String>,
    /// What a person could do about it.
    pub remedy: Option<String>,
    pub flags: ErrorFlags,
    pub backoff: Backoff,
}

/// What the worker thinks of its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorFlags {
    pub transient: bool,
    pub retry: bool,
    pub escalate: bool,
}

/// How long to wait before the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub mode: BackoffMode,
    pub initial: Duration,
    pub max: Duration,
    /// Drawn outside, up to 1,000: those who fail together do not come back together.
    pub jitter: u16,
    /// The other side asked for at least this much.
    pub at_least: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackoffMode {
    Exponential,
    Linear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorTaken {
    Retry {
        after: Duration,
    },
    Failed,
    NeedsPerson,
    /// It was about no task that this worker holds.
    Noted,
}

impl ReportError {
    /// The holder of a task cannot go on: a person must look at it.
    pub fn blocked(
        agent: &AgentId,
        task: &TaskId,
        epoch: u64,
        (number, attempt): (u64, u32),
        message: String,
    ) -> ReportError {
        ReportError {
            agent: agent.clone(),
            task: Some(task.clone()),
            epoch: Some(epoch),
            number,
            error: format!("blocked-{task}-{epoch}"),
            kind: FailureKind::TaskError,
            error_type: "blocked".to_owned(),
            stage: "BLOCKED".to_owned(),
            attempt,
            message,
            details: None,
            remedy: None,
            flags: ErrorFlags {
                transient: false,
                retry: false,
                escalate: true,
            },
            backoff: Backoff::NONE,
        }
    }
}

impl Backoff {
    /// Of what is not tried again.
    const NONE: Backoff = Backoff {
        mode: BackoffMode::Linear,
        initial: Duration::ZERO,
        max: Duration::ZERO,
        jitter: 0,
        at_least: Duration::ZERO,
    };
}

/// Retries of an error that will hardly go away by itself.
const RECHECKS: u32 = 1;

impl Verb for ReportError {
    type Reply = ErrorTaken;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        if let Some(id) = &self.task
            && let Some(task) = want.task(id)
        {
            want_end(want, task);
            want_dependants_told(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(ErrorTaken, Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        changes.event(self.event());
        let Some(id) = &self.task else {
            sign_of_life(known, &mut changes, now);
            return Ok((ErrorTaken::Noted, changes));
        };
        let task = slice
            .task(id)
            .ok_or_else(|| Refusal::TaskNotFound { task: id.clone() })?;
        check_holder(task, &self.agent, self.epoch).map_err(|why| Refusal::TaskNotYours {
            task: id.clone(),
            why,
        })?;
        let mut agent = awake(known, &mut changes, now);
        let outcome = match self.flags.escalate {
            true => Outcome::NeedsPerson,
            false => Outcome::Failed,
        };
        end_claim(slice, &mut changes, task, outcome, &mut agent, now);
        agent.failed += 1;
        changes.put(agent);
        if let Some(attempt) = changes.rows_mut::<Attempt>().next_back() {
            attempt.failure = Some(self.kind);
            attempt.message = Some(self.message.clone());
            attempt.details.clone_from(&self.details);
            attempt.suggested_action.clone_from(&self.remedy);
        }
        let taken = self.settle(slice, &mut changes, task, now);
        Ok((taken, changes))
    }
}

impl ReportError {
    fn event(&self) -> Event {
        Event::ErrorReported {
            agent: self.agent.clone(),
            error: self.error.clone(),
            task: self.task.clone(),
            number: self.number,
            stage: self.stage.clone(),
            error_type: self.error_type.clone(),
            attempt: self.attempt,
            message: self.message.clone(),
        }
    }

    fn settle(
        &self,
        slice: &Slice,
        changes: &mut Changes,
        task: &Task,
        now: Timestamp,
    ) -> ErrorTaken {
        let mut after = task.clone();
        after.retries += 1;
        // interop §6: the flags decide first.
        if self.flags.escalate {
            changes.task(after.escalate(&self.agent, &self.trouble(), now));
            return ErrorTaken::NeedsPerson;
        }
        let plain = self.failure();
        let recheck_spent = !self.flags.transient && after.retries > RECHECKS;
        if !self.flags.retry || recheck_spent {
            changes.task(after.fail(plain, now));
            tell_dependants(slice, changes, &task.id, now);
            return ErrorTaken::Failed;
        }
        if after.retries <= after.about.max_retries {
            after.remember_previous(&self.agent);
            let wait = self.backoff.after(after.retries);
            changes.task(after.retry_later(plain, now + wait, now));
            return ErrorTaken::Retry { after: wait };
        }
        let asks_person = after.asks_person_when_spent();
        give_up(slice, changes, after, &self.agent, self.trouble(), now);
        if asks_person {
            ErrorTaken::NeedsPerson
        } else {
            ErrorTaken::Failed
        }
    }

    /// What a person needs to know: stage, error type, remedy.
    fn trouble(&self) -> Trouble {
        Trouble {
            failure: self.failure(),
            error_type: Some(self.error_type.clone()),
            stage: Some(self.stage.clone()),
            remedy: self.remedy.clone(),
        }
    }

    fn failure(&self) -> Failure {
        Failure {
            kind: self.kind,
            message: self.message.clone(),
        }
    }
}

impl Backoff {
    /// The wait after this many failures: between half of the full wait and all of it, and never less than was asked for.
    pub fn after(&self, failures: u32) -> Duration {
        let full = match self.mode {
            BackoffMode::Linear => self.initial.saturating_mul(failures.max(1)),
            BackoffMode::Exponential => {
                let doubled = 2_u32.checked_pow(failures.saturating_sub(1));
                self.initial.saturating_mul(doubled.unwrap_or(u32::MAX))
            }
        };
        let full = full.min(self.max);
        let part = u32::from(self.jitter.min(1000));
        (full / 2 + full / 2000 * part).max(self.at_least)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, claim, word};
    use super::super::{Assign, ReleaseRetries};
    use super::*;
    use crate::task::{TaskStatus, WhenSpent};

    const HOUR: Duration = Duration::from_secs(3600);

    fn report(task: Option<&str>, (transient, retry, escalate): (bool, bool, bool)) -> ReportError {
        ReportError {
            agent: "A".into(),
            task: task.map(TaskId::from),
            epoch: None,
            number: 1,
            error: "20260212-004102Z-A-attempt-1".to_owned(),
            kind: FailureKind::ResourceError,
            error_type: "github_rate_limited".to_owned(),
            stage: "PR_CREATE".to_owned(),
            attempt: 1,
            message: "no more requests".to_owned(),
            details: None,
            remedy: Some("wait for the limit to be lifted".to_owned()),
            flags: ErrorFlags {
                transient,
                retry,
                escalate,
            },
            backoff: Backoff {
                mode: BackoffMode::Exponential,
                initial: Duration::from_secs(1),
                max: Duration::from_secs(30),
                jitter: 1000,
                at_least: Duration::ZERO,
            },
        }
    }

    fn held(max_retries: u32) -> Swarm {
        let mut swarm = Swarm::new();
        swarm.join("A", &[]);
        swarm.add("T");
        if let Some(task) = swarm.tasks.get_mut(&TaskId::from("T")) {
            task.about.max_retries = max_retries;
        }
        swarm.hold("A", "T");
        swarm
    }

    #[test]
    fn the_flags_decide() {
        // agentbus.error.flags, agentbus.error.retry_rules
        let cases = [
            // transient, retry, escalate, retries before; what follows
            ((true, true, false), 0, TaskStatus::RetryWait),
            ((true, true, false), 1, TaskStatus::RetryWait),
            ((true, true, false), 2, TaskStatus::Failed),
            ((false, true, false), 0, TaskStatus::RetryWait),
            ((false, true, false), 1, TaskStatus::Failed),
            ((true, false, false), 0, TaskStatus::Failed),
            ((false, false, false), 0, TaskStatus::Failed),
            ((true, true, true), 0, TaskStatus::NeedsPerson),
            ((false, false, true), 0, TaskStatus::NeedsPerson),
        ];
        for (flags, before, status) in cases {
            let mut swarm = held(2);
            if let Some(task) = swarm.tasks.get_mut(&TaskId::from("T")) {
                task.retries = before;
            }
            swarm.ok(report(Some("T"), flags));
            assert_eq!(swarm.task("T").status(), status, "{flags:?} after {before}");
            assert_eq!(swarm.said()[0], "error_reported");
            assert!(swarm.agent("A").holds.is_empty());
        }
    }

    #[test]
    fn past_the_budget_a_person_is_asked_on_the_bus_and_where_the_maker_says_so() {
        // agentbus.error.retry_rules
        let watched = |swarm: &mut Swarm| {
            let claim = claim("A");
            let (cap, stale_after) = (HOUR, HOUR);
            swarm.ok(Assign {
                claim,
                cap,
                stale_after,
            });
        };
        for (when_spent, on_bus, status) in [
            (WhenSpent::Fail, false, TaskStatus::Failed),
            (WhenSpent::Fail, true, TaskStatus::NeedsPerson),
            (WhenSpent::AskPerson, false, TaskStatus::NeedsPerson),
        ] {
            let mut swarm = Swarm::new();
            swarm.join("A", &[]);
            swarm.add("T");
            let task = swarm
                .tasks
                .get_mut(&TaskId::from("T"))
                .expect("it is there");
            (task.about.max_retries, task.about.when_spent) = (0, when_spent);
            match on_bus {
                true => watched(&mut swarm),
                false => swarm.hold("A", "T"),
            }
            swarm.ok(report(Some("T"), (true, true, false)));
            assert_eq!(swarm.task("T").status(), status, "{when_spent} {on_bus}");
            let failure = swarm.task("T").last_failure.clone().expect("it failed");
            let said = failure.message;
            let told = ["PR_CREATE", "github_rate_limited", "1 of 1", "wait for"];
            let all = told.iter().all(|word| said.contains(word));
            assert_eq!(all, status == TaskStatus::NeedsPerson, "{said}");
        }
    }

    #[test]
    fn waits_grow_to_a_ceiling_and_are_spread() {
        let backoff = |mode, jitter| Backoff {
            mode,
            jitter,
            ..report(None, (true, true, false)).backoff
        };
        let seconds = |mode, failures| backoff(mode, 1000).after(failures).as_secs_f64();
        let near = |found: f64, wanted: f64| (found - wanted).abs() < 0.01 * wanted;
        for (failures, wanted) in [(1, 1.0), (2, 2.0), (5, 16.0), (6, 30.0), (90, 30.0)] {
            let found = seconds(BackoffMode::Exponential, failures);
            assert!(near(found, wanted), "{failures}: {found}");
        }
        for (failures, wanted) in [(1, 1.0), (2, 2.0), (5, 5.0), (90, 30.0)] {
            assert!(near(seconds(BackoffMode::Linear, failures), wanted));
        }
        let half = backoff(BackoffMode::Exponential, 0).after(5);
        assert_eq!(half, Duration::from_secs(8));
        let mut asked = backoff(BackoffMode::Linear, 0);
        asked.at_least = Duration::from_secs(77);
        assert_eq!(asked.after(1), Duration::from_secs(77));
    }

    #[test]
    fn an_error_about_nothing_of_ours_is_only_noted() {
        let mut swarm = held(2);
        assert_eq!(
            swarm.ok(report(None, (true, true, true))),
            ErrorTaken::Noted
        );
        assert_eq!(swarm.said(), ["error_reported"]);
        assert_eq!(swarm.task("T").status(), TaskStatus::Claimed);
    }

    #[test]
    fn only_the_holder_reports_and_the_next_try_prefers_others() {
        let mut swarm = held(2);
        swarm.join("B", &[]);
        let mut other = report(Some("T"), (true, true, false));
        other.agent = "B".into();
        assert_eq!(word(&swarm.run(other)), "not_holder");
        swarm.ok(report(Some("T"), (true, true, false)));
        swarm.wait(Duration::from_secs(1));
        swarm.ok(ReleaseRetries);
        assert_eq!(swarm.task("T").previous_agents, ["A".into()]);
        assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
    }
}

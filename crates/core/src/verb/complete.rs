//! COMPLETE: the holder says it is done; the gate says whether that counts.

use std::sync::Arc;

use super::distribute::{settle, want_settled};
use super::ending::{end_claim, release_dependants, want_dependants_released, want_end};
use super::open_reviews::fell_short;
use super::{Verb, awake, check_holder, speaker};
use crate::attempt::{Attempt, Outcome};
use crate::changes::Changes;
use crate::event::Event;
use crate::evidence::Evidence;
use crate::id::{AgentId, LearningId, SnapshotId, TaskId};
use crate::memory::Learning;
use crate::outbox::FailureClass;
use crate::quality::{Baseline, GatePolicy, Judgement, Metrics, Snapshot};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Failure, FailureKind, Task, TaskStatus};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Complete {
    pub agent: AgentId,
    pub task: TaskId,
    pub epoch: Option<u64>,
    /// What was accomplished, as JSON.
    pub result: Box<str>,
    pub learnings: Vec<(LearningId, String)>,
    pub metrics: Option<(SnapshotId, Metrics)>,
    pub evidence: Vec<Evidence>,
    pub policy: Arc<GatePolicy>,
    /// What a look at the result found, where the task has a contract that says what it must be.
    pub finding: Option<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What of it is not as it must be.
    pub breach: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Completed {
    pub judgement: Judgement,
    pub status: TaskStatus,
}

impl Verb for Complete {
    type Reply = Completed;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        if self.metrics.is_some() {
            want.baseline();
        }
        if let Some(task) = want.task(&self.task) {
            want_end(want, task);
            want_dependants_released(want, task);
            want_settled(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Completed, Changes), Refusal> {
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
        let contract = task.contract.as_ref();
        if contract.is_some_and(|contract| contract.is_judged()) && self.finding.is_none() {
            return Err(Refusal::Unjudged(Box::new(self.clone())));
        }
        let mut changes = Changes::default();
        let mut agent = awake(agent, &mut changes, now);
        let baseline = slice.known::<Baseline>(&()).flatten();
        let mut judgement = self
            .policy
            .judge(baseline, self.metrics.as_ref().map(|(_, metrics)| metrics));
        if let Some(breach) = self.breach() {
            judgement = judgement.broken(breach);
        }
        let outcome = if judgement.passed {
            Outcome::Completed
        } else {
            Outcome::NeedsPerson
        };
        end_claim(slice, &mut changes, task, outcome, &mut agent, now);
        if let Some(attempt) = changes.rows_mut::<Attempt>().next_back() {
            attempt.evidence.clone_from(&self.evidence);
        }
        agent.completed += u64::from(judgement.passed);
        changes.put(agent);
        self.keep_snapshot(&mut changes, baseline, &judgement, now);
        self.keep_learnings(&mut changes, now);
        let status = self.finish(slice, &mut changes, task, &judgement, now);
        Ok((Completed { judgement, status }, changes))
    }
}

impl Complete {
    fn finish(
        &self,
        slice: &Slice,
        changes: &mut Changes,
        task: &Task,
        judgement: &Judgement,
        now: Timestamp,
    ) -> TaskStatus {
        let mut done = task.clone();
        if let Some(contract) = &mut done.contract {
            contract.is_broken = self.breach().is_some();
        }
        if let Some(breach) = self.breach() {
            done.last_failure = Some(Failure {
                kind: FailureKind::QualityFailure,
                message: breach.to_owned(),
            });
            fell_short(changes, task, FailureClass::ContractViolation, now);
        }
        if let Some((id, _)) = &self.metrics {
            done.snapshot = Some(id.clone());
        }
        let (done, event) = match &judgement.why {
            Some(why) if !judgement.passed => {
                done.ask_person(&self.agent, self.result.clone(), why, now)
            }
            Some(_) | None => done.complete(&self.agent, self.result.clone(), now),
        };
        let status = done.status();
        changes.task((done, event));
        if status == TaskStatus::Completed {
            release_dependants(slice, changes, task, now);
            settle(slice, task, true, changes, now);
        }
        status
    }

    fn breach(&self) -> Option<&str> {
        let finding = self.finding.as_ref();
        finding.and_then(|finding| finding.breach.as_deref())
    }

    fn keep_snapshot(
        &self,
        changes: &mut Changes,
        baseline: Option<&Baseline>,
        judgement: &Judgement,
        now: Timestamp,
    ) {
        let Some((id, metrics)) = &self.metrics else {
            return;
        };
        changes.put(Snapshot {
            id: id.clone(),
            task: Some(self.task.clone()),
            agent: Some(self.agent.clone()),
            metrics: metrics.clone(),
            recorded_at: now,
        });
        if self.policy.move_baseline && judgement.passed && judgement.regressions.is_empty() {
            changes.put(Baseline {
                metrics: metrics.clone(),
                set_by: self.agent.to_string(),
                created_at: baseline.map_or(now, |old| old.created_at),
                updated_at: now,
                rev: baseline.map_or(0, |old| old.rev) + 1,
            });
            changes.event(Event::BaselineSet {
                by: self.agent.to_string(),
                snapshot: Some(id.clone()),
            });
        }
    }

    fn keep_learnings(&self, changes: &mut Changes, now: Timestamp) {
        for (id, text) in &self.learnings {
            changes.put(Learning {
                id: id.clone(),
                text: text.clone(),
                task: Some(self.task.clone()),
                agent: Some(self.agent.clone()),
                created_at: now,
            });
            changes.event(Event::LearningStored {
                text: text.clone(),
                task: Some(self.task.clone()),
                agent: Some(self.agent.clone()),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Standing, Swarm, complete, progress, task_with, word};
    use super::*;
    use crate::lease::Lease;
    use crate::quality::NextAction;
    use crate::task::TaskState;

    fn metrics(type_errors: u32) -> Metrics {
        Metrics {
            build_success: true,
            type_errors,
            lint_errors: 0,
            lint_warnings: 0,
            tests_passing: 5,
            tests_failing: 0,
            test_coverage: None,
        }
    }

    fn measured(agent: &str, task: &str, type_errors: u32) -> Complete {
        Complete {
            metrics: Some((format!("q-{task}").into(), metrics(type_errors))),
            ..complete(agent, task)
        }
    }

    #[test]
    fn only_the_holder_completes_by_state() {
        // jetpack.complete.sets_completed
        for status in TaskStatus::ALL {
            let (holder, other) = match status {
                TaskStatus::Claimed | TaskStatus::InProgress => ("ok", "not_holder"),
                TaskStatus::Waiting | TaskStatus::Ready => ("not_holder", "not_holder"),
                TaskStatus::RetryWait => ("task_reassigned", "not_holder"),
                TaskStatus::NeedsPerson => ("not_holder", "not_holder"),
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled => {
                    ("already_finished", "already_finished")
                }
            };
            let outcome = Swarm::with_task(*status).run(complete("A", "T"));
            assert_eq!(word(&outcome), holder, "A, {status}");
            let outcome = Swarm::with_task(*status).run(complete("B", "T"));
            assert_eq!(word(&outcome), other, "B, {status}");
        }
    }

    #[test]
    fn who_may_complete_by_standing() {
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            swarm.add("T");
            let expected = match standing {
                Standing::Unknown | Standing::Gone => "agent_not_registered",
                Standing::Live | Standing::Stopping | Standing::Silent => "not_holder",
            };
            assert_eq!(
                word(&swarm.run(complete("A", "T"))),
                expected,
                "{standing:?}"
            );
        }
        let outcome = Swarm::with_agent(Standing::Live).run(complete("A", "T"));
        assert_eq!(word(&outcome), "task_not_found");
    }

    #[test]
    fn a_result_of_an_older_epoch_is_refused_also_from_the_same_agent() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let of_epoch = |epoch| Complete {
            epoch: Some(epoch),
            ..complete("A", "T")
        };
        assert_eq!(word(&swarm.run(of_epoch(0))), "stale_epoch");
        assert_eq!(word(&swarm.run(of_epoch(2))), "stale_epoch");
        assert_eq!(word(&swarm.run(of_epoch(1))), "ok");
    }

    #[test]
    fn a_late_result_does_not_overwrite_the_new_holder() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.ok(super::super::ReleaseTask {
            task: "T".into(),
            agent: None,
            epoch: None,
        });
        swarm.hold("B", "T");
        let late = Complete {
            epoch: Some(1),
            ..complete("A", "T")
        };
        assert_eq!(word(&swarm.run(late)), "task_reassigned");
        assert_eq!(swarm.task("T").holder(), Some(&"B".into()));
    }

    #[test]
    fn a_clean_completion_does_all_of_it_in_one_commit() {
        // jetpack.complete.sets_completed, releases_leases, learnings, snapshot, broadcast
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.create(task_with("after", |task| {
            task.dependencies = vec!["T".into()]
        }));
        swarm.lease("A", "src/a.rs", Some("T"));
        swarm.lease("A", "docs", None);
        swarm.wait(Duration::from_secs(90));
        let done = swarm.ok(Complete {
            learnings: vec![("l1".into(), "mind the lock".to_owned())],
            ..measured("A", "T", 0)
        });
        assert_eq!(done.status, TaskStatus::Completed);
        assert_eq!(
            (done.judgement.passed, done.judgement.next),
            (true, NextAction::Proceed)
        );
        let task = swarm.task("T");
        let state = TaskState::Completed {
            by: "A".into(),
            at: swarm.now,
        };
        assert_eq!((&task.state, task.worked_ms), (&state, Some(90_000)));
        assert_eq!(task.result.as_deref(), Some(r#"{"summary":"done"}"#));
        assert_eq!(task.snapshot, Some("q-T".into()));
        assert_eq!(swarm.task("after").status(), TaskStatus::Ready);
        assert_eq!(swarm.leased(), [("docs", "A")]);
        assert_eq!(swarm.learnings[0].text, "mind the lock");
        let snapshot = &swarm.snapshots[0];
        assert_eq!(
            (&snapshot.task, &snapshot.agent),
            (&Some("T".into()), &Some("A".into()))
        );
        let agent = swarm.agent("A");
        assert_eq!(
            (agent.completed, agent.runtime_ms, agent.status()),
            (1, 90_000, "idle")
        );
        assert!(agent.holds.is_empty() && agent.current.is_none());
        let attempt = &swarm.attempts[0];
        assert_eq!((attempt.outcome, attempt.epoch), (Outcome::Completed, 1));
        let count = |kind| {
            swarm
                .said()
                .into_iter()
                .filter(|said| *said == kind)
                .count()
        };
        assert_eq!((count("task_completed"), count("learning_stored")), (1, 1));
    }

    #[test]
    fn a_dependant_waits_for_the_last_of_its_dependencies() {
        // jetpack.claim.dependencies_completed
        let mut swarm = Swarm::new();
        swarm.join("A", &[]);
        swarm.add("one");
        swarm.add("two");
        let both = vec!["one".into(), "two".into()];
        swarm.create(task_with("after", |task| task.dependencies = both));
        swarm.hold("A", "one");
        swarm.ok(complete("A", "one"));
        assert_eq!(swarm.task("after").blockers, vec![TaskId::from("two")]);
        assert_eq!(swarm.task("after").status(), TaskStatus::Waiting);
        swarm.hold("A", "two");
        swarm.ok(complete("A", "two"));
        assert_eq!(swarm.task("after").status(), TaskStatus::Ready);
    }

    #[test]
    fn a_blocking_regression_asks_a_person_and_releases_nobody() {
        // jetpack.complete.regression_check, jetpack.complete.needs_review
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.create(task_with("after", |task| {
            task.dependencies = vec!["T".into()]
        }));
        swarm.ok(super::super::SetBaseline {
            source: super::super::BaselineSource::Given(metrics(0)),
            by: "a person".to_owned(),
        });
        swarm.lease("A", "src/a.rs", Some("T"));
        let done = swarm.ok(measured("A", "T", 2));
        assert_eq!(done.status, TaskStatus::NeedsPerson);
        let judged = done.judgement;
        assert_eq!(
            (judged.passed, judged.next),
            (false, NextAction::FixRegressions)
        );
        let found = &judged.regressions[0];
        assert_eq!(
            (found.metric, found.delta),
            (crate::Metric::TypeErrors, 2.0)
        );
        assert_eq!(swarm.task("after").status(), TaskStatus::Waiting);
        assert_eq!(swarm.agent("A").completed, 0);
        assert_eq!(
            swarm.leases.values().collect::<Vec<&Lease>>(),
            Vec::<&Lease>::new()
        );
        assert_eq!(swarm.attempts[0].outcome, Outcome::NeedsPerson);
    }

    #[test]
    fn without_metrics_the_gate_passes_unless_they_are_required() {
        // jetpack.complete.quality_metrics
        for (required, status) in [
            (false, TaskStatus::Completed),
            (true, TaskStatus::NeedsPerson),
        ] {
            let mut swarm = Swarm::with_task(TaskStatus::InProgress);
            let policy = GatePolicy {
                require_metrics: required,
                ..GatePolicy::default()
            };
            let done = swarm.ok(Complete {
                policy: policy.into(),
                ..complete("A", "T")
            });
            assert_eq!(done.status, status);
            assert!(swarm.snapshots.is_empty());
        }
    }

    #[test]
    fn a_clean_completion_moves_the_baseline_if_the_policy_says_so() {
        for moves in [false, true] {
            let mut swarm = Swarm::with_task(TaskStatus::Claimed);
            let policy = GatePolicy {
                move_baseline: moves,
                ..GatePolicy::default()
            };
            swarm.ok(Complete {
                policy: policy.into(),
                ..measured("A", "T", 3)
            });
            let kept = swarm.baseline.as_ref().map(|row| row.metrics.type_errors);
            assert_eq!(kept, moves.then_some(3));
        }
    }

    #[test]
    fn a_task_that_was_worked_on_keeps_when_it_started() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.wait(Duration::from_secs(1));
        swarm.ok(progress("A", "T"));
        let started = swarm.now;
        swarm.wait(Duration::from_secs(1));
        swarm.ok(complete("A", "T"));
        assert_eq!(swarm.task("T").started_at, Some(started));
    }
}

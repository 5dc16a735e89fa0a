//! An agent has answered: interaction, transition, sums, recovery point and halt are one commit.

use super::Verb;
use super::answer::Answered;
use super::turn::{Turn, ask_with_spec};
use crate::changes::Changes;
use crate::id::JobId;
use crate::job::Job;
use crate::job_history::{CallWaits, Checkpoint, Interaction, Judged, NewExchange};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndJobRun {
    pub job: JobId,
    pub run: String,
    pub judged: Judged,
    pub exchange: NewExchange,
    /// The workspace as the run left it.
    pub checkpoint: Option<Checkpoint>,
    pub waits: CallWaits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub job: Job,
    pub interaction: Interaction,
}

impl Verb for EndJobRun {
    type Reply = Ended;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask_with_spec(want, &self.job);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Ended, Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        let run = turn.run(&self.run)?;
        let answered = Answered {
            judged: &self.judged,
            exchange: &self.exchange,
            checkpoint: self.checkpoint.as_ref(),
            waits: self.waits,
        };
        let interaction = answered.take(&mut turn, &run)?;
        let by = run.role.agent(&self.job);
        let (job, changes) = turn.end(by.as_str(), interaction.action.as_str());
        Ok((Ended { job, interaction }, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::testing::word;
    use super::super::testing::*;
    use super::super::{ChangeJob, Decision};
    use super::*;
    use crate::audit::AuditEntry;
    use crate::job::{Halt, JobAction, JobRole, JobState, NewLimits};
    use crate::job_history::{Answer, CallError, Exchange, RunStatus, Violation};
    use crate::limits;

    fn why() -> String {
        "why".to_owned()
    }

    #[test]
    fn what_each_answer_leads_to() {
        // The document's matrix: logist.error.schema_violation, logist.error.action_invalid,
        // logist.error.summary_missing, logist.escalate.timeout
        use JobAction::{Completed, Retry, Stuck};
        use JobState::{InterventionRequired, Pending, ReviewRequired};
        use RunStatus::{Error, Success, Timeout};
        let invalid = |violation| Answer::Invalid {
            violation,
            why: why(),
        };
        let called = |error| Answer::CallFailed { error, why: why() };
        let table = [
            (
                Answer::Said(Completed),
                Success,
                Completed,
                ReviewRequired,
                Pending,
            ),
            (
                Answer::Said(Stuck),
                Success,
                Stuck,
                InterventionRequired,
                InterventionRequired,
            ),
            (Answer::Said(Retry), Success, Retry, Pending, Pending),
            (
                invalid(Violation::Malformed),
                Error,
                Stuck,
                InterventionRequired,
                InterventionRequired,
            ),
            (
                invalid(Violation::Schema),
                Error,
                Stuck,
                InterventionRequired,
                InterventionRequired,
            ),
            (
                invalid(Violation::Action),
                Error,
                Stuck,
                InterventionRequired,
                InterventionRequired,
            ),
            (
                invalid(Violation::Summary),
                Error,
                Stuck,
                InterventionRequired,
                InterventionRequired,
            ),
            (
                Answer::TimedOut { why: why() },
                Timeout,
                Stuck,
                InterventionRequired,
                InterventionRequired,
            ),
            (
                Answer::Broken { why: why() },
                Error,
                Stuck,
                InterventionRequired,
                InterventionRequired,
            ),
            (
                called(CallError::Network),
                Error,
                Retry,
                Pending,
                ReviewRequired,
            ),
            (
                called(CallError::Quota),
                Error,
                Retry,
                Pending,
                ReviewRequired,
            ),
            (
                called(CallError::Credential),
                Error,
                Stuck,
                InterventionRequired,
                InterventionRequired,
            ),
        ];
        for (answer, status, action, worker, supervisor) in table {
            for (from, to) in [
                (JobState::Running, worker),
                (JobState::Reviewing, supervisor),
            ] {
                let mut swarm = in_state(from);
                let ended = end(&mut swarm, answered(answer.clone()));
                let Ended { job, interaction } = ended;
                assert_eq!(
                    (interaction.status, interaction.action),
                    (status, action),
                    "{answer:?}"
                );
                assert_eq!((job.state, job.run), (to, None), "{from} {answer:?}");
                assert_eq!(interaction.new_status, to, "{from} {answer:?}");
                assert_eq!(interaction.state_before, from.resting());
                let replayed = interaction.replayed().map(|landed| landed.state);
                assert_eq!(replayed, Some(to), "{from} {answer:?}");
            }
        }
    }

    #[test]
    fn a_response_that_breaks_the_protocol_is_kept_for_the_steward_and_in_the_audit() {
        // logist.security.audit, logist.history.raw
        let mut swarm = in_state(JobState::Running);
        let mut ends = ends(&swarm, invalid());
        ends.exchange.raw.0 = "not what was asked for".to_owned();
        swarm.ok(ends);
        let exchange: Exchange = row(&swarm, "J/1");
        assert_eq!(exchange.raw.0, "not what was asked for");
        let told: AuditEntry = row(&swarm, "job:J:1");
        assert_eq!(told.code.as_deref(), Some("action_invalid"));
        assert_eq!(told.actor, Some("J/worker".into()));
        let kept = &interactions(&swarm)[0];
        assert!(
            kept.error.as_ref().is_some_and(|why| why.contains("DONE")),
            "the value is named"
        );
        let mut swarm = in_state(JobState::Running);
        end(&mut swarm, said(JobAction::Stuck));
        assert!(
            !has::<AuditEntry>(&swarm, "job:J:1"),
            "stuck is no violation"
        );
    }

    #[test]
    fn a_job_goes_through_its_phases_to_approval() {
        // logist.flow.completed_advances, logist.history.sequence
        let mut swarm = plain();
        let mut seen = Vec::new();
        for _ in 0..4 {
            let ended = run(&mut swarm, JobAction::Completed);
            seen.push((ended.interaction.sequence, ended.job.phase, ended.job.state));
        }
        assert_eq!(
            seen,
            [
                (1, 0, JobState::ReviewRequired),
                (2, 1, JobState::Pending),
                (3, 1, JobState::ReviewRequired),
                (4, 1, JobState::ApprovalRequired),
            ]
        );
        let roles: Vec<JobRole> = interactions(&swarm).iter().map(|one| one.role).collect();
        use JobRole::{Supervisor, Worker};
        assert_eq!(roles, [Worker, Supervisor, Worker, Supervisor]);
        let points: Vec<(String, u64, usize)> = points(&swarm)
            .into_iter()
            .map(|point| (point.id, point.sequence, point.resume_phase))
            .collect();
        let expected = [("phase-1-complete", 2, 1), ("phase-2-complete", 4, 1)];
        assert_eq!(
            points,
            expected.map(|(id, at, phase)| (id.to_owned(), at, phase))
        );
        assert_eq!(swarm.said(), ["job_run_ended", "job_moved"]);
    }

    #[test]
    fn sums_are_those_of_the_interactions() {
        // logist.history.cost, logist.manifest.cost, logist.manifest.time
        let mut swarm = plain();
        run(&mut swarm, JobAction::Retry);
        begin(&mut swarm);
        end(
            &mut swarm,
            Judged {
                cost_micros: None,
                ..said(JobAction::Retry)
            },
        );
        begin(&mut swarm);
        end(
            &mut swarm,
            answered(Answer::CallFailed {
                error: CallError::Network,
                why: why(),
            }),
        );
        let sums = job(&swarm).sums;
        assert_eq!((sums.cost_micros, sums.millis), (2_000, 3_000));
        assert_eq!(
            (sums.iterations, sums.unreported),
            (2, 1),
            "a failed call is no turn"
        );
        assert!(!interactions(&swarm)[1].cost_reported);
    }

    #[test]
    fn an_error_of_the_call_is_asked_again_three_times_at_growing_intervals() {
        // logist.escalate.api_error, logist.escalate.api_backoff
        for (error, waits) in [
            (CallError::Network, [1, 2, 4]),
            (CallError::Quota, [30, 60, 120]),
        ] {
            let mut swarm = plain();
            let failed = || answered(Answer::CallFailed { error, why: why() });
            for wait in waits {
                begin(&mut swarm);
                let job = end(&mut swarm, failed()).job;
                assert_eq!(job.state, JobState::Pending);
                let due = swarm.now + Duration::from_secs(wait);
                assert_eq!(job.look_at, Some(due), "{error}");
            }
            begin(&mut swarm);
            let job = end(&mut swarm, failed()).job;
            assert_eq!(
                (job.state, job.look_at),
                (JobState::InterventionRequired, None)
            );
            assert_eq!(job.sums.iterations, 0);
            swarm.ok(decide(Decision::Resubmit {
                guidance: None,
                limits: NewLimits::default(),
            }));
            begin(&mut swarm);
            let again = end(&mut swarm, failed()).job;
            assert_eq!(
                again.state,
                JobState::Pending,
                "counted anew after a person looked"
            );
        }
    }

    #[test]
    fn a_run_that_goes_over_a_limit_counts_and_the_job_halts_with_what_it_would_have_done() {
        for (sum, halt) in [
            (limits::JOB_COST_MICROS - 1, None),
            (limits::JOB_COST_MICROS, Some(Halt::Cost)),
            (limits::JOB_COST_MICROS + 1, Some(Halt::Cost)),
        ] {
            let mut swarm = in_state(JobState::Running);
            let judged = Judged {
                cost_micros: Some(sum),
                ..said(JobAction::Completed)
            };
            let ended = end(&mut swarm, judged);
            assert_eq!(ended.interaction.halted, halt, "{sum}");
            assert_eq!(ended.interaction.new_status, JobState::ReviewRequired);
            let resume = halt.map(|_| JobState::ReviewRequired);
            assert_eq!(ended.job.resume_to, resume);
            assert_eq!(
                ended.job.state,
                halt.map_or(JobState::ReviewRequired, Halt::state)
            );
        }
        for (action, resume) in [
            (JobAction::Stuck, JobState::InterventionRequired),
            (JobAction::Retry, JobState::Pending),
        ] {
            let mut swarm = in_state(JobState::Running);
            let judged = Judged {
                millis: 1 << 40,
                ..said(action)
            };
            let job = end(&mut swarm, judged).job;
            assert_eq!(
                (job.state, job.resume_to),
                (JobState::HaltedTime, Some(resume))
            );
        }
    }

    #[test]
    fn only_the_step_into_success_is_not_held_up() {
        for (needs_approval, expected) in [(true, JobState::HaltedCost), (false, JobState::Success)]
        {
            let mut swarm = with_job(|made| {
                made.spec.needs_approval = needs_approval;
                made.spec.phases.truncate(1);
                made.spec.roles = vec!["Worker".to_owned()];
            });
            begin(&mut swarm);
            let judged = Judged {
                cost_micros: Some(1 << 40),
                ..said(JobAction::Completed)
            };
            let job = end(&mut swarm, judged).job;
            assert_eq!(job.state, expected);
            let approval = needs_approval.then_some(JobState::ApprovalRequired);
            assert_eq!(job.resume_to, approval);
        }
    }

    #[test]
    fn a_person_is_warned_once_when_three_quarters_are_used() {
        let mut swarm = plain();
        let mut warned = Vec::new();
        for percent in [74, 1, 1, 1] {
            begin(&mut swarm);
            let cost = limits::JOB_COST_MICROS / 100 * percent;
            end(
                &mut swarm,
                Judged {
                    cost_micros: Some(cost),
                    ..said(JobAction::Retry)
                },
            );
            warned.push(swarm.said().contains(&"job_warned"));
        }
        assert_eq!(warned, [false, true, false, false]);
    }

    #[test]
    fn what_the_supervisor_asks_for_reaches_the_next_worker() {
        // logist.flow.steward_continue says the same of the steward, in decide.rs
        let mut swarm = in_state(JobState::Reviewing);
        let job = end(&mut swarm, said(JobAction::Retry)).job;
        assert_eq!(job.guidance.as_deref(), Some("what was done"));
        begin(&mut swarm);
        let failed = answered(Answer::CallFailed {
            error: CallError::Network,
            why: why(),
        });
        let job = end(&mut swarm, failed).job;
        assert!(job.guidance.is_some(), "the model has not seen it");
        let ended = run(&mut swarm, JobAction::Completed);
        assert_eq!(ended.interaction.guidance.as_deref(), Some("what was done"));
        assert_eq!(ended.job.guidance, None);
    }

    #[test]
    fn a_phase_that_is_tried_again_may_begin_with_its_files_as_they_were() {
        // logist.flow.retry_resets
        for (reset_on_retry, expected) in [(false, None), (true, Some("start"))] {
            let mut swarm = with_job(|made| made.spec.reset_on_retry = reset_on_retry);
            let job = run(&mut swarm, JobAction::Retry).job;
            assert_eq!(job.restore.as_deref(), expected);
            assert_eq!(begin(&mut swarm).job.restore, None, "it was done before");
        }
        let mut swarm = with_job(|made| made.spec.reset_on_retry = true);
        run(&mut swarm, JobAction::Completed);
        run(&mut swarm, JobAction::Completed);
        let job = run(&mut swarm, JobAction::Retry).job;
        assert_eq!(job.restore.as_deref(), Some("phase-1-complete"));
    }

    #[test]
    fn only_the_run_that_is_under_way_ends() {
        let mut swarm = in_state(JobState::Running);
        let late = EndJobRun {
            run: "r0".to_owned(),
            ..ends(&swarm, said(JobAction::Completed))
        };
        assert_eq!(word(&swarm.run(late)), "not_this_run");
        let ends = ends(&swarm, said(JobAction::Completed));
        swarm.ok(ends.clone());
        assert_eq!(
            word(&swarm.run(ends)),
            "not_this_run",
            "nothing happens twice"
        );
        let mut swarm = in_state(JobState::Running);
        let ends = super::super::testing::ends(&swarm, said(JobAction::Completed));
        swarm.ok(decide(Decision::Cancel));
        assert_eq!(word(&swarm.run(ends)), "not_this_run");
    }

    #[test]
    fn what_is_kept_of_a_response_is_bounded() {
        for (given, kept) in [
            (limits::JOB_EVIDENCE_MAX, limits::JOB_EVIDENCE_MAX),
            (limits::JOB_EVIDENCE_MAX + 1, limits::JOB_EVIDENCE_MAX),
        ] {
            let mut swarm = in_state(JobState::Running);
            let judged = Judged {
                evidence_files: vec!["f".to_owned(); given],
                warnings: vec!["w".to_owned(); given],
                ..said(JobAction::Completed)
            };
            let one = end(&mut swarm, judged).interaction;
            assert_eq!(one.evidence_files.len(), kept);
            assert_eq!(one.warnings.len(), limits::JOB_WARNINGS_MAX);
        }
    }

    #[test]
    fn a_limit_that_was_lowered_holds_after_the_run_that_is_under_way() {
        let mut swarm = in_state(JobState::Running);
        swarm.ok(ChangeJob {
            limits: NewLimits {
                iterations: Some(1),
                ..NewLimits::default()
            },
            ..change()
        });
        let job = end(&mut swarm, said(JobAction::Retry)).job;
        assert_eq!(job.state, JobState::HaltedIteration);
    }
}

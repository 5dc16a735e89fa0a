//! Somebody decides on a job: the steward, as a rule.

use super::turn::{Deed, JobActor, Turn, ask_with_spec};
use super::{Verb, answer, no, rank};
use crate::changes::Changes;
use crate::id::JobId;
use crate::job::refusal::JobRefusal;
use crate::job::step::{Act, Next};
use crate::job::{Job, JobAction, JobRole, JobState, JobSums, NewLimits};
use crate::job_history::{Interaction, RecoveryPoint};
use crate::limits;
use crate::record::RecordRange;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecideJob {
    pub job: JobId,
    pub actor: JobActor,
    pub decision: Decision,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A draft waits for its first run from here on, at this place of the queue.
    Activate {
        rank: Option<i64>,
    },
    Approve,
    Reject {
        guidance: Option<String>,
    },
    Resubmit {
        guidance: Option<String>,
        limits: NewLimits,
    },
    Terminate,
    /// What the agent is taken to have said, in place of what could not be read.
    Correct {
        action: JobAction,
    },
    Suspend,
    Resume,
    Cancel,
    /// To this recovery point, or the last one: sums are kept.
    GoBack {
        to: Option<String>,
    },
    /// From this phase on, counted from 0: sums begin anew.
    Rerun {
        phase: usize,
    },
}

impl Verb for DecideJob {
    type Reply = Job;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let Some(job) = ask_with_spec(want, &self.job) else {
            return;
        };
        match &self.decision {
            Decision::Activate { rank: Some(place) } => rank::ask(want, *place),
            Decision::Correct { .. } => {
                last_interaction(want, &job);
            }
            Decision::GoBack { to } => {
                point(want, &job, to.as_deref());
            }
            Decision::Activate { rank: None }
            | Decision::Approve
            | Decision::Reject { .. }
            | Decision::Resubmit { .. }
            | Decision::Terminate
            | Decision::Suspend
            | Decision::Resume
            | Decision::Cancel
            | Decision::Rerun { .. } => {}
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Job, Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        let act = self.decision.act();
        // Whoever asks for it, drafts are activated by the system.
        let role = match act {
            Act::Activate => JobRole::System,
            _ => self.actor.role,
        };
        let next = turn.next(role, act)?;
        self.carry_out(slice, &mut turn, next)?;
        turn.note(self.decision.word(), &self.actor);
        let why = self.actor.why.as_deref().unwrap_or(self.decision.word());
        Ok(turn.end(&self.actor.by, why))
    }
}

impl DecideJob {
    fn carry_out(&self, slice: &Slice, turn: &mut Turn<'_>, next: Next) -> Result<(), Refusal> {
        if let Next::To(state) = next {
            turn.job.state = state;
        }
        // Whoever is at work on it, or waits with it, is not what counts from here on.
        turn.interrupt();
        match &self.decision {
            Decision::Activate { rank: Some(place) } => rank::put(slice, turn, *place),
            Decision::Activate { rank: None }
            | Decision::Approve
            | Decision::Terminate
            | Decision::Cancel => {}
            Decision::Reject { guidance } => {
                turn.job.guidance.clone_from(guidance);
            }
            Decision::Resubmit { guidance, limits } => {
                turn.job.limits = turn.job.limits.with(*limits);
                if next == Next::ResumeTo {
                    check_limits(&turn.job)?;
                    turn.job.state = turn.job.resume_to.take().unwrap_or(JobState::Pending);
                }
                if guidance.is_some() {
                    turn.job.guidance.clone_from(guidance);
                }
                turn.warn();
            }
            Decision::Correct { action } => correct(slice, turn, *action)?,
            Decision::Suspend => turn.job.suspended_in = Some(turn.was.0.resting()),
            Decision::Resume => {
                turn.job.state = turn.job.suspended_in.take().unwrap_or(JobState::Pending);
            }
            Decision::GoBack { to } => go_back(slice, turn, to.as_deref())?,
            Decision::Rerun { phase } => {
                let phases = turn.spec().phases.len();
                if *phase >= phases {
                    let phase = *phase;
                    let why = JobRefusal::PhaseNotFound { phase, phases };
                    return Err(no(&self.job, why));
                }
                turn.job.phase = *phase;
                turn.job.sums = JobSums::default();
                turn.job.warned.clear();
            }
        }
        Ok(())
    }
}

impl Decision {
    fn act(&self) -> Act {
        match self {
            Decision::Activate { .. } => Act::Activate,
            Decision::Approve => Act::Approve,
            Decision::Reject { .. } => Act::Reject,
            Decision::Resubmit { .. } => Act::Resubmit,
            Decision::Terminate => Act::Terminate,
            Decision::Correct { .. } => Act::Correct,
            Decision::Suspend => Act::Suspend,
            Decision::Resume => Act::Resume,
            Decision::Cancel => Act::Cancel,
            Decision::GoBack { .. } => Act::GoBack,
            Decision::Rerun { .. } => Act::Rerun,
        }
    }

    /// What the history says of it.
    pub fn word(&self) -> &'static str {
        match self {
            Decision::Activate { .. } => "activated",
            Decision::Approve => "approved",
            Decision::Reject { .. } => "rejected",
            Decision::Resubmit { .. } => "resubmitted",
            Decision::Terminate => "terminated",
            Decision::Correct { .. } => "corrected",
            Decision::Suspend => "suspended",
            Decision::Resume => "resumed",
            Decision::Cancel => "canceled",
            Decision::GoBack { .. } => "went back",
            Decision::Rerun { .. } => "rerun",
        }
    }
}

fn check_limits(job: &Job) -> Result<(), Refusal> {
    match job.sums.reached(&job.limits) {
        Some(limit) => Err(no(&job.id, JobRefusal::LimitReached(limit))),
        None => Ok(()),
    }
}

fn last_interaction<'a>(want: &mut Want<'a>, job: &Job) -> Option<&'a Interaction> {
    want.private::<Interaction>(Interaction::key_of(&job.id, job.last_sequence))
}

/// As if the agent had said it in its last response, which could not be read.
fn correct(slice: &Slice, turn: &mut Turn<'_>, action: JobAction) -> Result<(), Refusal> {
    let last = last_interaction(&mut Want::new(slice), &turn.job);
    let last = last.filter(|last| last.violation.is_some() && last.phase == turn.job.phase);
    let last = last.ok_or_else(|| no(&turn.job.id, JobRefusal::NothingToCorrect))?;
    turn.job.state = match last.role {
        JobRole::Supervisor => JobState::Reviewing,
        JobRole::Worker | JobRole::Steward | JobRole::System => JobState::Running,
    };
    let act = action.into();
    turn.land(&Deed {
        role: last.role,
        act,
        summary: &last.summary,
        evidence: last.evidence_files.len(),
        checkpoint: None,
    })?;
    answer::follow_up(turn, last.role, act, &last.summary, last.phase);
    Ok(())
}

/// The named recovery point, or the last one of what the job has come to.
fn point<'a>(want: &mut Want<'a>, job: &Job, named: Option<&str>) -> Option<&'a RecoveryPoint> {
    if let Some(id) = named {
        return want.private::<RecoveryPoint>(RecoveryPoint::key_of(&job.id, id));
    }
    let points = RecordRange::newest::<RecoveryPoint>(job.id.to_string(), limits::JOB_PHASES_MAX);
    let mut points = want.privates::<RecoveryPoint>(&points).into_iter();
    points.find(|point| point.can_resume_from && point.resume_phase <= job.phase)
}

fn go_back(slice: &Slice, turn: &mut Turn<'_>, named: Option<&str>) -> Result<(), Refusal> {
    let point = point(&mut Want::new(slice), &turn.job, named);
    let point = point.filter(|point| point.can_resume_from);
    if let (None, Some(checkpoint)) = (point, named) {
        let checkpoint = checkpoint.to_owned();
        let why = JobRefusal::CheckpointNotFound { checkpoint };
        return Err(no(&turn.job.id, why));
    }
    turn.job.phase = point.map_or(0, |point| point.resume_phase);
    turn.job.state = point.map_or(JobState::Pending, |point| point.resume_state);
    turn.job.restore = point.map(|point| point.id.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::word;
    use super::super::testing::*;
    use super::*;

    fn resubmit(cost_micros: Option<u64>) -> Decision {
        Decision::Resubmit {
            guidance: Some("try the other way".to_owned()),
            limits: NewLimits {
                cost_micros,
                millis: cost_micros.map(|_| 1 << 50),
                iterations: cost_micros.map(|_| 100),
            },
        }
    }

    fn all() -> Vec<Decision> {
        vec![
            Decision::Activate { rank: None },
            Decision::Approve,
            Decision::Reject { guidance: None },
            resubmit(Some(1 << 50)),
            Decision::Terminate,
            Decision::Suspend,
            Decision::Resume,
            Decision::Cancel,
            Decision::GoBack { to: None },
            Decision::Rerun { phase: 0 },
        ]
    }

    #[test]
    fn each_decision_in_each_state_is_what_the_table_says() {
        for state in JobState::ALL {
            for decision in all() {
                let mut swarm = in_state(*state);
                let before = job(&swarm);
                let act = decision.act();
                let actor = match act {
                    Act::Activate => JobRole::System,
                    _ => JobRole::Steward,
                };
                let next = state.next(actor, act);
                let outcome = swarm.run(decide(decision.clone()));
                let expected = if next.is_some() { "ok" } else { "job_state" };
                assert_eq!(word(&outcome), expected, "{state} {decision:?}");
                let after = job(&swarm);
                match next {
                    None => assert_eq!(after, before, "{state} {decision:?}"),
                    Some(Next::To(to)) => assert_eq!(after.state, to, "{state} {decision:?}"),
                    Some(_) => {}
                }
                let noted = after.last_entry - before.last_entry;
                assert_eq!(noted, u64::from(next.is_some()), "{state} {decision:?}");
                assert!(
                    after.run.is_none() || next.is_none(),
                    "{state} {decision:?}"
                );
            }
        }
    }

    #[test]
    fn a_suspended_job_resumes_where_it_was() {
        for state in JobState::ALL {
            if state.is_terminal() || *state == JobState::Suspended {
                continue;
            }
            let mut swarm = in_state(*state);
            let before = job(&swarm);
            let suspended = swarm.ok(decide(Decision::Suspend));
            assert_eq!(
                (suspended.state, suspended.run),
                (JobState::Suspended, None)
            );
            let resumed = swarm.ok(decide(Decision::Resume));
            assert_eq!(resumed.state, state.resting(), "{state}");
            assert_eq!(resumed.resume_to, before.resume_to, "{state}");
        }
    }

    #[test]
    fn a_halted_job_goes_on_once_its_limit_is_above_what_was_used() {
        // logist.flow.steward_continue
        for state in [
            JobState::HaltedCost,
            JobState::HaltedTime,
            JobState::HaltedIteration,
        ] {
            let mut swarm = in_state(state);
            let none = Decision::Resubmit {
                guidance: None,
                limits: NewLimits::default(),
            };
            assert_eq!(word(&swarm.run(decide(none))), "limit_reached", "{state}");
            let job = swarm.ok(decide(resubmit(Some(1 << 50))));
            assert_eq!(job.state, JobState::ReviewRequired, "{state}");
            assert_eq!(job.resume_to, None);
            assert_eq!(job.guidance.as_deref(), Some("try the other way"));
            assert!(job.warned.is_empty());
        }
        let used = 1 << 40;
        for (limit, expected) in [
            (used - 1, "limit_reached"),
            (used, "limit_reached"),
            (used + 1, "ok"),
        ] {
            let mut swarm = in_state(JobState::HaltedCost);
            let limits = NewLimits {
                cost_micros: Some(limit),
                ..NewLimits::default()
            };
            let again = Decision::Resubmit {
                guidance: None,
                limits,
            };
            assert_eq!(word(&swarm.run(decide(again))), expected, "{limit}");
        }
    }

    #[test]
    fn guidance_reaches_the_next_request_and_its_interaction() {
        let mut swarm = in_state(JobState::InterventionRequired);
        swarm.ok(decide(resubmit(None)));
        let ended = run(&mut swarm, JobAction::Completed);
        assert_eq!(
            ended.interaction.guidance.as_deref(),
            Some("try the other way")
        );
        let mut swarm = in_state(JobState::ApprovalRequired);
        let guidance = Some("not yet".to_owned());
        let rejected = swarm.ok(decide(Decision::Reject {
            guidance: guidance.clone(),
        }));
        assert_eq!((rejected.state, rejected.phase), (JobState::Pending, 1));
        assert_eq!(rejected.guidance, guidance);
    }

    #[test]
    fn a_malformed_action_is_replaced_as_if_the_agent_had_said_it() {
        // logist.escalate.action_clarified
        use JobAction::{Completed, Retry, Stuck};
        for (from, action, to, phase) in [
            (JobState::Running, Completed, JobState::ReviewRequired, 0),
            (JobState::Running, Retry, JobState::Pending, 0),
            (JobState::Running, Stuck, JobState::InterventionRequired, 0),
            (JobState::Reviewing, Completed, JobState::Pending, 1),
            (JobState::Reviewing, Retry, JobState::Pending, 0),
        ] {
            let mut swarm = in_state(from);
            end(&mut swarm, invalid());
            let job = swarm.ok(decide(Decision::Correct { action }));
            assert_eq!((job.state, job.phase), (to, phase), "{from} {action}");
            assert_eq!(entries(&swarm).pop().as_deref(), Some("corrected"));
            let guides = from == JobState::Reviewing && action == Retry;
            assert_eq!(job.guidance.is_some(), guides);
        }
        let mut swarm = in_state(JobState::InterventionRequired);
        let correct = decide(Decision::Correct { action: Completed });
        assert_eq!(
            word(&swarm.run(correct)),
            "nothing_to_correct",
            "it was valid"
        );
        assert_eq!(interactions(&swarm).len(), 1);
    }

    #[test]
    fn a_job_goes_back_to_a_recovery_point_and_keeps_its_sums() {
        // logist.recovery.restore, logist.recovery.resume_phase
        let mut swarm = in_state(JobState::ApprovalRequired);
        let sums = job(&swarm).sums;
        let back = |to: Option<&str>| {
            decide(Decision::GoBack {
                to: to.map(str::to_owned),
            })
        };
        assert_eq!(
            word(&swarm.run(back(Some("phase-9-complete")))),
            "checkpoint_not_found"
        );
        let after = swarm.ok(back(Some("phase-1-complete")));
        assert_eq!((after.state, after.phase), (JobState::Pending, 1));
        assert_eq!(after.restore.as_deref(), Some("phase-1-complete"));
        assert_eq!(after.sums, sums);
        run(&mut swarm, JobAction::Stuck);
        let last = swarm.ok(back(None));
        assert_eq!(
            (last.state, last.phase),
            (JobState::ApprovalRequired, 1),
            "the last one"
        );
        let mut swarm = in_state(JobState::InterventionRequired);
        let start = swarm.ok(back(None));
        assert_eq!(
            (start.state, start.phase, start.restore),
            (JobState::Pending, 0, None)
        );
    }

    #[test]
    fn a_rerun_begins_anew_from_a_phase() {
        for state in [
            JobState::Success,
            JobState::InterventionRequired,
            JobState::HaltedCost,
        ] {
            for (phase, expected) in [(0, "ok"), (1, "ok"), (2, "phase_not_found")] {
                let mut swarm = in_state(state);
                let outcome = swarm.run(decide(Decision::Rerun { phase }));
                assert_eq!(word(&outcome), expected, "{state} {phase}");
                if let Ok(job) = outcome {
                    assert_eq!((job.state, job.phase), (JobState::Pending, phase));
                    assert_eq!((job.sums, job.resume_to), (JobSums::default(), None));
                    assert_eq!(job.ended_at, None);
                }
            }
        }
    }

    #[test]
    fn a_rank_is_a_place_among_jobs_that_wait() {
        let order = |swarm: &crate::verb::testing::Swarm| {
            let rows = swarm
                .records
                .values()
                .filter_map(<Job as crate::record::Listed>::of);
            let mut jobs: Vec<&Job> = rows.collect();
            jobs.sort_by_key(|job| (job.rank, job.id.clone()));
            let ids: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
            ids.concat()
        };
        for (rank, expected) in [
            (None, "abcJ"),
            (Some(-1), "abcJ"),
            (Some(0), "Jabc"),
            (Some(1), "aJbc"),
            (Some(2), "abJc"),
            (Some(3), "abcJ"),
            (Some(99), "abcJ"),
            (Some(limits::JOB_RANK_MAX as i64 + 1), "abcJ"),
        ] {
            let mut swarm = crate::verb::testing::Swarm::new();
            for id in ["a", "b", "c", "J"] {
                swarm.ok(create(id));
                let rank = if id == "J" { rank } else { None };
                let activate = DecideJob {
                    job: id.into(),
                    ..decide(Decision::Activate { rank })
                };
                swarm.ok(activate);
            }
            assert_eq!(order(&swarm), expected, "{rank:?}");
        }
    }

    #[test]
    fn who_decided_and_why_is_in_the_history() {
        // logist.manifest.audit_trail, logist.flow.steward_halt
        let mut swarm = in_state(JobState::InterventionRequired);
        swarm.ok(DecideJob {
            actor: JobActor {
                why: Some("too dear".to_owned()),
                ..steward()
            },
            ..decide(Decision::Terminate)
        });
        assert_eq!(swarm.said(), ["job_moved"]);
        let entry: crate::job_history::JobEntry = row(&swarm, "J/2");
        assert_eq!(
            (entry.by.as_str(), entry.why.as_deref()),
            ("ann", Some("too dear"))
        );
        assert_eq!(entry.state_before, JobState::InterventionRequired);
        assert_eq!((entry.new_status, entry.after), (JobState::Canceled, 1));
        let next = begins(&swarm);
        assert_eq!(word(&swarm.run(next)), "job_state", "no further runs");
    }
}

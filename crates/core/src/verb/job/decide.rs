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
                turn.begin_anew();
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
                turn.begin_anew();
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
                forget_stop(turn);
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
    turn.begin_anew();
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
    forget_stop(turn);
    Ok(())
}

/// What it was kept from or interrupted in no longer counts.
fn forget_stop(turn: &mut Turn<'_>) {
    turn.job.resume_to = None;
    turn.job.suspended_in = None;
    turn.begin_anew();
}

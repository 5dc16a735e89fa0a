//! The table of a job's states: every (state, actor, act) is a transition, or a refusal by name.

use serde::{Deserialize, Serialize};

use super::refusal::JobRefusal;
use super::{JobAction, JobRole, JobSpec, JobState};
use crate::id::JobId;
use crate::refusal::Refusal;

words! {
    /// What is done to a job.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Act {
        Activate = "activate",
        Begin = "begin",
        Completed = "COMPLETED",
        Stuck = "STUCK",
        Retry = "RETRY",
        /// The agent did not reach its model; it is asked again.
        CallAgain = "call_again",
        /// What ran it is gone.
        Recover = "recover",
        Halt = "halt",
        Approve = "approve",
        Reject = "reject",
        Resubmit = "resubmit",
        Terminate = "terminate",
        Correct = "correct",
        Suspend = "suspend",
        Resume = "resume",
        Cancel = "cancel",
        /// To a recovery point.
        GoBack = "go_back",
        /// From a phase on, as if nothing had been used up.
        Rerun = "rerun",
    }
}

impl From<JobAction> for Act {
    fn from(action: JobAction) -> Act {
        match action {
            JobAction::Completed => Act::Completed,
            JobAction::Stuck => Act::Stuck,
            JobAction::Retry => Act::Retry,
        }
    }
}

/// Where an act leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    To(JobState),
    /// To the review, if there is one: else the phase is done.
    Review,
    /// To the next phase, or to what follows the last one.
    PhaseDone,
    /// To what it was kept from, or interrupted in.
    ResumeTo,
    /// To the state of the limit.
    Halted,
    /// As if the agent had said it.
    AsIfSaid,
    /// To the state of the recovery point.
    Point,
}

/// What of a job's shape decides where an action leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// A supervisor looks at what the worker did.
    pub has_supervisor: bool,
    pub is_last_phase: bool,
    pub needs_approval: bool,
}

/// A state, and whether the phase that was under way is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    pub state: JobState,
    pub is_phase_done: bool,
}

impl Setting {
    pub fn of(spec: &JobSpec, phase: usize) -> Setting {
        Setting {
            has_supervisor: spec.has_supervisor(),
            is_last_phase: phase + 1 >= spec.phases.len(),
            needs_approval: spec.needs_approval,
        }
    }

    /// What an agent's action does to a job that runs.
    pub fn lands(self, state: JobState, role: JobRole, act: Act) -> Option<Landed> {
        let to = |state| Landed {
            state,
            is_phase_done: false,
        };
        let done = Landed {
            state: match (self.is_last_phase, self.needs_approval) {
                (false, _) => JobState::Pending,
                (true, true) => JobState::ApprovalRequired,
                (true, false) => JobState::Success,
            },
            is_phase_done: true,
        };
        Some(match state.next(role, act)? {
            Next::To(state) => to(state),
            Next::Review if self.has_supervisor => to(JobState::ReviewRequired),
            Next::Review | Next::PhaseDone => done,
            Next::ResumeTo | Next::Halted | Next::AsIfSaid | Next::Point => return None,
        })
    }

    /// Where a run leads that began in this resting state, as replay works it out anew.
    pub fn replayed(self, state_before: JobState, role: JobRole, act: Act) -> Option<Landed> {
        match state_before.next(JobRole::System, Act::Begin)? {
            Next::To(running) => self.lands(running, role, act),
            Next::Review
            | Next::PhaseDone
            | Next::ResumeTo
            | Next::Halted
            | Next::AsIfSaid
            | Next::Point => None,
        }
    }
}

impl JobState {
    /// The table. Without an answer the act is refused.
    pub fn next(self, actor: JobRole, act: Act) -> Option<Next> {
        let to = |state| Some(Next::To(state));
        let is_steward = actor == JobRole::Steward;
        let is_system = actor == JobRole::System;
        let is_anybodys = is_steward || is_system;
        // Whoever's turn it is answers.
        let answers = match self {
            JobState::Running => actor == JobRole::Worker,
            JobState::Reviewing => actor == JobRole::Supervisor,
            _ => false,
        };
        let is_running = matches!(self, JobState::Running | JobState::Reviewing);
        let is_stopped = self == JobState::InterventionRequired || self.halt().is_some();
        match act {
            Act::Activate if is_system && self == JobState::Draft => to(JobState::Pending),
            Act::Begin if is_system && self == JobState::Pending => to(JobState::Running),
            Act::Begin if is_system && self == JobState::ReviewRequired => to(JobState::Reviewing),
            Act::Completed if answers && actor == JobRole::Worker => Some(Next::Review),
            Act::Completed if answers => Some(Next::PhaseDone),
            Act::Stuck if answers => to(JobState::InterventionRequired),
            Act::Retry if answers => to(JobState::Pending),
            Act::CallAgain if answers => to(self.resting()),
            Act::Recover if is_system && is_running => to(self.resting()),
            Act::Halt if is_system && self.can_halt() => Some(Next::Halted),
            Act::Approve if is_steward && self == JobState::ApprovalRequired => {
                to(JobState::Success)
            }
            Act::Reject if is_steward && self == JobState::ApprovalRequired => {
                to(JobState::Pending)
            }
            Act::Resubmit if is_steward && self.halt().is_some() => Some(Next::ResumeTo),
            Act::Resubmit if is_steward && is_stopped => to(JobState::Pending),
            Act::Terminate if is_steward && is_stopped => to(JobState::Canceled),
            Act::Correct if is_steward && self == JobState::InterventionRequired => {
                Some(Next::AsIfSaid)
            }
            Act::Suspend if is_anybodys && !self.is_terminal() && self != JobState::Suspended => {
                to(JobState::Suspended)
            }
            Act::Resume if is_anybodys && self == JobState::Suspended => Some(Next::ResumeTo),
            Act::Cancel if is_anybodys && !self.is_terminal() => to(JobState::Canceled),
            Act::GoBack if is_anybodys && !is_running && !self.is_terminal() => Some(Next::Point),
            Act::Rerun if is_anybodys && !is_running => to(JobState::Pending),
            Act::Activate
            | Act::Begin
            | Act::Completed
            | Act::Stuck
            | Act::Retry
            | Act::CallAgain
            | Act::Recover
            | Act::Halt
            | Act::Approve
            | Act::Reject
            | Act::Resubmit
            | Act::Terminate
            | Act::Correct
            | Act::Suspend
            | Act::Resume
            | Act::Cancel
            | Act::GoBack
            | Act::Rerun => None,
        }
    }

    /// The same, or the refusal that says why not.
    pub fn step(self, job: &JobId, actor: JobRole, act: Act) -> Result<Next, Refusal> {
        self.next(actor, act).ok_or_else(|| Refusal::Job {
            job: job.clone(),
            why: JobRefusal::State { state: self, act },
        })
    }

    /// Where it is while nobody works on it: what runs rests in the state that it began from.
    pub fn resting(self) -> JobState {
        match self {
            JobState::Running => JobState::Pending,
            JobState::Reviewing => JobState::ReviewRequired,
            JobState::Draft
            | JobState::Pending
            | JobState::ReviewRequired
            | JobState::ApprovalRequired
            | JobState::InterventionRequired
            | JobState::Suspended
            | JobState::HaltedCost
            | JobState::HaltedTime
            | JobState::HaltedIteration
            | JobState::Success
            | JobState::Canceled => self,
        }
    }

    fn can_halt(self) -> bool {
        matches!(
            self,
            JobState::Pending
                | JobState::ReviewRequired
                | JobState::ApprovalRequired
                | JobState::InterventionRequired
        )
    }
}

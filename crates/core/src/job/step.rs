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

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str = "DRAFT PENDING RUNNING REVIEW_REQUIRED REVIEWING APPROVAL_REQUIRED INTERVENTION_REQUIRED \
                        HALTED_COST HALTED_TIME HALTED_ITERATION";
    const HALTED: &str = "HALTED_COST HALTED_TIME HALTED_ITERATION";

    /// From, who, what, to. All else is refused.
    #[rustfmt::skip]
    const TABLE: &[(&str, &str, &str, &str)] = &[
        ("DRAFT", "System", "activate", "PENDING"),
        ("PENDING", "System", "begin", "RUNNING"),
        ("REVIEW_REQUIRED", "System", "begin", "REVIEWING"),
        ("RUNNING", "Worker", "COMPLETED", "review"),
        ("RUNNING", "Worker", "STUCK", "INTERVENTION_REQUIRED"),
        ("RUNNING", "Worker", "RETRY", "PENDING"),
        ("RUNNING", "Worker", "call_again", "PENDING"),
        ("REVIEWING", "Supervisor", "COMPLETED", "phase done"),
        ("REVIEWING", "Supervisor", "STUCK", "INTERVENTION_REQUIRED"),
        ("REVIEWING", "Supervisor", "RETRY", "PENDING"),
        ("REVIEWING", "Supervisor", "call_again", "REVIEW_REQUIRED"),
        ("RUNNING", "System", "recover", "PENDING"),
        ("REVIEWING", "System", "recover", "REVIEW_REQUIRED"),
        ("PENDING REVIEW_REQUIRED APPROVAL_REQUIRED INTERVENTION_REQUIRED", "System", "halt", "halted"),
        ("APPROVAL_REQUIRED", "Steward", "approve", "SUCCESS"),
        ("APPROVAL_REQUIRED", "Steward", "reject", "PENDING"),
        ("INTERVENTION_REQUIRED", "Steward", "resubmit", "PENDING"),
        (HALTED, "Steward", "resubmit", "resume to"),
        ("INTERVENTION_REQUIRED", "Steward", "terminate", "CANCELED"),
        (HALTED, "Steward", "terminate", "CANCELED"),
        ("INTERVENTION_REQUIRED", "Steward", "correct", "as if said"),
        (OPEN, "Steward System", "suspend", "SUSPENDED"),
        ("SUSPENDED", "Steward System", "resume", "resume to"),
        (OPEN, "Steward System", "cancel", "CANCELED"),
        ("SUSPENDED", "Steward System", "cancel", "CANCELED"),
        ("DRAFT PENDING REVIEW_REQUIRED APPROVAL_REQUIRED INTERVENTION_REQUIRED SUSPENDED", "Steward System", "go_back", "point"),
        (HALTED, "Steward System", "go_back", "point"),
        ("DRAFT PENDING REVIEW_REQUIRED APPROVAL_REQUIRED INTERVENTION_REQUIRED SUSPENDED", "Steward System", "rerun", "PENDING"),
        (HALTED, "Steward System", "rerun", "PENDING"),
        ("SUCCESS CANCELED", "Steward System", "rerun", "PENDING"),
    ];

    fn word(next: Next) -> String {
        match next {
            Next::To(state) => state.to_string(),
            Next::Review => "review".to_owned(),
            Next::PhaseDone => "phase done".to_owned(),
            Next::ResumeTo => "resume to".to_owned(),
            Next::Halted => "halted".to_owned(),
            Next::AsIfSaid => "as if said".to_owned(),
            Next::Point => "point".to_owned(),
        }
    }

    #[test]
    fn every_act_of_every_actor_in_every_state_is_a_transition_or_refused_by_name() {
        // logist.flow.completed_advances, logist.flow.stuck_pauses, logist.flow.retry_same_phase
        let mut found = 0;
        for state in JobState::ALL {
            for actor in JobRole::ALL {
                for act in Act::ALL {
                    let names =
                        |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
                    let mut row = TABLE.iter().filter(|(from, who, what, _)| {
                        names(from, state.as_str())
                            && names(who, actor.as_str())
                            && *what == act.as_str()
                    });
                    let expected = row.next().map(|(_, _, _, to)| (*to).to_owned());
                    assert!(row.next().is_none(), "{state} {actor} {act} is there twice");
                    found += usize::from(expected.is_some());
                    let got = state.next(*actor, *act).map(word);
                    assert_eq!(got, expected, "{state} {actor} {act}");
                    let refusal = state.step(&"J".into(), *actor, *act);
                    let why = JobRefusal::State {
                        state: *state,
                        act: *act,
                    };
                    let refused = Refusal::Job {
                        job: "J".into(),
                        why,
                    };
                    assert_eq!(refusal.is_err(), expected.is_none());
                    assert!(
                        refusal.is_ok() || refusal == Err(refused),
                        "{state} {actor} {act}"
                    );
                }
            }
        }
        assert_eq!(found, 112, "transitions");
    }

    #[test]
    fn what_follows_a_phase_that_is_done() {
        for (has_supervisor, is_last_phase, needs_approval, worker, supervisor) in [
            (
                true,
                false,
                true,
                JobState::ReviewRequired,
                JobState::Pending,
            ),
            (
                true,
                true,
                true,
                JobState::ReviewRequired,
                JobState::ApprovalRequired,
            ),
            (
                true,
                true,
                false,
                JobState::ReviewRequired,
                JobState::Success,
            ),
            (false, false, true, JobState::Pending, JobState::Pending),
            (
                false,
                true,
                true,
                JobState::ApprovalRequired,
                JobState::ApprovalRequired,
            ),
            (false, true, false, JobState::Success, JobState::Success),
        ] {
            let setting = Setting {
                has_supervisor,
                is_last_phase,
                needs_approval,
            };
            let lands = |state, role| {
                let landed = setting.replayed(state, role, Act::Completed);
                landed.map(|landed| landed.state)
            };
            assert_eq!(
                lands(JobState::Pending, JobRole::Worker),
                Some(worker),
                "{setting:?}"
            );
            let reviewed = lands(JobState::ReviewRequired, JobRole::Supervisor);
            assert_eq!(reviewed, Some(supervisor), "{setting:?}");
        }
        let nobodys = Setting::default().replayed(JobState::Draft, JobRole::Worker, Act::Completed);
        assert_eq!(nobodys, None);
    }
}

//! Why the rules say no to what is asked of a job.

use std::fmt;

use super::step::Act;
use super::{Halt, JobState};
use crate::id::TaskId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRefusal {
    NotFound,
    Exists,
    /// Its directory is this job's; the one that asks for it is another.
    DirectoryTaken,
    /// It is in a state in which this cannot be done.
    State {
        state: JobState,
        act: Act,
    },
    /// The run is not the one that is under way.
    NotThisRun {
        run: String,
    },
    /// Its phase is this task, for whoever claims it.
    IsQueued(TaskId),
    /// A limit is not above what was used already.
    LimitReached(Halt),
    CheckpointNotFound {
        checkpoint: String,
    },
    /// There is no phase of this number.
    PhaseNotFound {
        phase: usize,
        phases: usize,
    },
    /// Its last response does not wait to be corrected.
    NothingToCorrect,
}

impl JobRefusal {
    /// A stable word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            JobRefusal::NotFound => "job_not_found",
            JobRefusal::Exists => "job_already_exists",
            JobRefusal::DirectoryTaken => "directory_taken",
            JobRefusal::State { .. } => "job_state",
            JobRefusal::NotThisRun { .. } => "not_this_run",
            JobRefusal::IsQueued(_) => "job_is_queued",
            JobRefusal::LimitReached(_) => "limit_reached",
            JobRefusal::CheckpointNotFound { .. } => "checkpoint_not_found",
            JobRefusal::PhaseNotFound { .. } => "phase_not_found",
            JobRefusal::NothingToCorrect => "nothing_to_correct",
        }
    }
}

impl fmt::Display for JobRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobRefusal::NotFound => f.write_str("there is none; see 'switchboard job list'"),
            JobRefusal::Exists => f.write_str("it already exists; choose another id"),
            JobRefusal::DirectoryTaken => {
                f.write_str("the directory is this job's; choose another directory")
            }
            JobRefusal::State { state, act } => {
                write!(f, "it is {state}, {act} is not possible; {}", hint(*state))
            }
            JobRefusal::NotThisRun { run } => {
                write!(f, "run {run} is not under way; its outcome does not count")
            }
            JobRefusal::IsQueued(task) => {
                write!(f, "its phase is task {task}; claim that, or cancel it")
            }
            JobRefusal::LimitReached(limit) => write!(
                f,
                "its limit of {limit} is used up; resubmit it with a limit above what was used"
            ),
            JobRefusal::CheckpointNotFound { checkpoint } => write!(
                f,
                "it has no checkpoint {checkpoint:?} to resume from; see 'switchboard job history'"
            ),
            JobRefusal::PhaseNotFound { phase, phases } => write!(
                f,
                "it has no phase {phase}; its {phases} phases are counted from 0"
            ),
            JobRefusal::NothingToCorrect => {
                f.write_str("its last response was valid; resubmit it with guidance instead")
            }
        }
    }
}

/// What can be done instead.
fn hint(state: JobState) -> &'static str {
    match state {
        JobState::Draft => "activate it first",
        JobState::Pending | JobState::ReviewRequired => "its next run has not begun",
        JobState::Running | JobState::Reviewing => "an agent is at work; wait, or suspend it first",
        JobState::ApprovalRequired => "approve or reject it",
        JobState::InterventionRequired => "resubmit it, correct the response, or cancel it",
        JobState::Suspended => "resume it first",
        JobState::HaltedCost | JobState::HaltedTime | JobState::HaltedIteration => {
            "resubmit it with a higher limit, or cancel it"
        }
        JobState::Success | JobState::Canceled => "it is already in a terminal state",
    }
}

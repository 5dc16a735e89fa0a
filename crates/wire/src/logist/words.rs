//! The states of a job by their words: the old program's are read, the document's nine are written where somebody asks.

use switchboard_core::job::JobState;

use crate::Malformed;

/// A state by any name that it has or had.
pub fn state(field: &str, word: &str) -> Result<JobState, Malformed> {
    let old = match word {
        "PAUSED" => Some(JobState::Suspended),
        "FAILED" => Some(JobState::Canceled),
        "PROVISIONING" | "EXECUTING" | "RECOVERING" | "HARVESTING" => {
            Some(JobState::InterventionRequired)
        }
        _ => None,
    };
    JobState::parse(word).or(old).ok_or_else(|| {
        let wanted = format!(
            "expected one of {}, not {word:?}",
            JobState::WORDS.join(", ")
        );
        Malformed::field(field, wanted)
    })
}

/// The nearest of the document's nine words.
pub fn strict(state: JobState) -> JobState {
    match state {
        JobState::ReviewRequired => JobState::Reviewing,
        JobState::ApprovalRequired | JobState::HaltedIteration => JobState::InterventionRequired,
        JobState::Suspended => JobState::Pending,
        JobState::Draft
        | JobState::Pending
        | JobState::Running
        | JobState::Reviewing
        | JobState::InterventionRequired
        | JobState::HaltedCost
        | JobState::HaltedTime
        | JobState::Success
        | JobState::Canceled => state,
    }
}

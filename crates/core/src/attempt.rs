//! One row of history per claim of a task, written when the claim ends.

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::id::{AgentId, TaskId};
use crate::task::{FailureKind, Progress, Task};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub task: TaskId,
    pub number: u64,
    pub epoch: u64,
    pub agent: AgentId,
    pub claimed_at: Timestamp,
    pub ended_at: Timestamp,
    pub progress: Option<Progress>,
    pub outcome: Outcome,
    pub failure: Option<FailureKind>,
    pub message: Option<String>,
    pub details: Option<String>,
    pub suggested_action: Option<String>,
    /// What was run to show that it is done.
    pub evidence: Vec<Evidence>,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Outcome {
        Completed = "completed",
        NeedsPerson = "needs_review",
        Failed = "failed",
        Crashed = "crashed",
        Released = "released",
        HandedOver = "handed_over",
        Canceled = "canceled",
    }
}

impl Attempt {
    /// The attempt that ends now, or `None` if nobody holds the task.
    pub fn end(task: &Task, outcome: Outcome, now: Timestamp) -> Option<Attempt> {
        Some(Attempt {
            task: task.id.clone(),
            number: task.number,
            epoch: task.epoch,
            agent: task.holder()?.clone(),
            claimed_at: task.claimed_at()?,
            ended_at: now,
            progress: task.progress.clone(),
            outcome,
            failure: None,
            message: None,
            details: None,
            suggested_action: None,
            evidence: Vec::new(),
        })
    }
}

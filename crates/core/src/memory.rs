//! What agents learned and want others to find.

use crate::id::{AgentId, LearningId, TaskId};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learning {
    pub id: LearningId,
    pub text: String,
    pub task: Option<TaskId>,
    pub agent: Option<AgentId>,
    pub created_at: Timestamp,
}

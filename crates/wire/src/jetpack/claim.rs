//! CLAIM: one task, taken by one agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NoTaskReason, Paused, Priority, Task, TaskType};
use crate::object::optional;
use crate::query::query;
use crate::time::IsoTime;

/// CLAIM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRequest {
    pub agent_id: String,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub filter: Option<ClaimFilter>,
    /// Seconds to wait for a matching task, 0 to 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<u32>,
    /// Claim only this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

/// Restricts what an agent takes; an empty list does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimFilter {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<Priority>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TaskType>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude_ids: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_minutes: Option<u32>,
}

/// The response to CLAIM: a task, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimResponse {
    pub success: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<NoTaskReason>,
    /// There is a task that this agent failed before: until this time others come first, while one of them is idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_first_until: Option<IsoTime>,
    /// Work is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

query! {
    /// `POST /tasks/claim`.
    pub struct WaitQuery {
        "wait" => wait: Option<u32>, "Seconds to wait, 0 to 60.";
    }
}

//! PROGRESS, COMPLETE and FAIL: what the holder of a task says about it. Over HTTP the path names the task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EvidenceSource, FailureType, NextAction, Progress, Regression, TaskStatus};
use crate::object::{object, optional};
use crate::other::Other;

/// PROGRESS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressRequest {
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(deserialize_with = "object")]
    pub progress: Progress,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// The response to PROGRESS; `continue: false` tells the agent to stop working on the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressResponse {
    pub success: bool,
    #[serde(rename = "continue")]
    pub go_on: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// COMPLETE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompleteRequest {
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(deserialize_with = "object")]
    pub result: TaskResult,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub quality_metrics: Option<QualityMetrics>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Commands that were run to show that it is done; kept with the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// A command that was run to show that a task is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    pub command: String,
    pub exit_code: i32,
    pub duration_ms: u64,
    /// Of the tree that it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    pub source: EvidenceSource,
}

/// The result of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    pub files_created: Vec<String>,
    pub files_modified: Vec<String>,
    pub files_deleted: Vec<String>,
    pub summary: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learnings: Vec<String>,
    /// Whatever else an agent reports; kept and shown.
    #[serde(flatten)]
    pub other: Other,
}

impl TaskResult {
    /// Its own members, by name.
    pub const MEMBERS: [&str; 5] = [
        "filesCreated",
        "filesModified",
        "filesDeleted",
        "summary",
        "learnings",
    ];
}

/// What the agent measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QualityMetrics {
    pub tests_ran: u32,
    pub tests_passed: u32,
    pub lint_errors: u32,
    pub type_errors: u32,
    pub build_success: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lint_warnings: Option<u32>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "crate::number::plain_opt"
    )]
    pub test_coverage: Option<f64>,
}

/// The response to COMPLETE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompleteResponse {
    pub success: bool,
    pub quality_gate_passed: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regressions: Vec<Regression>,
    pub next_action: NextAction,
    pub status: TaskStatus,
}

/// FAIL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailRequest {
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(deserialize_with = "object")]
    pub failure: Failure,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    #[serde(rename = "type")]
    pub kind: FailureType,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Whether another agent may try.
    pub recoverable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_action: Option<String>,
    /// False if it was not for the task, such as a usage limit: `retryCount` stays. Only of a recoverable failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spends_retry: Option<bool>,
}

/// The response to FAIL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailResponse {
    pub success: bool,
    pub will_retry: bool,
    /// Milliseconds until the retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    pub status: TaskStatus,
}

//! What went wrong on a worker, and what it thinks should follow.

use serde::{Deserialize, Serialize};
use switchboard_core::{FailureKind, limits};

use super::{MessageType, Payload};
use crate::agentbus::check::{self, Checked};
use crate::agentbus::words::{self, Stage};
use crate::object::object;

/// `worker_error.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerError {
    #[serde(deserialize_with = "object")]
    pub error: ErrorReport,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

/// One failure; a second report with the same `error_id` is the same failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReport {
    pub error_id: String,
    pub worker_id: String,
    pub issue_number: u64,
    pub stage: Stage,
    pub attempt: u32,
    /// One of [`words::ErrorType`], or any other word.
    pub error_type: String,
    pub is_transient: bool,
    pub should_retry: bool,
    pub escalate_to_human: bool,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_stdout_tail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_stderr_tail: Option<String>,
    /// How long whoever refused the worker asked it to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

impl ErrorReport {
    /// The class of failure it counts as.
    pub fn failure_kind(&self) -> FailureKind {
        words::failure_kind(&self.error_type)
    }

    /// What a person can do about it.
    pub fn remedy(&self) -> &'static str {
        words::remedy(&self.error_type)
    }
}

impl Payload for WorkerError {
    const TYPE: MessageType = MessageType::WorkerError;

    /// Its texts may be of any length: they are cut where they are kept.
    fn check(&self) -> Checked {
        let error = &self.error;
        check::id("error.error_id", &error.error_id)?;
        check::id("error.worker_id", &error.worker_id)?;
        check::number("error.issue_number", error.issue_number)?;
        check::filled(
            "error.error_type",
            &error.error_type,
            limits::NAME_BYTES_MAX,
        )?;
        check::word("error.error_type", &error.error_type)?;
        check::maybe_word("error.container_id", error.container_id.as_deref())?;
        check::maybe_text(
            "error.worktree_path",
            error.worktree_path.as_deref(),
            limits::PATH_BYTES_MAX,
        )?;
        check::seconds("error.retry_after_seconds", error.retry_after_seconds)?;
        check::maybe_id("corr_id", self.corr_id.as_deref())
    }
}

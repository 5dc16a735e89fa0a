//! Work over the bus: given, taken, refused, finished, taken away.

use serde::{Deserialize, Serialize};
use switchboard_core::{Metrics, limits};

use super::{MessageType, Payload, is_zero};
use crate::agentbus::check::{self, Checked};
use crate::agentbus::parts;
use crate::agentbus::utc::UtcTime;
use crate::object::{object, optional};
use crate::other::Other;
use crate::{Malformed, number, other};

/// `task_assigned.v1`: a task for an idle worker; one that fits no line is cut into parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskAssigned {
    pub issue_number: u64,
    pub task_id: String,
    /// Which claim of the task this is; an older one no longer counts.
    pub epoch: u64,
    pub attempt: u32,
    pub title: String,
    pub description: String,
    pub files: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<UtcTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
    /// The worker accepted it on an earlier connection and holds it still, under the same epoch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// How many secrets were taken out of its texts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redacted: u32,
    /// Counted from 1; 0 in one piece.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
    #[serde(default = "parts::only", skip_serializing_if = "parts::is_only")]
    pub parts: u32,
}

impl Payload for TaskAssigned {
    const TYPE: MessageType = MessageType::TaskAssigned;

    fn check(&self) -> Checked {
        check::number("issue_number", self.issue_number)?;
        check::id("task_id", &self.task_id)?;
        check::text("title", &self.title, limits::TITLE_BYTES_MAX)?;
        check::text(
            "description",
            &self.description,
            limits::DESCRIPTION_BYTES_MAX,
        )?;
        check::files("files", &self.files)?;
        check::maybe_id("corr_id", self.corr_id.as_deref())?;
        check::part(self.part.max(1), self.parts)
    }
}

/// `task_accepted.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAccepted {
    pub issue_number: u64,
    pub epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

impl Payload for TaskAccepted {
    const TYPE: MessageType = MessageType::TaskAccepted;

    fn check(&self) -> Checked {
        check::number("issue_number", self.issue_number)?;
        check::number("epoch", self.epoch)?;
        check::maybe_id("corr_id", self.corr_id.as_deref())
    }
}

/// `task_declined.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDeclined {
    pub issue_number: u64,
    pub epoch: u64,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

impl Payload for TaskDeclined {
    const TYPE: MessageType = MessageType::TaskDeclined;

    fn check(&self) -> Checked {
        check::number("issue_number", self.issue_number)?;
        check::number("epoch", self.epoch)?;
        check::text("reason", &self.reason, limits::NOTE_BYTES_MAX)?;
        check::maybe_id("corr_id", self.corr_id.as_deref())
    }
}

/// `task_revoked.v1`: the worker holds it no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRevoked {
    pub issue_number: u64,
    pub epoch: u64,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

impl Payload for TaskRevoked {
    const TYPE: MessageType = MessageType::TaskRevoked;

    fn check(&self) -> Checked {
        check::number("issue_number", self.issue_number)?;
        check::number("epoch", self.epoch)?;
        check::text("reason", &self.reason, limits::NOTE_BYTES_MAX)?;
        check::maybe_id("corr_id", self.corr_id.as_deref())
    }
}

/// `task_result.v1`: the task is done, with everything there is to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    pub issue_number: u64,
    pub epoch: u64,
    #[serde(deserialize_with = "object")]
    pub result: Accomplished,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub quality: Option<Quality>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

/// `task_result_ack.v1`: whether a result counts; the same result gets the same answer, however often it is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResultAck {
    pub issue_number: u64,
    pub epoch: u64,
    pub accepted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

impl Payload for TaskResultAck {
    const TYPE: MessageType = MessageType::TaskResultAck;

    fn check(&self) -> Checked {
        check::number("issue_number", self.issue_number)?;
        check::number("epoch", self.epoch)?;
        check::maybe_text("reason", self.reason.as_deref(), limits::NOTE_BYTES_MAX)?;
        check::maybe_id("corr_id", self.corr_id.as_deref())
    }
}

/// The result of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accomplished {
    pub summary: String,
    pub files_created: Vec<String>,
    pub files_modified: Vec<String>,
    pub files_deleted: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub learnings: Vec<String>,
    /// Whatever else a worker reports; kept and shown.
    #[serde(flatten)]
    pub other: Other,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    pub tests_ran: u32,
    pub tests_passed: u32,
    pub lint_errors: u32,
    pub type_errors: u32,
    pub build_success: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lint_warnings: Option<u32>,
    /// Percent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "number::plain_opt"
    )]
    pub test_coverage: Option<f64>,
}

impl Accomplished {
    /// As the ledger keeps results: the words of the HTTP interface.
    pub fn to_ledger(&self) -> Box<str> {
        let mut other = self.other.clone();
        other.retain(|name, _| !crate::jetpack::TaskResult::MEMBERS.contains(&name.as_str()));
        let kept = crate::jetpack::TaskResult {
            files_created: self.files_created.clone(),
            files_modified: self.files_modified.clone(),
            files_deleted: self.files_deleted.clone(),
            summary: self.summary.clone(),
            learnings: self.learnings.clone(),
            other,
        };
        serde_json::to_string(&kept)
            .expect("a result is made of strings")
            .into()
    }
}

impl Quality {
    /// The figures by which the gate judges.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            build_success: self.build_success,
            type_errors: self.type_errors,
            lint_errors: self.lint_errors,
            lint_warnings: self.lint_warnings.unwrap_or(0),
            tests_passing: self.tests_passed,
            tests_failing: self.tests_ran.saturating_sub(self.tests_passed),
            test_coverage: self.test_coverage,
        }
    }
}

impl Payload for TaskResult {
    const TYPE: MessageType = MessageType::TaskResult;

    fn check(&self) -> Checked {
        check::number("issue_number", self.issue_number)?;
        check::number("epoch", self.epoch)?;
        check::maybe_id("corr_id", self.corr_id.as_deref())?;
        let result = &self.result;
        check::text("result.summary", &result.summary, limits::NOTE_BYTES_MAX)?;
        check::files("result.files_created", &result.files_created)?;
        check::files("result.files_modified", &result.files_modified)?;
        check::files("result.files_deleted", &result.files_deleted)?;
        check::each(
            "result.learnings",
            &result.learnings,
            limits::LEARNINGS_PER_TASK_MAX,
            |place, learning| check::filled(place, learning, limits::NOTE_BYTES_MAX),
        )?;
        other::check("result", &result.other)?;
        let Some(quality) = &self.quality else {
            return Ok(());
        };
        if quality.tests_passed > quality.tests_ran {
            return Err(Malformed::field(
                "quality.tests_passed",
                "must be at most tests_ran",
            ));
        }
        check::percent(
            "quality.test_coverage",
            quality.test_coverage.unwrap_or(0.0),
        )
    }
}

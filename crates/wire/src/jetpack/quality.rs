//! Quality: the baseline, what was measured, and what got worse.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Severity;
use crate::number;
use crate::query::query;
use crate::{IsoTime, Malformed, parse};

/// One metric that got worse than the baseline. A build counts as 1 when it succeeds and 0 when not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Regression {
    pub metric: String,
    #[serde(serialize_with = "number::plain")]
    pub baseline: f64,
    #[serde(serialize_with = "number::plain")]
    pub current: f64,
    #[serde(serialize_with = "number::plain")]
    pub delta: f64,
    pub severity: Severity,
}

/// `PUT /quality/baseline`: figures, or those of a task's snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(transform = tell_apart)]
pub enum BaselineRequest {
    FromTask {
        #[serde(rename = "fromTask")]
        from_task: String,
    },
    Figures(NewBaseline),
}

/// What has `fromTask` is that, whatever else it has.
fn tell_apart(schema: &mut Schema) {
    if let Some(forms) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        for form in forms.iter_mut().skip(1) {
            form["properties"] = json!({ "fromTask": { "type": "null" } });
        }
    }
}

impl BaselineRequest {
    /// Reads either form; a member `fromTask` makes it the first.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Probe {
            from_task: Option<String>,
        }

        match parse::<Probe>(bytes)?.from_task {
            Some(from_task) => Ok(Self::FromTask { from_task }),
            None => parse(bytes).map(Self::Figures),
        }
    }
}

/// Figures to compare later completions with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewBaseline {
    pub build_success: bool,
    pub type_errors: u32,
    pub lint_errors: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lint_warnings: Option<u32>,
    pub tests_passing: u32,
    pub tests_failing: u32,
    /// Percent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "number::plain_opt"
    )]
    pub test_coverage: Option<f64>,
}

/// The current baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Baseline {
    pub build_success: bool,
    pub type_errors: u32,
    pub lint_errors: u32,
    pub lint_warnings: u32,
    pub tests_passing: u32,
    pub tests_failing: u32,
    #[serde(serialize_with = "number::plain_opt")]
    pub test_coverage: Option<f64>,
    pub set_by: Option<String>,
    pub created_at: IsoTime,
    pub updated_at: IsoTime,
}

/// `GET` and `PUT /quality/baseline`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineResponse {
    pub success: bool,
    pub baseline: Option<Baseline>,
}

/// What one completion measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub id: String,
    pub task_id: Option<String>,
    pub agent_id: Option<String>,
    pub build_success: bool,
    pub type_errors: u32,
    pub lint_errors: u32,
    pub lint_warnings: u32,
    pub tests_passing: u32,
    pub tests_failing: u32,
    #[serde(serialize_with = "number::plain_opt")]
    pub test_coverage: Option<f64>,
    pub recorded_at: IsoTime,
}

/// `GET /quality/history`, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotPage {
    pub success: bool,
    pub snapshots: Vec<Snapshot>,
    pub next: Option<String>,
}

query! {
    /// `GET /quality/history`.
    pub struct SnapshotQuery {
        "taskId" => task_id: Option<String>, "Only snapshots of this task.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the previous page.";
    }
}

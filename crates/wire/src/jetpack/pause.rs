//! Pause and resume: no new work for anybody, through whatever door.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::IsoTime;

/// `POST /pause`; without an end it lasts until somebody resumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = one_end)]
pub struct PauseRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it ends automatically, at most 30 days ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<IsoTime>,
    /// The same as a duration; give only one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<u64>,
}

fn one_end(schema: &mut Schema) {
    let without = |member: &str| json!({ "properties": { member: { "type": "null" } } });
    let forms = json!([without("until"), without("forSeconds")]);
    schema.insert("anyOf".to_owned(), forms);
}

/// `POST /resume`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Who paused, why, and until when; `null` means until somebody resumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Paused {
    pub by: String,
    pub why: String,
    pub until: Option<IsoTime>,
}

/// The pause that applies now; `null` for none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseResponse {
    pub success: bool,
    pub paused: Option<Paused>,
}

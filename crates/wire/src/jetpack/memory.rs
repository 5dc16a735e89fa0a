//! Memory: what agents learned, and full-text search over it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::IsoTime;
use crate::query::query;

/// One thing an agent learned while completing a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Learning {
    pub id: String,
    pub text: String,
    pub task_id: Option<String>,
    pub agent_id: Option<String>,
    pub created_at: IsoTime,
}

/// `GET /memory/search`, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LearningsResponse {
    pub success: bool,
    pub learnings: Vec<Learning>,
}

query! {
    /// `GET /memory/search`.
    pub struct MemoryQuery {
        "q" => q: Option<String>, "Words to look for.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
    }
}

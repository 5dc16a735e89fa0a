//! Memory: what agents learned, what engrams tell and what was claimed, and full-text search over all of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Claim;
use crate::IsoTime;
use crate::query::query;
use crate::words::words;

words! {
    /// What was found.
    pub enum MemoryKind {
        Learning = "learning",
        Engram = "engram",
        Claim = "claim",
    }
}

/// One thing an agent learned while completing a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Learning {
    #[serde(default = "MemoryKind::learning")]
    pub kind: MemoryKind,
    pub id: String,
    pub text: String,
    pub task_id: Option<String>,
    pub agent_id: Option<String>,
    pub created_at: IsoTime,
}

/// An engram that was found, with the matching lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngramFound {
    pub kind: MemoryKind,
    pub id: String,
    /// `st` or `lt`.
    pub scope: String,
    pub version: String,
    /// Its file, relative to the project.
    pub path: String,
    pub topics: Vec<String>,
    /// Its first lines that contain one of the words.
    pub lines: Vec<String>,
    pub created_at: IsoTime,
}

/// `GET /memory/search`, the best of each kind first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LearningsResponse {
    pub success: bool,
    pub learnings: Vec<Learning>,
    #[serde(default)]
    pub engrams: Vec<EngramFound>,
    #[serde(default)]
    pub claims: Vec<Claim>,
}

impl MemoryKind {
    fn learning() -> MemoryKind {
        MemoryKind::Learning
    }
}

query! {
    /// `GET /memory/search`.
    pub struct MemoryQuery {
        "q" => q: Option<String>, "Words to look for.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
    }
}

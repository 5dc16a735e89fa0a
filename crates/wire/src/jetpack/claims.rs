//! Claims: what was said to be decided, to be done, found or blocked; and the journal of what was said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClaimStatus, ClaimType, MemoryKind};
use crate::IsoTime;
use crate::query::query;

/// A line `DECISION: …`, `TASK: …`, `FINDING: …` or `BLOCKER: …` of a message between roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// `claim`.
    pub kind: MemoryKind,
    /// Its number.
    pub id: u64,
    #[serde(rename = "type")]
    pub claim_type: ClaimType,
    pub text: String,
    pub status: ClaimStatus,
    /// Whether somebody has yet to look after it.
    pub unresolved: bool,
    /// Who said it.
    pub by: String,
    pub message_id: String,
    pub created_at: IsoTime,
    /// Who set the status last; `null` while nobody has.
    pub judged: Option<ClaimJudged>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimJudged {
    pub by: String,
    pub why: String,
    pub at: IsoTime,
}

/// `POST /claims/:id/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimStatusRequest {
    /// Who sets it.
    pub agent_id: String,
    pub status: ClaimStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `GET /claims`, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimPage {
    pub success: bool,
    pub claims: Vec<Claim>,
    pub next: Option<String>,
}

/// A claim, after a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimJudgedResponse {
    pub success: bool,
    pub claim: Claim,
}

query! {
    /// `GET /claims`.
    pub struct ClaimQuery {
        "status" => status: Vec<ClaimStatus>, "Only these.";
        "type" => claim_type: Vec<ClaimType>, "Only these.";
        "by" => by: Option<String>, "Only what this role said.";
        "unresolved" => unresolved: Option<bool>, "Only what somebody has yet to look after.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the previous page.";
    }
}

/// A message as the journal has it; other programs write there too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    pub message_id: String,
    pub session_id: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub channel: Option<String>,
    pub at: Option<IsoTime>,
    /// `recorded`, `brokered`, `routed`, `acked` or `failed`.
    pub status: Option<String>,
    pub ack_status: Option<String>,
    pub error_code: Option<String>,
    /// The first 4096 characters.
    pub text: Option<String>,
}

/// `GET /journal`, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JournalResponse {
    pub success: bool,
    pub messages: Vec<JournalEntry>,
}

query! {
    /// `GET /journal`.
    pub struct JournalQuery {
        "role" => role: Option<String>, "Only from or to this role.";
        "failed" => failed: Option<bool>, "Only messages that were refused or could not be delivered.";
        "limit" => limit: Option<u32>, "How many, at most 1000.";
    }
}

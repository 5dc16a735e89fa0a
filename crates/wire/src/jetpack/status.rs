//! `GET /status`: the hub at a glance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Baseline, Paused};
use crate::IsoTime;
use crate::query::query;

/// `GET /status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusResponse {
    pub success: bool,
    pub version: String,
    pub started_at: IsoTime,
    pub now: IsoTime,
    /// How far the clock of the hub's machine, or of its database, is ahead of `now`; negative if it is behind.
    #[serde(default)]
    pub clock_ahead_ms: i64,
    /// The engine, such as `sqlite`.
    pub store: String,
    pub tasks: TaskCounts,
    pub agents: AgentCounts,
    /// Live leases.
    pub leases: u64,
    pub messages: MessageCounts,
    pub events: EventRange,
    pub idempotency: IdempotencyUse,
    pub queue: QueueUse,
    pub baseline: Option<Baseline>,
    /// Open incidents.
    #[serde(default)]
    pub incidents: u64,
    /// Work is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// What a person should fix, such as a program that blocks checkpoints of the write-ahead log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Tasks by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskCounts {
    pub total: u64,
    pub pending: u64,
    pub ready: u64,
    pub claimed: u64,
    pub in_progress: u64,
    pub completed: u64,
    pub failed: u64,
    pub pending_retry: u64,
    pub blocked: u64,
    pub needs_review: u64,
    pub canceled: u64,
}

/// Agents by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCounts {
    pub idle: u64,
    pub busy: u64,
    pub error: u64,
    pub offline: u64,
    pub shutting_down: u64,
}

/// Queued messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageCounts {
    pub queued: u64,
}

/// Which part of the log is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRange {
    pub latest: u64,
    pub oldest: u64,
}

/// How full the store of idempotency keys is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdempotencyUse {
    pub rows: u64,
    pub bytes: u64,
    /// How long a key is stored; less than 24 if the size limit was reached.
    #[serde(serialize_with = "crate::number::plain")]
    pub window_hours: f64,
}

/// The sequencer's queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueUse {
    pub waiting: u64,
    pub capacity: u64,
}

/// `GET /proof`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofResponse {
    pub success: bool,
    /// HMAC-SHA256 over the nonce and the called address, with a key derived from the master key.
    pub proof: String,
}

query! {
    /// `GET /proof`.
    pub struct ProofQuery {
        "nonce" => nonce: Option<String>, "32 to 128 hexadecimal digits, random for each call.";
    }
}

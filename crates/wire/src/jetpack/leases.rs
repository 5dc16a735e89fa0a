//! File leases: who may write what, until when.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::IsoTime;
use crate::query::query;

/// ACQUIRE_LEASE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_task)]
pub struct AcquireLeaseRequest {
    pub agent_id: String,
    /// Present; `null` for a lease without a task.
    #[serde(deserialize_with = "Option::deserialize")]
    pub task_id: Option<String>,
    pub file_path: String,
    /// Above zero; more than an hour counts as an hour.
    pub duration_ms: i64,
}

/// The schema of an `Option` says "may be absent"; here it only may be `null`.
fn require_task(schema: &mut Schema) {
    if let Some(serde_json::Value::Array(required)) = schema.get_mut("required") {
        required.push("taskId".into());
    }
}

/// The answer to ACQUIRE_LEASE and to an extension: the lease, or who holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcquireLeaseResponse {
    pub success: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<GrantedLease>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<IsoTime>,
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantedLease {
    /// Normalised, relative to the project.
    pub file_path: String,
    pub expires_at: IsoTime,
    pub fencing_token: u64,
}

/// `POST /leases/extend`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtendLeaseRequest {
    pub agent_id: String,
    pub file_path: String,
    pub duration_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
}

/// RELEASE_LEASE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseLeaseRequest {
    pub agent_id: String,
    pub file_path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
}

/// The answer to RELEASE_LEASE; releasing what nobody holds succeeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseLeaseResponse {
    pub success: bool,
    pub released: bool,
}

/// A lease as the hub shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    pub file_path: String,
    pub agent_id: String,
    pub task_id: Option<String>,
    pub acquired_at: IsoTime,
    pub expires_at: IsoTime,
    pub renewed_count: u32,
    pub fencing_token: u64,
}

/// `GET /leases`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeasePage {
    pub success: bool,
    pub leases: Vec<Lease>,
    pub next: Option<String>,
}

/// `GET /leases/check`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckLeaseResponse {
    pub success: bool,
    pub free: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<IsoTime>,
    /// The path of the lease that stands in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
}

query! {
    /// `GET /leases`.
    pub struct LeaseQuery {
        "agentId" => agent_id: Option<String>, "Only leases of this agent.";
        "taskId" => task_id: Option<String>, "Only leases taken under this task.";
        "under" => under: Option<String>, "Only leases at or below this path.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the page before.";
    }
}

query! {
    /// `GET /leases/check`.
    pub struct CheckLeaseQuery {
        "filePath" => file_path: Option<String>, "The path or glob in question.";
        "agentId" => agent_id: Option<String>, "The agent that asks; its own leases do not count.";
    }
}

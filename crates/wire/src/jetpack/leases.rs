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
    /// Required; `null` for a lease without a task.
    #[serde(deserialize_with = "Option::deserialize")]
    pub task_id: Option<String>,
    /// Of the claim of that task; required after `resume`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    pub file_path: String,
    /// Above zero; capped at one hour.
    pub duration_ms: i64,
}

/// The schema of an `Option` says "may be absent"; here it only may be `null`.
fn require_task(schema: &mut Schema) {
    if let Some(serde_json::Value::Array(required)) = schema.get_mut("required") {
        required.push("taskId".into());
    }
}

/// The response to ACQUIRE_LEASE and to an extension: the lease, or its holder.
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

/// The response to RELEASE_LEASE; releasing a path without a lease succeeds.
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
    /// The path of the conflicting lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
}

query! {
    /// `GET /leases`.
    pub struct LeaseQuery {
        "agentId" => agent_id: Option<String>, "Only leases of this agent.";
        "taskId" => task_id: Option<String>, "Only leases taken for this task.";
        "under" => under: Option<String>, "Only leases on this path or below it.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the previous page.";
    }
}

query! {
    /// `GET /leases/check`.
    pub struct CheckLeaseQuery {
        "filePath" => file_path: Option<String>, "The path or glob to check.";
        "agentId" => agent_id: Option<String>, "The asking agent; its own leases are not conflicts.";
    }
}

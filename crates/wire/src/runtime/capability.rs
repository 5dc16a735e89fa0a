//! Capabilities: what is published, what all nodes know of it, what its gates said, and what is to be reviewed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::query::query;
use crate::words::words;
use crate::{IsoTime, Json};

words! {
    pub enum CapabilityStatus {
        Publishing = "publishing",
        Active = "active",
        Disabled = "disabled",
        Retired = "retired",
    }
}

/// The record at `capabilities.catalog.<capabilityId>`, and with it the manifest that is published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapabilityRecord {
    /// `cap.` and lower-case letters, digits, `.`, `_` and `-`.
    pub capability_id: String,
    pub name: String,
    /// As semver has it; never lower than before.
    pub version: String,
    /// The node says it; of a manifest it is passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<CapabilityStatus>,
    pub owner_agent_id: String,
    /// If absent, the node where it is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_node_id: Option<String>,
    pub delegation_skill_ref: SkillRefRecord,
    pub executor_skill_ref: SkillRefRecord,
    /// `schema://…`: what results are checked against. If absent, and without `contractSchema`, they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_schema_ref: Option<String>,
    /// The schema itself, at most 64 KiB.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub contract_schema: Json,
    /// 30 to 86400.
    pub default_eta_seconds: u32,
    /// Who else may do it, of any node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eligible_agent_ids: Vec<String>,
    /// Nodes that do it while the owner's is away, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_node_ids: Vec<String>,
    /// The node says it; of a manifest it is passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_at: Option<IsoTime>,
    /// If absent, the steward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_by_agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<ProvenanceRecord>,
}

/// A skill of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SkillRefRecord {
    pub name: String,
    pub version: String,
    /// Shown, never opened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
}

/// Where a manifest comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvenanceRecord {
    /// `sha256:` and the hash of the manifest with this and `manifestSignature` empty, its keys sorted, as compact JSON.
    pub manifest_checksum: String,
    /// `ed25519:` and, in Base64, the signature of the same bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_signature: Option<String>,
    /// The publisher, as `[runtime.publishers]` names its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
}

/// The record at `capabilities.index.<capabilityId>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IndexRecord {
    pub capability_id: String,
    pub eligible_agent_ids: Vec<String>,
    pub policy_version: String,
    pub updated_at: IsoTime,
    /// The same by the node that they are at; if absent, they are at the one that says it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub eligible_by_node: BTreeMap<String, Vec<String>>,
}

/// The record at `capabilities.routing.<capabilityId>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutingRecord {
    pub owner_node_id: String,
    #[serde(default)]
    pub fallback_node_ids: Vec<String>,
    #[serde(default)]
    pub requires_capabilities: Vec<String>,
    pub policy_version: String,
}

/// What a gate said of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateRecord {
    /// authorisation, schema, provenance, owner_alive, install, wire, smoke, rollout, index_activation, post_check.
    pub gate: String,
    /// passed, failed, skipped.
    pub outcome: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// One version, where it was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseRecord {
    pub version: String,
    /// publishing, published, failed.
    pub state: String,
    pub at: IsoTime,
    pub by: String,
    pub gates: Vec<GateRecord>,
}

/// All that this node knows of a capability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapabilityDetails {
    pub catalog: CapabilityRecord,
    pub index: IndexRecord,
    pub routing: RoutingRecord,
    /// The node that its last task went to from here.
    pub acting_node_id: String,
}

/// `POST /runtime/v1/capabilities` and `DELETE …/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilityResponse {
    pub capability: CapabilityDetails,
    /// Of the version that was published; absent if it was in use before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateRecord>,
}

/// `GET /runtime/v1/capabilities/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilityShown {
    /// Absent if no version of it was ever in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<CapabilityDetails>,
    /// Those that were published here, newest first.
    pub releases: Vec<ReleaseRecord>,
}

/// `GET /runtime/v1/capabilities`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilitiesResponse {
    pub capabilities: Vec<CapabilityDetails>,
}

query! {
    /// `DELETE /runtime/v1/capabilities/{id}`.
    pub struct UnpublishQuery {
        "disable" => disable: Option<bool>, "Only until the same version is published again.";
    }
}

/// A review item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewRecord {
    pub review_id: String,
    pub capability_id: String,
    pub delegation_skill_version: String,
    pub executor_skill_version: String,
    pub failure_class: String,
    /// The last ones, at most 20.
    pub sample_corr_ids: Vec<String>,
    pub created_at: IsoTime,
    /// How often it went wrong so.
    pub count: u64,
    pub last_at: IsoTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<IsoTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// `GET /runtime/v1/reviews`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReviewsResponse {
    pub reviews: Vec<ReviewRecord>,
}

query! {
    /// `GET /runtime/v1/reviews`.
    pub struct ReviewQuery {
        "resolved" => resolved: Option<bool>, "Those that are resolved, newest first, instead of those that are open.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
    }
}

/// `POST /runtime/v1/reviews/{id}/resolve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResolveReviewRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// `POST /runtime/v1/reviews/{id}/resolve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReviewResponse {
    pub review: ReviewRecord,
}

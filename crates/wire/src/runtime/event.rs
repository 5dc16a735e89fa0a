//! Events between nodes: the envelope, what each kind carries, and how they are published, read and brought.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SkillRefRecord, Tier};
use crate::query::query;
use crate::words::words;
use crate::{IsoTime, Json};

/// An event as it stands in an outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NodeEvent")]
pub struct Event {
    /// The same each time that it is sent.
    pub event_id: String,
    /// Its place in the outbox of `sourceNodeId`: 1, 2, 3… without a gap.
    pub seq: u64,
    pub kind: String,
    pub source_node_id: String,
    pub source_agent_id: String,
    /// Present if there is one recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_agent_id: Option<String>,
    pub corr_id: String,
    pub created_at: IsoTime,
    pub expires_at: IsoTime,
    pub payload: Json,
    pub trace: Trace,
}

/// How an event got where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// Grows each time that it is sent again.
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_policy_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_policy_version: Option<String>,
    /// The node that is to act on it, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_node_id: Option<String>,
    /// Recipients of a message by the node that they are at.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub to_nodes: BTreeMap<String, Vec<String>>,
}

words! {
    pub enum EventPriority {
        Urgent = "urgent",
        High = "high",
        Normal = "normal",
        Low = "low",
    }
}

/// The payload of a `message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessagePayload {
    /// Agents of any node, or `all` alone for every one of them.
    pub to_agents: Vec<String>,
    #[serde(default)]
    pub subject: String,
    pub body: Json,
    #[serde(default = "normal")]
    pub priority: EventPriority,
    #[serde(default)]
    pub expects_reply: bool,
}

fn normal() -> EventPriority {
    EventPriority::Normal
}

/// The payload of a `reply`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplyPayload {
    pub ref_event_id: String,
    pub body: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// The payload of a `task_create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskCreatePayload {
    pub task_id: String,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who may take it. If empty, `requiredCapabilities` say so.
    #[serde(default)]
    pub to_agents: Vec<String>,
    #[serde(default)]
    pub required_capabilities: Vec<String>,
    #[serde(default = "normal")]
    pub priority: EventPriority,
    pub requester_agent_id: String,
    #[serde(default)]
    pub response_required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<IsoTime>,
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<SkillDistributionPayload>,
}

/// What a `task_create` says beside that if agents are to install a skill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillDistributionPayload {
    pub task_type: SkillDistribution,
    pub capability_id: String,
    pub delegation_skill_ref: SkillRefRecord,
    pub required_by: IsoTime,
}

words! {
    pub enum SkillDistribution {
        SkillDistribution = "skill_distribution",
    }
}

/// The payload of a `task_accept`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskAcceptPayload {
    pub task_id: String,
    pub accepted_by_agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_at: Option<IsoTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_summary: Option<String>,
}

words! {
    /// Where a task is.
    pub enum TaskUpdateStatus {
        InProgress = "in_progress",
        Pending = "pending",
        Blocked = "blocked",
    }
}

/// The payload of a `task_update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskUpdatePayload {
    pub task_id: String,
    pub status: TaskUpdateStatus,
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revised_eta_at: Option<IsoTime>,
}

/// The payload of a `task_complete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskCompletePayload {
    pub task_id: String,
    pub completed_by_agent_id: String,
    #[serde(default)]
    pub result_summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<String>,
    pub completed_at: IsoTime,
    /// What the agent reported, as it did.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub result: Json,
}

/// The payload of a `task_failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskFailedPayload {
    pub task_id: String,
    pub failed_by_agent_id: String,
    pub failure_class: String,
    pub error_summary: String,
    pub failed_at: IsoTime,
}

words! {
    pub enum AckType {
        Accepted = "accepted",
        Processed = "processed",
        FailedTerminal = "failed_terminal",
    }
}

/// The payload of an `ack`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AckPayload {
    pub ref_event_id: String,
    pub ref_kind: String,
    pub ack_type: AckType,
    pub acked_by_node_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_by_agent_id: Option<String>,
    /// All of them, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acked_by_agent_ids: Vec<String>,
    pub acked_at: IsoTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_at: Option<IsoTime>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With `acceptedByAgentId` and an ETA it is a `task_accept` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_by_agent_id: Option<String>,
}

/// The payload of a `signal`: a record of the control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalPayload {
    pub path: String,
    /// The last one counts.
    pub rev: u64,
    pub record: Json,
}

/// The record at `agents.<id>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRecord {
    pub agent_id: String,
    pub gateway: String,
    /// `internal`: of a gateway.
    #[serde(rename = "type")]
    pub kind: String,
    pub live: bool,
}

words! {
    /// What is known of a node: heard of, heard of and not read on, not heard of. A signal tells of one that left that it is
    /// offline.
    pub enum NodeHealth {
        Online = "online",
        Degraded = "degraded",
        Offline = "offline",
    }
}

/// The record at `nodes.<id>`. Whoever tells it vouches for the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    pub node_id: String,
    pub tier: Tier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// `sha256:` and the hash of the public key of its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    pub status: NodeHealth,
    pub protocol_version: String,
    /// Ed25519 in hexadecimal.
    pub public_key: String,
    /// Who vouches for it, if whoever tells it does not know it first hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vouched_by: Option<String>,
}

/// `GET /runtime/v1/control`: what all nodes are to know, as this one has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlResponse {
    pub node_id: String,
    pub epoch: String,
    pub records: Vec<SignalPayload>,
}

/// The payload of a `dead_letter`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterPayload {
    pub ref_event_id: String,
    pub ref_kind: String,
    pub attempts: u32,
    pub reason: String,
}

words! {
    /// What may be published; the other kinds the hub publishes itself.
    pub enum PublishKind {
        Message = "message",
        Reply = "reply",
        TaskCreate = "task_create",
        TaskAccept = "task_accept",
        TaskUpdate = "task_update",
        TaskComplete = "task_complete",
        TaskFailed = "task_failed",
    }
}

/// What the kind says that it is.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum PublishPayload {
    Message(MessagePayload),
    Reply(ReplyPayload),
    TaskCreate(TaskCreatePayload),
    TaskAccept(TaskAcceptPayload),
    TaskUpdate(TaskUpdatePayload),
    TaskComplete(TaskCompletePayload),
    TaskFailed(TaskFailedPayload),
}

/// `POST /runtime/v1/events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishRequest {
    pub kind: PublishKind,
    #[schemars(with = "PublishPayload")]
    pub payload: Json,
    /// If absent, a person publishes it. Replies and steps of tasks are an agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_agent_id: Option<String>,
    /// Under the same id the same event is published once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Replies and steps of tasks must have that of what they answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
    /// Absent: in 24 hours; at most in 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<IsoTime>,
}

/// What was published, and to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishResponse {
    pub event_id: String,
    pub seq: u64,
    pub corr_id: String,
    pub recipients: Vec<String>,
    /// Targets that are nobody, or at another node than the one that the task went to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// The node that a task went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

query! {
    /// `GET /runtime/v1/outbox`.
    pub struct OutboxQuery {
        "after" => after: Option<u64>, "All up to this number is durable with the caller; return what follows.";
        "last" => last: Option<String>, "The eventId at that number, as the caller has it.";
        "limit" => limit: Option<u32>, "Page size, at most 256.";
        "wait" => wait: Option<u32>, "Seconds to wait for an event, 0 to 60.";
    }
}

/// A page of an outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutboxPage {
    pub node_id: String,
    pub epoch: String,
    /// The first that is still kept.
    pub oldest_seq: u64,
    pub latest_seq: u64,
    pub events: Vec<Event>,
}

/// `POST /runtime/v1/nodes/{id}/outbox`: a node that nobody reaches brings its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushRequest {
    pub epoch: String,
    /// The first event that is still kept; absent: all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_seq: Option<u64>,
    /// The last event that there is; absent: it is among these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_seq: Option<u64>,
    /// The `lastSeq` that the other node answered last. Where there is less than that, this is another outbox than was
    /// read; without it, a page that comes late or twice could look so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    pub events: Vec<Event>,
}

/// How far its events were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushResponse {
    pub last_seq: u64,
    pub status: String,
}

/// `GET /runtime/v1/cursors`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CursorsResponse {
    pub cursors: Vec<CursorRecord>,
}

/// How far one node is in the outbox of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CursorRecord {
    pub consumer_node_id: String,
    pub source_node_id: String,
    pub last_seq: u64,
    pub updated_at: IsoTime,
    /// active, gap, halted, expired.
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<IsoTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
}

/// `POST /runtime/v1/cursors/{id}/reset`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResetCursorRequest {
    /// The number after which to go on.
    pub after: u64,
}

/// `GET /runtime/v1/orders`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrdersResponse {
    pub orders: Vec<OrderRecord>,
}

/// `GET /runtime/v1/dead-letters`: what was given up, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersResponse {
    pub dead_letters: Vec<OrderRecord>,
}

/// Kinds of incidents that are about nodes and what is between them.
pub const NODE_INCIDENTS: [&str; 13] = [
    "agent_id_clash",
    "capability_id_clash",
    "cursor_expired",
    "dead_letter",
    "epoch_mismatch",
    "event_id_clash",
    "malformed_event",
    "node_id_clash",
    "outbox_gap",
    "outbox_tombstone",
    "outcome_overdue",
    "stray_task_event",
    "too_many_agents",
];

/// What was sent to other nodes, and what they said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderRecord {
    pub event_id: String,
    pub kind: String,
    pub source_agent_id: String,
    pub corr_id: String,
    pub seq: u64,
    pub attempt: u32,
    pub created_at: IsoTime,
    pub expires_at: IsoTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<IsoTime>,
    pub destinations: Vec<DestinationRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Of the task: emitted, accepted, claimed, in_progress, done, failed, dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_at: Option<IsoTime>,
}

/// A node that an event is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestinationRecord {
    pub node_id: String,
    pub agents: Vec<String>,
    /// emitted, accepted, processed, failed, dead.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

query! {
    /// `GET /runtime/v1/orders`.
    pub struct OrderQuery {
        "ended" => ended: Option<bool>, "Those that ended, newest first, instead of those that are open.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
    }
}

query! {
    /// `GET /runtime/v1/dead-letters`.
    pub struct DeadLetterQuery {
        "limit" => limit: Option<u32>, "How many at most, up to 1000.";
    }
}

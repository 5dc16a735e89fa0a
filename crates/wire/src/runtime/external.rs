//! External agents: invited, admitted, at work, sent away; and the audit of what they and nodes did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use switchboard_core::external as core;

use super::Jwk;
use crate::query::query;
use crate::words::{mirror, words};
use crate::{IsoTime, Json};

words! {
    /// What an external agent may be let do.
    pub enum AgentScope {
        MessageRead = "ansible.message.read",
        MessageSend = "ansible.message.send",
        TaskRead = "ansible.task.read",
        TaskCreate = "ansible.task.create",
        TaskClaim = "ansible.task.claim",
        TaskUpdate = "ansible.task.update",
        TaskComplete = "ansible.task.complete",
        StatusRead = "ansible.status.read",
    }
}

words! {
    pub enum SessionStatus {
        Live = "live",
        Ended = "ended",
    }
}

words! {
    pub enum AuditOutcome {
        Allowed = "allowed",
        Refused = "refused",
    }
}

/// What holds for the sessions of an invite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Constraints {
    /// How many sessions the agent may have at a time: 1 to 64 (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sessions: Option<u32>,
    /// Addresses (`192.0.2.7`) and networks (`10.0.0.0/8`) that it may call from. Empty: anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
}

/// `POST /ansible/agent/invites`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InviteAgentRequest {
    pub agent_id: String,
    pub scopes: Vec<AgentScope>,
    /// How long it can be used: 300 to 900 seconds (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Constraints>,
}

/// An invite, for one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InviteAgentResponse {
    /// Shown only here.
    pub invite_token: String,
    pub invite_id: String,
    pub expires_at: IsoTime,
}

/// `POST /ansible/agent/auth/exchange`: an invite for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentExchangeRequest {
    pub invite_token: String,
    pub agent_id: String,
    /// The caller's own, once.
    pub nonce: String,
    /// The key that all tokens are bound to.
    pub client_pub_key: Jwk,
    /// Ed25519 in hexadecimal, by `clientPubKey`, over `ansible-agent-exchange|<inviteToken>|<agentId>|<nonce>`.
    pub client_proof: String,
}

/// `POST /ansible/agent/auth/refresh`, with a proof in `DPoP`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRefreshRequest {
    pub refresh_token: String,
    pub nonce: String,
}

/// The tokens of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentTokens {
    /// For `Authorization: DPoP <token>`, with a proof beside it.
    pub access_token: String,
    pub access_expires_at: IsoTime,
    /// Counts once; the next one comes with its use.
    pub refresh_token: String,
    pub refresh_expires_at: IsoTime,
    pub session_id: String,
    pub granted_scopes: Vec<AgentScope>,
}

/// `POST /ansible/agent/invoke`, with an access token and its proof.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvokeRequest {
    pub operation: String,
    #[serde(default = "nothing")]
    pub args: Json,
    pub nonce: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
}

fn nothing() -> Json {
    serde_json::json!({}).into()
}

/// What the operation answered.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvokeResponse {
    pub success: bool,
    pub operation: String,
    pub session_id: String,
    /// As over HTTP.
    pub result: Json,
}

/// `POST /ansible/agent/context-token`, with an access token and its proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextTokenRequest {
    /// A task, or what has this `corrId`.
    pub context_id: String,
    /// Some of those that the access token has.
    pub scopes: Vec<AgentScope>,
    /// 60 to 300 (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextTokenResponse {
    pub context_token: String,
    pub expires_at: IsoTime,
    pub granted_scopes: Vec<AgentScope>,
}

/// What an external agent has been given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSession {
    pub session_id: String,
    pub agent_id: String,
    pub status: SessionStatus,
    pub scopes: Vec<AgentScope>,
    pub constraints: Constraints,
    pub invited_by: String,
    /// Of the key that its tokens are bound to.
    pub thumbprint: String,
    pub began_at: IsoTime,
    /// How often it was refreshed.
    pub refreshed: u32,
    pub access_expires_at: IsoTime,
    pub refresh_expires_at: IsoTime,
    pub ended_at: Option<IsoTime>,
    pub ended_by: Option<String>,
    /// Why it ended: `expired`, `revoked`, `refresh_token_reused`.
    pub reason: Option<String>,
}

/// `GET /ansible/agent/sessions`, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsResponse {
    pub sessions: Vec<ExternalSession>,
    pub next: Option<String>,
}

/// `POST /ansible/agent/revoke`: a session, which is a family of tokens, or all of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevokeSessionsRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// Those that were live until now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RevokeSessionsResponse {
    pub revoked: Vec<ExternalSession>,
}

/// One thing that was done, or refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    pub id: String,
    pub at: IsoTime,
    /// The node that it happened at.
    pub node_id: String,
    /// The agent or the person, if it was found out.
    pub actor: Option<String>,
    pub operation: String,
    pub scope: Option<AgentScope>,
    pub corr_id: Option<String>,
    pub session_id: Option<String>,
    /// The other node that has part in it.
    pub peer_node_id: Option<String>,
    pub outcome: AuditOutcome,
    /// Why it was refused.
    pub code: Option<String>,
    /// Refusals before this one that were only counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A node that was asked and gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unanswered {
    pub node_id: String,
    pub reason: String,
}

/// `GET /runtime/v1/audit`, oldest first, over all nodes that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditResponse {
    pub entries: Vec<AuditEntry>,
    pub next: Option<String>,
    /// Nodes that were asked in vain.
    pub unanswered: Vec<Unanswered>,
    /// Nodes that cannot be asked from here, since they have no endpoint: what they know is told there.
    #[serde(default)]
    pub unasked: Vec<String>,
}

query! {
    /// `GET /ansible/agent/sessions`.
    pub struct SessionQuery {
        "agentId" => agent_id: Option<String>, "Only live sessions of this agent.";
        "ended" => ended: Option<bool>, "Those that ended.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the previous page.";
    }
}

query! {
    /// `GET /runtime/v1/audit`.
    pub struct AuditQuery {
        "corrId" => corr_id: Option<String>, "Only what belongs to this.";
        "sessionId" => session_id: Option<String>, "Only what was done in this session.";
        "agentId" => agent_id: Option<String>, "Only what this agent or person did.";
        "own" => own: Option<bool>, "Only what this node knows.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the previous page.";
    }
}

mirror!(AgentScope, core::AgentScope {
    MessageRead = MessageRead, MessageSend = MessageSend, TaskRead = TaskRead, TaskCreate = TaskCreate,
    TaskClaim = TaskClaim, TaskUpdate = TaskUpdate, TaskComplete = TaskComplete, StatusRead = StatusRead,
});

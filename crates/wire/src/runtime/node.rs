//! Nodes: invited, joined, listed, gone; and the tickets that they show each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::IsoTime;
use crate::words::words;

words! {
    /// Whether a node is always there.
    pub enum Tier {
        Backbone = "backbone",
        Edge = "edge",
    }
}

words! {
    /// Who carries the events of a node here: we read its outbox, or it brings it.
    pub enum Reach {
        Pull = "pull",
        Push = "push",
        /// Nobody does: neither has an address.
        Unreachable = "unreachable",
    }
}

words! {
    pub enum NodeStatus {
        Joined = "joined",
        Left = "left",
    }
}

/// `POST /runtime/v1/invites`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InviteNodeRequest {
    /// How long it can be used: 300 to 900 seconds (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
}

/// An invite, for one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InviteNodeResponse {
    /// Shown only here.
    pub invite_token: String,
    pub invite_id: String,
    pub expires_at: IsoTime,
    /// The node that invites.
    pub node_id: String,
}

/// `POST /runtime/v1/nodes/join`: this hub joins the node at an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinNodeRequest {
    /// The address of the node that invited, without a path.
    pub url: String,
    pub invite_token: String,
    /// Where that node reaches this one; without it this one brings its events itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// `POST /ansible/auth/exchange`: an invite for a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExchangeRequest {
    pub invite_token: String,
    pub node_id: String,
    /// Ed25519 in hexadecimal, by `publicKey`, over `ansible-auth-exchange|<inviteToken>|<nodeId>|<nonce>`.
    pub node_proof: String,
    pub nonce: String,
    /// Ed25519 in hexadecimal.
    pub public_key: String,
    pub protocol_version: String,
    /// Where the node is reached, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// `sha256:` and the hash of the public key of its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
}

/// The node is joined; here is its first ticket, and whom it joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExchangeResponse {
    pub ticket: String,
    pub expires_at: IsoTime,
    pub session_id: String,
    pub node_id: String,
    pub public_key: String,
    pub epoch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    pub tier: Tier,
    pub protocol_version: String,
}

/// `POST /ansible/auth/ticket`: a node that is joined asks for a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TicketRequest {
    pub node_id: String,
    pub nonce: String,
    /// By the clock of the node; it may differ by up to two hours.
    pub at: IsoTime,
    /// Ed25519 in hexadecimal over `ansible-auth-ticket|<nodeId>|<nodeId of the node asked>|<at>|<nonce>`.
    pub proof: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TicketResponse {
    /// For `Authorization: Bearer`.
    pub ticket: String,
    pub expires_at: IsoTime,
    pub session_id: String,
}

/// A node that this one knows: by an invite, or because another one vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub node_id: String,
    pub status: NodeStatus,
    pub endpoint: Option<String>,
    pub reach: Reach,
    pub tier: Tier,
    pub protocol_version: String,
    pub public_key: String,
    /// `sha256:` and the hash of the public key that its certificate must have.
    pub certificate: Option<String>,
    pub joined_at: IsoTime,
    pub left_at: Option<IsoTime>,
    /// The person whose invite it used.
    pub invited_by: Option<String>,
    /// The node that vouched for it.
    pub vouched_by: Option<String>,
}

/// The node that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnNode {
    pub node_id: String,
    pub epoch: String,
    pub endpoint: Option<String>,
    pub tier: Tier,
    pub protocol_version: String,
    pub public_key: String,
    pub created_at: IsoTime,
}

/// `GET /runtime/v1/nodes`: those that are joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodesResponse {
    pub own: OwnNode,
    pub nodes: Vec<Node>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeResponse {
    pub node: Node,
}

/// `POST /runtime/v1/nodes/:id/leave`: those that were joined until now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaveNodeResponse {
    pub left: Vec<Node>,
}

//! Messages between agents, and what became of each with each recipient.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeliveryState, Priority};
use crate::object::object;
use crate::query::query;
use crate::{IsoTime, Json, Recipients};

/// SEND_MESSAGE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendMessageRequest {
    /// If absent, the sender is a person, the steward.
    #[serde(default = "steward")]
    pub agent_id: String,
    #[serde(deserialize_with = "object")]
    pub message: NewMessage,
}

fn steward() -> String {
    switchboard_core::STEWARD.to_owned()
}

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewMessage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// An agent, or a list of them. Absent or `null`: to every other agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Recipients>,
    /// `custom`, or any dotted type such as `task.help_needed`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub payload: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_required: Option<bool>,
    /// Connections that are handed their messages get the most urgent first. Absent: `medium`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

/// The response to SEND_MESSAGE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendMessageResponse {
    pub success: bool,
    pub message_id: String,
    pub created_at: IsoTime,
    /// How many agents it goes to.
    pub recipients: u64,
}

/// RECEIVE_MESSAGES.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiveMessagesRequest {
    pub agent_id: String,
    /// A time or a message id: return everything after it and mark nothing as delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Seconds to wait for a message, 0 to 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<u32>,
}

/// The response to RECEIVE_MESSAGES, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiveMessagesResponse {
    pub success: bool,
    pub messages: Vec<Message>,
}

/// A message as it is delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub id: String,
    pub from: String,
    /// `null`: to everyone. A recipient of several finds itself here.
    pub to: Option<Recipients>,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub payload: Json,
    pub ack_required: bool,
    /// To whoever it is handed to; absent: `medium`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    pub created_at: IsoTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<IsoTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
    /// It was delivered before, on a connection that ended before it was acknowledged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redelivered: bool,
}

/// `POST /messages/:id/ack`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AckRequest {
    pub agent_id: String,
}

/// The response to an acknowledgement; with task and epoch if a handoff was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AckResponse {
    pub success: bool,
    pub acknowledged_at: IsoTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// `GET /messages/:id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageResponse {
    pub success: bool,
    pub message: Message,
    pub deliveries: Vec<Delivery>,
}

/// One message with one recipient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub agent_id: String,
    pub state: DeliveryState,
    /// Absent: `medium`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The door that took it: `jetpack` for HTTP, SQL and files, `bus` for the bus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub delivered_at: Option<IsoTime>,
    pub acknowledged_at: Option<IsoTime>,
}

/// `GET /messages?all=true`, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessagePage {
    pub success: bool,
    pub messages: Vec<Message>,
    pub next: Option<String>,
}

query! {
    /// `GET /messages`: an agent's own, or with `all` every message.
    pub struct MessageQuery {
        "agentId" => agent_id: Option<String>, "The agent whose messages to return.";
        "since" => since: Option<String>, "A time or a message id: return everything after it and mark nothing as delivered.";
        "types" => types: Vec<String>, "Only messages of these types.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "wait" => wait: Option<u32>, "Seconds to wait for a message, 0 to 60.";
        "all" => all: Option<bool>, "Every message, newest first (steward or viewer).";
        "from" => from: Option<String>, "With `all`: only from this agent.";
        "to" => to: Option<String>, "With `all`: only to this agent.";
        "after" => after: Option<String>, "With `all`: the `next` of the previous page.";
    }
}

//! Messages between agents, whatever dialect the other one speaks.

use serde::{Deserialize, Serialize};
use switchboard_core::limits;

use super::{MessageType, Payload, is_zero};
use crate::agentbus::check::{self, Checked};
use crate::agentbus::parts;
use crate::jetpack::Priority;
use crate::words::words;
use crate::{Json, Recipients};

/// `agent_message.v1`: from the director, a message for this worker; from a worker, one for another agent.
///
/// A body that fits no line is cut into parts; then `body` is a string, a piece of the body's JSON text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentMessage {
    pub message_id: String,
    pub from: String,
    /// The recipient, or a list of them, if a worker sends it; absent for everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Recipients>,
    #[serde(rename = "type")]
    pub kind: String,
    pub body: Json,
    pub ack_required: bool,
    /// The most urgent are delivered first; absent: `medium`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// It was delivered before, on a connection that ended before it was acknowledged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redelivered: bool,
    /// How many secrets were taken out of the body.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redacted: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
    /// Counted from 1; 0 in one piece.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
    #[serde(default = "parts::only", skip_serializing_if = "parts::is_only")]
    pub parts: u32,
}

impl Payload for AgentMessage {
    const TYPE: MessageType = MessageType::AgentMessage;

    fn check(&self) -> Checked {
        check::id("message_id", &self.message_id)?;
        check::id("from", &self.from)?;
        for id in self.to.iter().flat_map(Recipients::ids) {
            check::id("to", id)?;
        }
        check::filled("type", &self.kind, limits::NAME_BYTES_MAX)?;
        check::word("type", &self.kind)?;
        check::text("body", self.body.get(), limits::PAYLOAD_BYTES_MAX)?;
        check::maybe_id("corr_id", self.corr_id.as_deref())?;
        check::part(self.part.max(1), self.parts)
    }
}

words! {
    /// How far a message of a worker has come.
    pub enum MailState {
        Accepted = "accepted",
        Acknowledged = "acknowledged",
        Failed = "failed",
    }
}

/// `agent_message_ack.v1`: from a worker, it has the message or, with `failed`, will not have it; from the director, what
/// became of the worker's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMessageAck {
    pub message_id: String,
    /// From a worker only `failed`, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<MailState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who acknowledged the sender's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

impl Payload for AgentMessageAck {
    const TYPE: MessageType = MessageType::AgentMessageAck;

    fn check(&self) -> Checked {
        check::id("message_id", &self.message_id)?;
        check::maybe_text("reason", self.reason.as_deref(), limits::NOTE_BYTES_MAX)?;
        check::maybe_id("by", self.by.as_deref())?;
        check::maybe_id("corr_id", self.corr_id.as_deref())
    }
}

//! The frames of the hub, their members in the order in which the original prints them.

use serde::Serialize;
use serde_json::json;
use switchboard_core::Timestamp;

use crate::Json;
use crate::squidrun::words::{CheckStatus, HealthStatus, Status};

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Outbound {
    Welcome(Welcome),
    Registered(Registered),
    HealthCheckResult(Health),
    Message(Message),
    Broadcast(Message),
    SendAck(SendAck),
    DeliveryCheckResult(Checked),
    Response(Response),
    Error(Fault),
}

impl Outbound {
    /// Too many bytes in one frame.
    pub fn too_large() -> Self {
        Self::error("Message too large")
    }

    /// Too many frames in a second.
    pub fn too_many() -> Self {
        Self::error("Rate limit exceeded")
    }

    pub fn error(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Error(Fault { message })
    }

    /// A request that nobody here knows how to answer: refused inside, answered outside.
    pub fn unsupported(request_id: String, now: Timestamp) -> Self {
        let result = json!({ "ok": false, "status": "unsupported_action" });
        Self::Response(Response {
            request_id,
            ok: true,
            result: result.into(),
            timestamp: now.0,
        })
    }
}

/// `welcome`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Welcome {
    pub client_id: u64,
}

/// `registered`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// `null` for a role that is not known.
    pub pane_id: Option<String>,
    pub role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_scope_id: Option<String>,
}

/// `health-check-result`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    pub request_id: Option<String>,
    pub target: String,
    pub timestamp: i64,
    pub healthy: bool,
    pub status: HealthStatus,
    pub role: Option<String>,
    pub pane_id: Option<String>,
    pub last_seen: Option<i64>,
    pub age_ms: Option<i64>,
    pub stale_threshold_ms: i64,
    pub source: Option<&'static str>,
}

/// `message` and `broadcast`
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub from: String,
    pub priority: String,
    pub content: String,
    pub metadata: Option<Json>,
    pub trace_id: String,
    pub parent_event_id: String,
    pub event_id: String,
    pub timestamp: i64,
}

/// `send-ack`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SendAck {
    pub message_id: Option<String>,
    /// As `verified`.
    pub ok: bool,
    pub accepted: bool,
    pub queued: bool,
    pub verified: bool,
    pub status: Status,
    /// Connections that it was written to.
    pub ws_delivery_count: u32,
    pub handler_result: (),
    pub trace_id: Option<String>,
    pub parent_event_id: Option<String>,
    pub timestamp: i64,
    pub ack_latency_ms: u64,
    /// Why it was not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<Dedupe>,
}

/// The message was said a moment ago, under another id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dedupe {
    pub mode: &'static str,
    pub key: String,
    pub source_message_id: String,
}

/// `delivery-check-result`
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    pub request_id: Option<String>,
    pub timestamp: i64,
    pub known: bool,
    pub status: CheckStatus,
    pub message_id: Option<String>,
    /// The `send-ack`, as it would be now.
    pub ack: Option<Box<Outbound>>,
    pub pending: bool,
}

/// `response`
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    pub request_id: String,
    pub ok: bool,
    pub result: Json,
    pub timestamp: i64,
}

/// `error`; the connection goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    pub message: String,
}

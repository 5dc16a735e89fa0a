//! The frames of clients, and their bounds. Members that are not known are passed over.

use std::fmt;

use serde::Deserialize;
use switchboard_core::limits;

use super::Bounded;
use crate::jetpack::from_wire::check::{filled, id, text};
use crate::{Json, Malformed};

/// A message's id is part of its task's id: `sq:` and the id.
pub(in crate::squidrun) const MESSAGE_ID_BYTES_MAX: usize = limits::ID_BYTES_MAX - 3;

/// `register`: whose connection this is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Register {
    pub role: String,
    pub profile_name: Option<String>,
    pub window_key: Option<String>,
    pub session_scope_id: Option<String>,
    pub token: Option<Token>,
}

/// A secret: it is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Bounded for Register {
    fn check(&self) -> Result<(), Malformed> {
        filled("role", &self.role, limits::ID_BYTES_MAX)?;
        maybe_name("profileName", self.profile_name.as_deref())?;
        maybe_name("windowKey", self.window_key.as_deref())?;
        maybe_name("sessionScopeId", self.session_scope_id.as_deref())?;
        let token = self.token.as_ref().map(|token| token.0.as_str());
        maybe_name("token", token)
    }
}

/// `health-check`: is there a way to a target?
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    #[serde(default)]
    pub target: String,
    pub request_id: Option<String>,
    /// Not above zero: [`STALE_AFTER_MS`].
    pub stale_after_ms: Option<f64>,
}

const STALE_AFTER_MS: i64 = 60_000;

impl HealthCheck {
    pub fn stale_after_ms(&self) -> i64 {
        let given = self.stale_after_ms.map(|given| given as i64);
        given.filter(|given| *given > 0).unwrap_or(STALE_AFTER_MS)
    }
}

impl Bounded for HealthCheck {
    fn check(&self) -> Result<(), Malformed> {
        text("target", &self.target, limits::ID_BYTES_MAX)?;
        maybe_id("requestId", self.request_id.as_deref())
    }
}

/// `send` and `broadcast`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spoken {
    /// Of a `send`.
    #[serde(default)]
    pub target: String,
    pub content: String,
    pub priority: Option<String>,
    pub metadata: Option<Json>,
    pub message_id: Option<String>,
    #[serde(default, deserialize_with = "or_false")]
    pub ack_required: bool,
    pub attempt: Option<u32>,
    pub max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "crate::object::optional")]
    pub trace_context: Option<TraceContext>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceContext {
    pub trace_id: Option<String>,
    pub parent_event_id: Option<String>,
}

impl Bounded for Spoken {
    fn check(&self) -> Result<(), Malformed> {
        text("target", &self.target, limits::ID_BYTES_MAX)?;
        text("content", &self.content, limits::PAYLOAD_BYTES_MAX)?;
        maybe_name("priority", self.priority.as_deref())?;
        maybe_object("metadata", self.metadata.as_ref())?;
        if let Some(given) = &self.message_id {
            text("messageId", given, MESSAGE_ID_BYTES_MAX)?;
            id("messageId", given)?;
        }
        let trace = self.trace_context.as_ref();
        let parent = trace.and_then(|trace| trace.parent_event_id.as_deref());
        maybe_id("traceContext.parentEventId", parent)?;
        let trace = trace.and_then(|trace| trace.trace_id.as_deref());
        maybe_id("traceContext.traceId", trace)
    }
}

/// `receipt`: a recipient has what it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    pub trace_id: String,
}

impl Bounded for Receipt {
    fn check(&self) -> Result<(), Malformed> {
        id("traceId", &self.trace_id).map(|_| ())
    }
}

/// `delivery-check`: what became of a message?
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryCheck {
    pub request_id: Option<String>,
    /// One that is no id is answered `invalid_message_id`.
    pub message_id: Option<String>,
}

impl DeliveryCheck {
    /// The id, if it is one.
    pub fn id(&self) -> Option<&str> {
        let given = self.message_id.as_deref()?;
        id("messageId", given).ok()
    }
}

impl Bounded for DeliveryCheck {
    fn check(&self) -> Result<(), Malformed> {
        maybe_id("requestId", self.request_id.as_deref())
    }
}

/// `comms-event`: what a client did by itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommsEvent {
    pub event_type: String,
    pub payload: Option<Json>,
}

impl Bounded for CommsEvent {
    fn check(&self) -> Result<(), Malformed> {
        filled("eventType", &self.event_type, limits::NAME_BYTES_MAX)?;
        maybe_object("payload", self.payload.as_ref())
    }
}

/// `background-agent`: Builder starts, ends and lists its background agents.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackgroundAgent {
    #[serde(default)]
    pub action: String,
    pub payload: Option<Json>,
    pub request_id: Option<String>,
}

impl Bounded for BackgroundAgent {
    fn check(&self) -> Result<(), Malformed> {
        text("action", &self.action, limits::NAME_BYTES_MAX)?;
        maybe_object("payload", self.payload.as_ref())?;
        maybe_id("requestId", self.request_id.as_deref())
    }
}

fn maybe_id(field: &str, given: Option<&str>) -> Result<(), Malformed> {
    given.map_or(Ok(()), |given| id(field, given).map(|_| ()))
}

fn maybe_name(field: &str, given: Option<&str>) -> Result<(), Malformed> {
    given.map_or(Ok(()), |given| text(field, given, limits::NAME_BYTES_MAX))
}

fn maybe_object(field: &str, given: Option<&Json>) -> Result<(), Malformed> {
    let Some(given) = given.map(Json::get) else {
        return Ok(());
    };
    if !given.starts_with('{') {
        return Err(Malformed::field(field, "expected an object"));
    }
    text(field, given, limits::PAYLOAD_BYTES_MAX)
}

/// `null` is no.
fn or_false<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

//! Frames: one JSON object each. [`read`] takes what a client sends, [`print`] says what it is told.

mod inbound;
mod outbound;

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_core::limits;

pub(super) use inbound::MESSAGE_ID_BYTES_MAX;
pub use inbound::{
    BackgroundAgent, CommsEvent, DeliveryCheck, HealthCheck, Receipt, Register, Spoken, Token,
    TraceContext,
};
pub use outbound::{
    Checked, Dedupe, Fault, Health, Message, Outbound, Registered, Response, SendAck, Welcome,
};

use crate::jetpack::from_wire::check;
use crate::malformed::too_deep;
use crate::object::Object;
use crate::{Malformed, parse};

/// What a client sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Inbound {
    Register(Register),
    HealthCheck(HealthCheck),
    Send(Spoken),
    Broadcast(Spoken),
    Receipt(Receipt),
    DeliveryCheck(DeliveryCheck),
    CommsEvent(CommsEvent),
    BackgroundAgent(BackgroundAgent),
    /// Of a type that is not known; one with a `requestId` waits for an answer.
    Other {
        kind: String,
        request_id: Option<String>,
    },
}

/// What cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum NotAFrame {
    /// Not JSON, no object, or without a type: nobody is answered.
    Noise,
    /// A frame of a known type with a member that is wrong.
    Wrong(Box<Wrong>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Wrong {
    pub kind: String,
    pub message_id: Option<String>,
    pub request_id: Option<String>,
    pub ack_required: bool,
    pub why: Malformed,
}

/// A frame's own type and nothing else of it.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

pub fn read(bytes: &[u8]) -> Result<Inbound, NotAFrame> {
    if too_deep(bytes) {
        return Err(NotAFrame::Noise);
    }
    let head = serde_json::from_slice::<Object<Head<'_>>>(bytes);
    let kind = head.map_err(|_| NotAFrame::Noise)?.0.kind;
    let frame = match &*kind {
        "register" => checked(bytes).map(Inbound::Register),
        "health-check" => checked(bytes).map(Inbound::HealthCheck),
        "send" => checked(bytes).map(Inbound::Send),
        "broadcast" => checked(bytes).map(Inbound::Broadcast),
        "receipt" => checked(bytes).map(Inbound::Receipt),
        "delivery-check" => checked(bytes).map(Inbound::DeliveryCheck),
        "comms-event" => checked(bytes).map(Inbound::CommsEvent),
        "background-agent" => checked(bytes).map(Inbound::BackgroundAgent),
        _ => {
            let kind = limits::cut(&kind, limits::NAME_BYTES_MAX).to_owned();
            let request_id = id(&loose(bytes), "requestId");
            return Ok(Inbound::Other { kind, request_id });
        }
    };
    frame.map_err(|why| {
        let said = loose(bytes);
        NotAFrame::Wrong(Box::new(Wrong {
            kind: kind.into_owned(),
            message_id: id(&said, "messageId"),
            request_id: id(&said, "requestId"),
            ack_required: said.get("ackRequired").and_then(Value::as_bool) == Some(true),
            why,
        }))
    })
}

/// A type that knows its bounds.
trait Bounded: DeserializeOwned {
    fn check(&self) -> Result<(), Malformed>;
}

fn checked<T: Bounded>(bytes: &[u8]) -> Result<T, Malformed> {
    let frame: T = parse(bytes)?;
    frame.check()?;
    Ok(frame)
}

/// A frame of which some member is wrong or not known.
fn loose(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

fn id(frame: &Value, member: &str) -> Option<String> {
    let given = frame.get(member)?.as_str()?;
    check::id(member, given).ok().map(str::to_owned)
}

/// What a `message` in print says.
pub fn content(text: &str) -> Option<String> {
    let frame: serde_json::Value = serde_json::from_str(text).ok()?;
    frame.get("content")?.as_str().map(str::to_owned)
}

/// Appends a frame, in the order of members that clients know.
pub fn print(frame: &Outbound, out: &mut Vec<u8>) {
    serde_json::to_writer(out, frame).expect("a frame has no keys but strings");
}

//! SEND_MESSAGE, RECEIVE_MESSAGES and acknowledgements.

use std::time::Duration;

use serde_json::Value;
use switchboard_core::query::{MessageSince, Since};
use switchboard_core::{
    AgentId, CorrId, Door, Meaning, MessageId, Priority, STEWARD, Sender, To, limits, verb,
};

use super::check::{self, agent_id, each, id, message_id, span, task_id, wait_for};
use super::{Context, lease_path};
use crate::jetpack::{AckRequest, MessageQuery, ReceiveMessagesRequest, SendMessageRequest};
use crate::squidrun::claims;
use crate::{IsoTime, Malformed, Recipients};

/// SEND_MESSAGE.
pub fn send(
    request: SendMessageRequest,
    context: &mut Context<'_>,
) -> Result<verb::Send, Malformed> {
    let named = agent_id("agentId", &request.agent_id)?;
    let from = if named.as_str() == STEWARD {
        Sender::Person(named)
    } else {
        Sender::Agent(named)
    };
    let message = request.message;
    kind(&message.kind)?;
    check::text(
        "message.payload",
        message.payload.get(),
        limits::PAYLOAD_BYTES_MAX,
    )?;
    let payload = message.payload.get();
    let has_recipient = message.to.is_some();
    let meaning = meaning(&message.kind, payload, has_recipient, context.root)?;
    let fresh = match &message.id {
        Some(given) => message_id("message.id", given)?,
        None => MessageId::from((context.fresh)("msg")),
    };
    let corr_id = match &message.corr_id {
        Some(given) => CorrId::from(id("message.corrId", given)?),
        None => CorrId::from(fresh.as_str()),
    };
    let expires_in = message
        .expires_in
        .map(|millis| span("message.expiresIn", millis))
        .transpose()?;
    Ok(verb::Send {
        id: fresh,
        from,
        to: to("message.to", message.to.as_ref())?,
        kind: message.kind,
        payload: payload.into(),
        ack_required: message.ack_required.unwrap_or(false),
        priority: message.priority.map_or(Priority::Medium, Into::into),
        expires_in: expires_in.map(|span| span.min(limits::MESSAGE_EXPIRES_MAX)),
        corr_id,
        meaning,
        claims: claims::of_payload(payload),
    })
}

/// Whom a message is for.
fn to(field: &str, named: Option<&Recipients>) -> Result<To, Malformed> {
    match named {
        None => Ok(To::Everyone),
        Some(Recipients::One(id)) => agent_id(field, id).map(To::One),
        Some(Recipients::Several(ids)) => {
            let mut agents = Vec::new();
            for (at, id) in ids.iter().enumerate() {
                agents.push(agent_id(&format!("{field}[{at}]"), id)?);
            }
            To::agents(agents).ok_or_else(|| {
                Malformed::field(field, "names nobody; leave it out to send to every agent")
            })
        }
    }
}

/// `custom`, or words joined by dots.
fn kind(kind: &str) -> Result<(), Malformed> {
    let word = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    let dotted = kind.contains('.') && kind.split('.').all(word);
    if kind.len() > limits::ID_BYTES_MAX || !(kind == "custom" || dotted) {
        let message = "must be custom, or words joined by dots such as task.help_needed";
        return Err(Malformed::field("message.type", message));
    }
    Ok(())
}

/// The two types whose payload the hub understands, whichever door they come through: an offered task, a wanted file.
///
/// A message with a recipient goes there, whatever file it is about. A payload that names neither, of whatever type it is,
/// means nothing to the hub.
pub fn meaning(
    kind: &str,
    payload: &str,
    has_recipient: bool,
    root: &str,
) -> Result<Meaning, Malformed> {
    let (member, field) = match kind {
        "task.handoff" => ("taskId", "message.payload.taskId"),
        "file.lock_request" if !has_recipient => ("filePath", "message.payload.filePath"),
        _ => return Ok(Meaning::Nothing),
    };
    let payload = serde_json::from_str::<Value>(payload).unwrap_or_default();
    match payload.get(member).and_then(Value::as_str) {
        None => Ok(Meaning::Nothing),
        Some(task) if member == "taskId" => task_id(field, task).map(Meaning::Offer),
        Some(path) => lease_path(field, path, root).map(Meaning::Wants),
    }
}

/// What RECEIVE_MESSAGES asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Fetch {
    /// Each message once: a change, because it marks them.
    Next(verb::Receive),
    /// Everything after a point, again; nothing is marked.
    Since(MessageSince),
}

impl Fetch {
    pub fn agent(&self) -> &AgentId {
        match self {
            Self::Next(receive) => &receive.agent,
            Self::Since(wanted) => &wanted.agent,
        }
    }
}

/// RECEIVE_MESSAGES, and how long it may wait.
pub fn receive(request: ReceiveMessagesRequest) -> Result<(Fetch, Duration), Malformed> {
    let agent = agent_id("agentId", &request.agent_id)?;
    each(
        "types",
        &request.types,
        limits::MESSAGE_TYPES_MAX,
        |place, kind| check::filled(place, kind, limits::ID_BYTES_MAX),
    )?;
    let limit = match request.limit {
        None => limits::RECEIVE_DEFAULT,
        Some(0) => return Err(Malformed::field("limit", "must be above 0")),
        // "Max messages to return": fewer is fine, so a large wish is not an error.
        Some(limit) => usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .min(limits::RECEIVE_MAX),
    };
    let kinds = request.types;
    let fetch = match request.since {
        None => Fetch::Next(verb::Receive {
            agent,
            kinds,
            limit,
            via: Door::Jetpack,
        }),
        Some(since) => Fetch::Since(MessageSince {
            agent,
            since: point(&since)?,
            kinds,
            limit,
        }),
    };
    Ok((fetch, wait_for(request.wait)?))
}

fn point(since: &str) -> Result<Since, Malformed> {
    match since.parse::<IsoTime>() {
        Ok(time) => Ok(Since::Instant(time.into())),
        Err(_) => message_id("since", since).map(Since::Message),
    }
}

/// `GET /messages` for one agent, as the operation.
pub fn receive_query(query: MessageQuery) -> Result<ReceiveMessagesRequest, Malformed> {
    Ok(ReceiveMessagesRequest {
        agent_id: query
            .agent_id
            .ok_or_else(|| Malformed::missing("agentId"))?,
        since: query.since,
        types: query.types,
        limit: query.limit,
        wait: query.wait,
    })
}

/// `POST /messages/:id/ack`.
pub fn acknowledge(message: &str, request: &AckRequest) -> Result<verb::Acknowledge, Malformed> {
    Ok(verb::Acknowledge {
        agent: agent_id("agentId", &request.agent_id)?,
        message: message_id("id", message)?,
        via: Door::Jetpack,
    })
}

//! From rows to frames: what recipients get, and what a sender is told of its message.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use switchboard_core::id::{HUB, HUB_ROLE};
use switchboard_core::{
    self as core, AgentId, Delivery, DeliveryState, Door, Priority, Received, TaskId, Timestamp,
};

use super::frame::{
    Checked, DeliveryCheck, Health, HealthCheck, Message, Outbound, Register, Registered, SendAck,
    Wrong,
};
use super::from_wire::{FALLBACK, task_id};
use super::header;
use super::members::{Members, compact};
use super::roles::{Roles, Target};
use super::tags::{self, ACK_REQUIRED};
use super::words::{CheckStatus, HealthStatus, Status};
use crate::Json;

/// `registered`: under its canonical name, or as it is, without a pane.
pub fn registered(register: Register, roles: &Roles) -> Outbound {
    let (role, pane_id) = match known(&register.role, roles) {
        Some((id, pane)) => (id.to_string(), Some(pane)),
        None => (register.role, None),
    };
    Outbound::Registered(Registered {
        pane_id,
        role,
        profile_name: register.profile_name,
        window_key: register.window_key,
        session_scope_id: register.session_scope_id,
    })
}

/// A role or slot, and its pane.
fn known(word: &str, roles: &Roles) -> Option<(AgentId, String)> {
    let (Target::Role(id) | Target::Slot { id, .. }) = roles.target(word)? else {
        return None;
    };
    let role = roles.iter().find(|role| role.id == id.as_str())?;
    Some((id, role.pane.clone()))
}

/// `health-check-result`; `seen` knows when a role or slot that is connected last gave a sign of life.
pub fn health(
    check: HealthCheck,
    roles: &Roles,
    seen: impl FnOnce(&AgentId) -> Option<Timestamp>,
    now: Timestamp,
) -> Outbound {
    let stale_threshold_ms = check.stale_after_ms();
    let known = known(&check.target, roles);
    let last_seen = known.as_ref().and_then(|(id, _)| seen(id));
    let age_ms = last_seen.map(|seen| now.0.saturating_sub(seen.0).max(0));
    let status = match age_ms {
        _ if known.is_none() => HealthStatus::InvalidTarget,
        None => HealthStatus::NoRoute,
        Some(age) if age <= stale_threshold_ms => HealthStatus::Healthy,
        Some(_) => HealthStatus::Stale,
    };
    let (role, pane_id) = known.map(|(id, pane)| (id.to_string(), pane)).unzip();
    Outbound::HealthCheckResult(Health {
        request_id: check.request_id,
        target: check.target,
        timestamp: now.0,
        healthy: status == HealthStatus::Healthy,
        status,
        role,
        pane_id,
        last_seen: last_seen.map(|seen| seen.0),
        age_ms,
        stale_threshold_ms,
        source: last_seen.map(|_| "client_activity"),
    })
}

/// What [`super::from_wire`] keeps of a message.
#[derive(Deserialize)]
struct Own<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
    tags: Vec<String>,
    metadata: Option<Json>,
    session: u32,
    priority: Option<String>,
}

impl Own<'_> {
    fn of(message: &core::Message) -> Option<Own<'_>> {
        serde_json::from_str(&message.payload).ok()
    }
}

/// `message`, or `broadcast` if it is for everyone, in this session. What another dialect said gets a header.
pub fn message(received: &Received, session: u32) -> Outbound {
    let row = &received.message;
    let (content, mut metadata, priority, said_in) = match Own::of(row) {
        Some(own) => {
            let metadata = own.metadata.as_ref().map(Members::of).unwrap_or_default();
            let priority = own.priority.unwrap_or_else(|| "normal".to_owned());
            (own.text.into_owned(), metadata, priority, own.session)
        }
        None => {
            // Sent before anybody was known to read it by its number: the ledger has one.
            let number = row.given.map_or(row.number, |it| u64::from(it.number));
            let priority = priority(received.priority).to_owned();
            let said_in = row.given.map_or(session, |it| it.session);
            (headed(row, number), Members::default(), priority, said_in)
        }
    };
    if said_in < session {
        metadata.mark("delayed");
        let was = format!("app-session-{said_in}");
        metadata.set("sessionId", Value::from(was));
    }
    if received.redelivered {
        metadata.mark("redelivered");
    }
    // The original has one event for both.
    let event = format!("evt-{}", row.number);
    let frame = Message {
        from: from(row).to_owned(),
        priority,
        content: if row.ack_required {
            asking(content)
        } else {
            content
        },
        metadata: metadata.json(),
        trace_id: row.corr_id.to_string(),
        parent_event_id: event.clone(),
        event_id: event,
        timestamp: row.created_at.0,
    };
    match row.to {
        core::To::Everyone => Outbound::Broadcast(frame),
        core::To::One(_) | core::To::Several(_) => Outbound::Message(frame),
    }
}

/// What a message says, as whoever reads it by a role does: with its header, if it has one.
pub fn content(row: &core::Message) -> String {
    match (Own::of(row), row.given) {
        (Some(own), _) => own.text.into_owned(),
        (None, Some(given)) => headed(row, given.number.into()),
        (None, None) => text(&row.payload),
    }
}

/// What another dialect says, with a header.
fn headed(row: &core::Message, number: u64) -> String {
    let (word, text) = (header_word(from(row)), text(&row.payload));
    format!("({word} #{number}): {text}")
}

fn from(row: &core::Message) -> &str {
    match row.from.as_str() {
        HUB => HUB_ROLE,
        from => from,
    }
}

/// The task that a message delegates; the copy for whoever it is handed to [names it](with_task).
pub fn task_of(row: &core::Message) -> Option<TaskId> {
    let own = Own::of(row)?;
    let delegates = own.tags.iter().any(|tag| tag == tags::TASK);
    delegates.then(|| task_id(&row.id))
}

/// The frame of a message that delegates a task.
pub fn with_task(mut frame: Outbound, number: u64) -> Outbound {
    if let Outbound::Message(message) | Outbound::Broadcast(message) = &mut frame {
        message.content.push_str(&format!(" (task #{number})"));
    }
    frame
}

/// What somebody said, with its name in front unless the header says it.
pub fn signed(from: &str, content: &str) -> String {
    match header::parse(content) {
        Some(_) => content.to_owned(),
        None => format!("{from}: {content}"),
    }
}

/// A word that a header can have.
fn header_word(id: &str) -> String {
    let kept = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let letters = id.chars().take(core::limits::ROLE_WORD_BYTES_MAX);
    let word: String = letters
        .map(|it| {
            if kept(it) {
                it.to_ascii_uppercase()
            } else {
                '-'
            }
        })
        .collect();
    match word.trim_start_matches(['-', '_']) {
        "" => "AGENT".to_owned(),
        word => word.to_owned(),
    }
}

/// What a payload says: its text, its subject and body, or all of it.
pub fn text(payload: &str) -> String {
    let value: Value = serde_json::from_str(payload).unwrap_or_default();
    let member = |name: &str| value.get(name).and_then(Value::as_str);
    match (
        member("text").or(value.as_str()),
        member("subject"),
        member("body"),
    ) {
        (Some(text), ..) => text.to_owned(),
        (None, Some(subject), Some(body)) => format!("{subject}: {body}"),
        (None, ..) => compact(payload),
    }
}

fn priority(priority: Priority) -> &'static str {
    match priority {
        Priority::Critical => "urgent",
        Priority::High => "high",
        Priority::Medium => "normal",
        Priority::Low => "low",
    }
}

/// A text that says that it must be acknowledged, directly after its header.
fn asking(content: String) -> String {
    let body = header::parse(&content).map_or(&*content, |header| header.body);
    if tags::parse(body).0.ack_required {
        return content;
    }
    let head = content.strip_suffix(body).unwrap_or_default();
    let space = if head.is_empty() || head.ends_with(' ') {
        ""
    } else {
        " "
    };
    format!("{head}{space}[{ACK_REQUIRED}] {body}")
}

/// How far a message has come: as far as the recipient that has it best.
pub fn status<'a>(deliveries: impl IntoIterator<Item = &'a Delivery>) -> Status {
    let reached = deliveries.into_iter().map(reached);
    reached.min().unwrap_or(Status::NoTargets)
}

fn reached(delivery: &Delivery) -> Status {
    match delivery.state {
        DeliveryState::Acknowledged => Status::DeliveredVerified,
        DeliveryState::Handed => match delivery.via {
            Some(Door::Squidrun) => written(&delivery.agent),
            Some(Door::Telegram) => Status::TelegramDelivered,
            // In an inbox of another dialect; whether anybody reads it, the acknowledgement tells.
            Some(Door::Jetpack | Door::Bus | Door::Runtime) | None => Status::AcceptedUnverified,
        },
        DeliveryState::Queued => Status::AcceptedUnverified,
        DeliveryState::Expired => Status::DeliveryFailed,
        DeliveryState::Failed => {
            let reason = delivery.reason.as_deref().unwrap_or_default();
            let told = reason.parse().ok().filter(|it: &Status| !it.is_accepted());
            told.unwrap_or(Status::DeliveryFailed)
        }
    }
}

/// How a recipient gets what the hub writes: a background agent in its terminal, all others on their connections.
fn written(to: &AgentId) -> Status {
    match to.is_slot() {
        true => Status::DeliveredDaemonWrite,
        false => Status::DeliveredWebsocket,
    }
}

/// The `send-ack` of a message as it is in the ledger now.
pub fn ack(row: &core::Message, deliveries: &[Delivery], now: Timestamp) -> SendAck {
    let by_file = || {
        let metadata = Own::of(row).and_then(|own| own.metadata);
        metadata.is_some_and(|metadata| Members::of(&metadata).get(FALLBACK).is_some())
    };
    let status = match status(deliveries) {
        Status::AcceptedUnverified if by_file() => Status::FallbackTriggered,
        status => status,
    };
    let by_us = |it: &&Delivery| it.via == Some(Door::Squidrun) && it.delivered_at.is_some();
    let written = deliveries.iter().filter(by_us);
    let by_socket = written.clone().filter(|it| !it.agent.is_slot());
    let first = written.filter_map(|it| it.delivered_at).min();
    let latency = first.unwrap_or(now).since(row.created_at);
    SendAck {
        ws_delivery_count: u32::try_from(by_socket.count()).unwrap_or(u32::MAX),
        ack_latency_ms: u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
        trace_id: Some(row.corr_id.to_string()),
        ..send_ack(Some(row.id.to_string()), status, now)
    }
}

/// The `send-ack` of a message that so many connections have, before the ledger hears of it.
pub fn written_ack(row: &core::Message, count: u32, now: Timestamp) -> Option<SendAck> {
    let to = row.to.one();
    let status = to.map_or(Status::DeliveredWebsocket, written);
    let has_socket = status == Status::DeliveredWebsocket;
    (count > 0).then(|| SendAck {
        ws_delivery_count: if has_socket { count } else { 0 },
        trace_id: Some(row.corr_id.to_string()),
        ..send_ack(Some(row.id.to_string()), status, now)
    })
}

/// A `send-ack` that says nothing but a status.
pub fn send_ack(message_id: Option<String>, status: Status, now: Timestamp) -> SendAck {
    SendAck {
        trace_id: message_id.clone(),
        message_id,
        ok: status.is_verified(),
        accepted: status.is_accepted(),
        queued: status.is_accepted(),
        verified: status.is_verified(),
        status,
        ws_delivery_count: 0,
        handler_result: (),
        parent_event_id: None,
        timestamp: now.0,
        ack_latency_ms: 0,
        error: None,
        dedupe: None,
    }
}

/// What is known of a message that somebody asks about.
pub enum Found {
    Unknown,
    /// It is being sent.
    Pending,
    Known(Box<SendAck>),
}

/// `delivery-check-result`
pub fn delivery_check(check: DeliveryCheck, found: Found, now: Timestamp) -> Outbound {
    let status = match &found {
        _ if check.id().is_none() => CheckStatus::InvalidMessageId,
        Found::Unknown => CheckStatus::Unknown,
        Found::Pending => CheckStatus::Pending,
        Found::Known(_) => CheckStatus::Cached,
    };
    let ack = match found {
        Found::Known(ack) => Some(Box::new(Outbound::SendAck(*ack))),
        Found::Unknown | Found::Pending => None,
    };
    Outbound::DeliveryCheckResult(Checked {
        message_id: check.id().map(str::to_owned),
        request_id: check.request_id,
        timestamp: now.0,
        known: matches!(status, CheckStatus::Cached | CheckStatus::Pending),
        status,
        ack,
        pending: status == CheckStatus::Pending,
    })
}

/// The answer to a frame with a member that is wrong.
pub fn wrong(wrong: Wrong, now: Timestamp) -> Outbound {
    let Wrong { kind, why, .. } = wrong;
    let field = why.field.as_deref();
    match (&*kind, field) {
        ("send" | "broadcast", _) if wrong.ack_required => {
            let status = match field {
                Some("target") => Status::InvalidTarget,
                Some(_) | None => Status::InvalidMessage,
            };
            let error = Some(why.to_string());
            let ack = send_ack(wrong.message_id, status, now);
            Outbound::SendAck(SendAck { error, ..ack })
        }
        ("delivery-check", Some("messageId")) => {
            let check = DeliveryCheck {
                request_id: wrong.request_id,
                message_id: None,
            };
            delivery_check(check, Found::Unknown, now)
        }
        _ => Outbound::error(format!("{kind}: {why}")),
    }
}

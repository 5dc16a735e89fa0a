//! A message as a row of the journal, and which of two rows of a message counts.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use switchboard_core::assertion::AssertionStatus;
use switchboard_core::talk::Refused;
use switchboard_core::{Delivery, DeliveryState, Message, Timestamp, To};
use switchboard_store::journal::Row;
use switchboard_wire::IsoTime;
use switchboard_wire::jetpack::JournalEntry;
use switchboard_wire::squidrun::{Status, telegram, to_wire};

use super::Told;
use crate::projection::hash;

/// A row's status, in the order in which it advances. What was handed over after all did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Recorded,
    Brokered,
    Failed,
    Routed,
    Acked,
}

impl Stage {
    const ALL: [(&str, Stage); 5] = [
        ("recorded", Stage::Recorded),
        ("brokered", Stage::Brokered),
        ("failed", Stage::Failed),
        ("routed", Stage::Routed),
        ("acked", Stage::Acked),
    ];

    pub fn as_str(self) -> &'static str {
        let (word, _) = Stage::ALL[self as usize];
        word
    }

    /// A word that nobody knows is one of those that come first.
    pub fn of(row: &Row) -> Stage {
        let word = row.status.as_deref().unwrap_or_default();
        let known = Stage::ALL.iter().find(|(known, _)| *known == word);
        known.map_or(Stage::Recorded, |(_, stage)| *stage)
    }

    /// As far as the furthest of the recipients.
    fn reached(deliveries: &[Delivery]) -> Stage {
        let stages = deliveries.iter().map(|delivery| match delivery.state {
            DeliveryState::Queued => Stage::Brokered,
            DeliveryState::Handed => Stage::Routed,
            DeliveryState::Acknowledged => Stage::Acked,
            DeliveryState::Expired | DeliveryState::Failed => Stage::Failed,
        });
        // Where one still waits, it is not over for the failure of another.
        let going = stages.filter(|stage| *stage != Stage::Failed).max();
        going.unwrap_or(Stage::Failed)
    }
}

/// The name of a session in the journal.
pub fn session_id(session: u32) -> String {
    format!("app-session-{session}")
}

/// A message of the ledger. `session` is that of messages that do not say theirs.
pub fn row_of(message: &Message, deliveries: &[Delivery], session: u32, at: Timestamp) -> Row {
    let payload: Value = serde_json::from_str(&message.payload).unwrap_or_default();
    let own = payload.get("session").and_then(Value::as_u64);
    let own = own.and_then(|own| u32::try_from(own).ok());
    let own = own.or(message.given.map(|given| given.session));
    let session = own.unwrap_or(session);
    let stage = Stage::reached(deliveries);
    let target = match &message.to {
        To::Everyone => "all".to_owned(),
        To::One(agent) => agent.to_string(),
        To::Several(agents) => agents
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(","),
    };
    let error = (stage == Stage::Failed).then(|| {
        let reason = deliveries
            .iter()
            .find_map(|delivery| delivery.reason.clone());
        let without = match deliveries.is_empty() {
            true => "no_targets",
            false => "expired",
        };
        reason.map_or_else(|| without.to_owned(), String::from)
    });
    Row {
        session_id: Some(session_id(session)),
        sent_at_ms: Some(message.created_at.0),
        brokered_at_ms: Some(message.created_at.0),
        status: Some(stage.as_str().to_owned()),
        ack_status: Some(
            to_wire::ack(message, deliveries, at)
                .status
                .as_str()
                .to_owned(),
        ),
        error_code: error,
        metadata_json: Some(metadata(&payload)),
        ..said(
            message.id.as_str(),
            message.from.as_str(),
            &target,
            to_wire::content(message),
            at,
        )
    }
}

/// What was refused.
pub fn refused(refused: &Refused, session: u32) -> Row {
    let payload: Value = serde_json::from_str(&refused.payload).unwrap_or_default();
    let text = payload.get("text").and_then(Value::as_str);
    let (body, at) = (text.unwrap_or(&refused.payload), refused.at);
    Row {
        session_id: Some(session_id(session)),
        sent_at_ms: Some(at.0),
        brokered_at_ms: Some(at.0),
        status: Some(Stage::Failed.as_str().to_owned()),
        ack_status: Some(refused.reason.clone()),
        error_code: Some(refused.reason.clone()),
        metadata_json: Some(metadata(&payload)),
        ..said(
            refused.message.as_str(),
            refused.from.as_str(),
            &refused.to,
            body.to_owned(),
            at,
        )
    }
}

/// What a client did by itself: a row of its own, which nobody waits for. A message that it then left as a file is on
/// its way.
pub fn told(told: &Told, session: u32) -> Vec<Row> {
    let payload = told.event.payload.as_ref().map_or("{}", |json| json.get());
    let members: Map<String, Value> = serde_json::from_str(payload).unwrap_or_default();
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let target = text("target").unwrap_or_default();
    let own = Row {
        session_id: Some(session_id(session)),
        sent_at_ms: Some(told.at.0),
        brokered_at_ms: Some(told.at.0),
        status: Some(Stage::Acked.as_str().to_owned()),
        ack_status: Some(told.event.event_type.clone()),
        metadata_json: Some("{}".to_owned()),
        ..said(
            &told.id,
            told.by.as_str(),
            target,
            payload.to_owned(),
            told.at,
        )
    };
    let fallback = text("messageId").filter(|_| members.get("fallbackUsed") == Some(&true.into()));
    let fallback = fallback.map(|message| Row {
        message_id: message.to_owned(),
        ack_status: Some(Status::FallbackTriggered.as_str().to_owned()),
        updated_at_ms: Some(told.at.0),
        ..Row::default()
    });
    [own].into_iter().chain(fallback).collect()
}

fn metadata(payload: &Value) -> String {
    let metadata = payload
        .get("metadata")
        .filter(|metadata| metadata.is_object());
    metadata.map_or_else(|| "{}".to_owned(), Value::to_string)
}

fn said(id: &str, from: &str, to: &str, body: String, at: Timestamp) -> Row {
    let channel = match (from, to) {
        _ if id.starts_with(telegram::INBOUND) => "telegram",
        (_, "telegram") => "telegram",
        ("user", _) | (_, "user") => "user",
        _ => "ws",
    };
    let direction = match from {
        "user" => "inbound",
        _ => "outbound",
    };
    // What was too long to be kept stays as others wrote it.
    let body = Some(body).filter(|body| !body.is_empty());
    Row {
        message_id: id.to_owned(),
        sender_role: Some(from.to_owned()),
        target_role: Some(to.to_owned()),
        channel: Some(channel.to_owned()),
        direction: Some(direction.to_owned()),
        body_hash: body.as_ref().map(|body| hash(body.as_bytes())),
        body_bytes: body
            .as_ref()
            .and_then(|body| i64::try_from(body.len()).ok()),
        raw_body: body,
        attempt: Some(1),
        updated_at_ms: Some(at.0),
        ..Row::default()
    }
}

/// Of the metadata: what somebody said of the claim at this place of the message.
const CLAIM: &str = "claim:";

/// A row with what was said of its claims.
pub fn with_judged(row: Row, judged: &BTreeMap<u32, &str>) -> Row {
    let members = judged
        .iter()
        .map(|(line, status)| (format!("{CLAIM}{line}"), Value::from(*status)));
    let members = Value::Object(members.collect()).to_string();
    let metadata_json = merge_metadata(row.metadata_json.as_deref(), Some(&members));
    Row {
        metadata_json,
        ..row
    }
}

/// What was said of the claims of a message, by their places.
pub fn judged(row: &Row) -> BTreeMap<u32, AssertionStatus> {
    let metadata = row.metadata_json.as_deref().unwrap_or_default();
    if !metadata.contains(CLAIM) {
        return BTreeMap::new();
    }
    let members: Map<String, Value> = serde_json::from_str(metadata).unwrap_or_default();
    let of_claim = |(name, status): (&String, &Value)| {
        let line = name.strip_prefix(CLAIM)?.parse().ok()?;
        Some((line, AssertionStatus::parse(status.as_str()?)?))
    };
    members.iter().filter_map(of_claim).collect()
}

/// As programs read it.
pub fn shown(row: Row) -> JournalEntry {
    let at = row.brokered_at_ms.or(row.sent_at_ms).or(row.updated_at_ms);
    JournalEntry {
        message_id: row.message_id,
        session_id: row.session_id,
        from: row.sender_role,
        to: row.target_role,
        channel: row.channel,
        at: at.map(IsoTime),
        status: row.status,
        ack_status: row.ack_status,
        error_code: row.error_code,
        text: row.raw_body,
    }
}

/// One row of what is there and what is new: the status only advances, and nothing of the metadata is lost.
pub fn merge(there: &Row, new: &Row) -> Row {
    let mut row = new.clone();
    if Stage::of(new) < Stage::of(there) {
        row.status = there.status.clone();
        // Without a status it is a word about a message that nobody has yet.
        if new.status.is_some() || Stage::of(there) >= Stage::Routed {
            row.ack_status = there.ack_status.clone().or(row.ack_status);
        }
        row.error_code = there.error_code.clone();
    }
    row.sent_at_ms = there.sent_at_ms.into_iter().chain(new.sent_at_ms).min();
    row.brokered_at_ms = there.brokered_at_ms.max(new.brokered_at_ms);
    row.attempt = there.attempt.max(new.attempt);
    row.updated_at_ms = there.updated_at_ms.max(new.updated_at_ms);
    row.metadata_json =
        merge_metadata(there.metadata_json.as_deref(), new.metadata_json.as_deref());
    row
}

fn merge_metadata(there: Option<&str>, new: Option<&str>) -> Option<String> {
    let members =
        |text: Option<&str>| -> Option<Map<String, Value>> { serde_json::from_str(text?).ok() };
    match (members(there), members(new)) {
        (Some(mut there), Some(new)) => {
            there.extend(new);
            Some(Value::Object(there).to_string())
        }
        (None, Some(new)) => Some(Value::Object(new).to_string()),
        // It stays as it is.
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(stage: Stage, at: i64, metadata: Option<&str>) -> Row {
        Row {
            message_id: "m".to_owned(),
            status: Some(stage.as_str().to_owned()),
            ack_status: Some(format!("ack of {at}")),
            sent_at_ms: Some(at),
            brokered_at_ms: Some(at),
            updated_at_ms: Some(at),
            attempt: Some(at),
            metadata_json: metadata.map(str::to_owned),
            ..Row::default()
        }
    }

    #[test]
    fn a_status_only_advances() {
        for (there_is, (_, there)) in Stage::ALL.iter().enumerate() {
            for (new_is, (_, new)) in Stage::ALL.iter().enumerate() {
                let merged = merge(&row(*there, 1, None), &row(*new, 2, None));
                assert_eq!(Stage::of(&merged) as usize, there_is.max(new_is));
                let ack = if new_is >= there_is {
                    "ack of 2"
                } else {
                    "ack of 1"
                };
                assert_eq!(merged.ack_status.as_deref(), Some(ack));
            }
        }
        let unknown = Row {
            status: Some("theirs".to_owned()),
            ..row(Stage::Acked, 1, None)
        };
        assert_eq!(
            Stage::of(&merge(&unknown, &row(Stage::Brokered, 2, None))),
            Stage::Brokered
        );
    }

    #[test]
    fn of_two_rows_the_first_sending_the_last_brokering_and_all_metadata_count() {
        for (first, second) in [(1, 2), (2, 1)] {
            let merged = merge(
                &row(Stage::Recorded, first, Some(r#"{"theirs":1,"both":1}"#)),
                &row(Stage::Brokered, second, Some(r#"{"both":2}"#)),
            );
            assert_eq!(merged.sent_at_ms, Some(1));
            assert_eq!(merged.brokered_at_ms, Some(2));
            assert_eq!(merged.attempt, Some(2));
            let metadata: Value = serde_json::from_str(&merged.metadata_json.unwrap()).unwrap();
            assert_eq!(metadata, serde_json::json!({ "theirs": 1, "both": 2 }));
        }
        let none = Row {
            sent_at_ms: None,
            ..row(Stage::Recorded, 1, Some("no JSON"))
        };
        let merged = merge(&none, &row(Stage::Brokered, 5, Some("{}")));
        assert_eq!(merged.sent_at_ms, Some(5));
        assert_eq!(merged.metadata_json.as_deref(), Some("{}"));
    }
}

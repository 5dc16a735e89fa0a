//! Every message, byte for byte: read, written, compared.

use std::collections::BTreeSet;

use switchboard_wire::agentbus::envelope::{self, Header};
use switchboard_wire::agentbus::message::{Inbound, MESSAGES, Message, MessageType, Outbound};
use switchboard_wire::agentbus::{Role, UtcTime};

use super::{golden_line, golden_names};

/// Messages of which one member excludes another, so that no sample can have all.
const EXCLUSIVE: &[&str] = &["budget_grant.v1"];

fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").expect("a frame ends its line")
}

#[test]
fn every_golden_frame_is_written_as_it_was_read() {
    // agentbus.accept.envelope_stable, agentbus.accept.types_enumerated
    let mut seen = BTreeSet::new();
    for name in golden_names() {
        let line = golden_line(&name);
        let frame = envelope::decode(without_end(&line)).unwrap_or_else(|f| panic!("{name}: {f}"));
        let header = Header {
            sent_at: frame.sent_at,
            sender: &frame.sender,
            seq: frame.seq,
        };
        let mut out = Vec::new();
        if name.starts_with("envelope.") {
            envelope::encode(header, &frame.message_type, frame.payload, &mut out);
            assert_eq!(out, line, "{name}");
            continue;
        }
        let inbound = Inbound::decode(&frame).map(|read| read.unwrap_or_else(|f| panic!("{f}")));
        let outbound = Outbound::decode(&frame).map(|read| read.unwrap_or_else(|f| panic!("{f}")));
        assert!(inbound.is_some() || outbound.is_some(), "{name}");
        let mut shown = String::new();
        if let Some(message) = inbound {
            envelope::encode(header, message.message_type().as_str(), &message, &mut out);
            assert_eq!(out, line, "{name}");
            shown = format!("{message:?}");
        }
        if let Some(message) = outbound {
            out.clear();
            let message = message.into_owned();
            envelope::encode(header, message.message_type().as_str(), &message, &mut out);
            assert_eq!(out, line, "{name}");
            shown = format!("{message:?}");
        }
        if name.ends_with(".v1") && !EXCLUSIVE.contains(&name.as_str()) {
            assert!(!shown.contains("None"), "{name} lacks a member: {shown}");
            seen.insert(name);
        }
    }
    for message in MessageType::ALL {
        let name = message.as_str();
        assert!(
            seen.contains(name) || EXCLUSIVE.contains(&name),
            "no golden frame of {name}"
        );
    }
}

#[test]
fn golden_frames_come_from_whom_the_table_allows() {
    for name in golden_names() {
        let line = golden_line(&name);
        let frame = envelope::decode(without_end(&line)).expect("an envelope");
        let message: MessageType = frame.message_type.parse().expect("a known type");
        assert!(message.may_come_from(frame.sender.role), "{name}");
    }
    let roles = |from: Role| {
        MESSAGES
            .iter()
            .filter(move |usage| usage.from.contains(&from))
            .map(|usage| usage.message)
            .collect::<BTreeSet<_>>()
    };
    // A worker cannot say what only a director or an operator may say, and the other way round.
    for forbidden in [
        MessageType::OperatorCommand,
        MessageType::ProtocolWelcome,
        MessageType::TaskAssigned,
        MessageType::ProjectStateSnapshot,
        MessageType::SyncRequired,
    ] {
        assert!(!roles(Role::Worker).contains(&forbidden), "{forbidden}");
    }
    for forbidden in [
        MessageType::Heartbeat,
        MessageType::WorkerError,
        MessageType::TaskResult,
        MessageType::TaskAccepted,
        MessageType::BudgetRequest,
    ] {
        assert!(!roles(Role::Operator).contains(&forbidden), "{forbidden}");
    }
}

#[test]
fn unknown_members_are_tolerated_everywhere_and_stay_when_a_frame_is_passed_on() {
    for name in golden_names() {
        let line = golden_line(&name);
        let mut value = serde_json::from_slice(&line).expect("JSON");
        sprinkle(&mut value);
        let text = value.to_string();
        let frame = envelope::decode(text.as_bytes()).unwrap_or_else(|f| panic!("{name}: {f}"));
        if !name.starts_with("envelope.") {
            let inbound = Inbound::decode(&frame).is_none_or(|read| read.is_ok());
            let outbound = Outbound::decode(&frame).is_none_or(|read| read.is_ok());
            assert!(inbound && outbound, "{name}");
        }
        let mut out = Vec::new();
        frame.passed_on(4711, &mut out);
        let mut passed: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(passed["seq"], 4711);
        passed["seq"] = value["seq"].clone();
        assert_eq!(passed, value, "{name}");
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
}

fn sprinkle(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            members.values_mut().for_each(sprinkle);
            members.insert("something_new".to_owned(), serde_json::json!([{ "a": 1 }]));
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(sprinkle),
        _ => {}
    }
}

#[test]
fn the_documents_example_is_an_envelope() {
    let line = golden_line("envelope.document");
    let frame = envelope::decode(without_end(&line)).expect("an envelope");
    assert_eq!(frame.message_type, "heartbeat.v1");
    assert_eq!(frame.sent_at, UtcTime(1_770_854_400_000));
    assert_eq!(frame.sender.role, Role::Worker);
    assert_eq!(frame.sender.id, "worker-3-1707600000");
    assert_eq!(frame.sender.run_id.as_deref(), Some("run_20260212-000000Z"));
    assert_eq!(frame.seq, 42);
    assert_eq!(
        frame.payload.get(),
        r#"{"state":{"stage":"CODE","issue_number":21}}"#
    );
}

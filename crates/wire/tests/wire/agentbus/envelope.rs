//! Every fault that an envelope can have, and every frame that can be written.

use serde_json::{Value, json};
use switchboard_core::limits;
use switchboard_wire::Json;
use switchboard_wire::agentbus::envelope::{self, FrameWriter, Sender, decode};
use switchboard_wire::agentbus::message::{
    AgentMessage, MessageType, OperatorAck, Outbound, TaskRevoked,
};
use switchboard_wire::agentbus::{ErrorCode, Flag, Role, Text, UtcTime};

use super::{golden, set, take};

fn fault(line: &[u8]) -> (Flag, String, Option<u64>) {
    let fault = decode(line).expect_err("refused");
    let error = fault.clone().into_error();
    assert_eq!(error.code, fault.flag.code());
    (fault.flag, fault.message, fault.ref_seq)
}

#[test]
fn a_frame_without_a_required_member_is_refused_by_its_name() {
    // agentbus.envelope.required
    for (pointer, field) in [
        ("/schema_version", "schema_version"),
        ("/message_type", "message_type"),
        ("/sent_at", "sent_at"),
        ("/sender", "sender"),
        ("/sender/role", "sender.role"),
        ("/sender/id", "sender.id"),
        ("/seq", "seq"),
        ("/payload", "payload"),
    ] {
        let mut frame = golden("heartbeat.v1");
        take(&mut frame, pointer);
        let (flag, message, seq) = fault(frame.to_string().as_bytes());
        assert_eq!(flag, Flag::BadEnvelope, "{field}");
        assert_eq!(message, format!("{field}: is required"));
        assert_eq!(seq.is_some(), pointer != "/seq", "{field}");
    }
    // agentbus.envelope.run_id_optional
    let mut frame = golden("heartbeat.v1");
    take(&mut frame, "/sender/run_id");
    decode(frame.to_string().as_bytes()).expect("run_id may be left out");
}

#[test]
fn every_member_is_checked() {
    // agentbus.envelope.sent_at, .sender_role, .sender_id, .payload_object, .message_type
    let long = "x".repeat(limits::ID_BYTES_MAX + 1);
    for (pointer, value, field, expected) in [
        ("/message_type", json!(7), "message_type", "a string"),
        ("/message_type", json!(""), "message_type", "empty"),
        ("/sent_at", json!("yesterday"), "sent_at", "UTC"),
        ("/sent_at", json!("2026-02-12T00:00:00"), "sent_at", "UTC"),
        (
            "/sent_at",
            json!("2026-02-12T02:00:00+02:00"),
            "sent_at",
            "UTC",
        ),
        ("/sent_at", json!(1_770_854_400), "sent_at", "UTC"),
        ("/sender", json!("worker-3"), "sender", "expected"),
        ("/sender", json!(["worker", "w"]), "sender", "expected"),
        ("/sender/role", json!("boss"), "sender.role", "director"),
        ("/sender/role", json!("Worker"), "sender.role", "director"),
        ("/sender/id", json!(""), "sender.id", "empty"),
        ("/sender/id", json!("a b"), "sender.id", "spaces"),
        ("/sender/id", json!("a\u{7}b"), "sender.id", "control"),
        ("/sender/id", json!(long), "sender.id", "128 bytes"),
        ("/sender/id", json!(3), "sender.id", "a string"),
        ("/sender/run_id", json!(3), "sender.run_id", "a string"),
        ("/seq", json!(-1), "seq", "whole number"),
        ("/seq", json!(1.5), "seq", "whole number"),
        ("/seq", json!(42.0), "seq", "whole number"),
        ("/seq", json!("42"), "seq", "whole number"),
        ("/seq", json!(9_007_199_254_740_993_u64), "seq", "2^53"),
        ("/seq", json!(null), "seq", "whole number"),
        ("/payload", json!([1]), "payload", "an object"),
        ("/payload", json!(null), "payload", "an object"),
        ("/payload", json!("{}"), "payload", "an object"),
        ("/payload", json!(7), "payload", "an object"),
    ] {
        let mut frame = golden("heartbeat.v1");
        set(&mut frame, pointer, value.clone());
        let (flag, message, _) = fault(frame.to_string().as_bytes());
        assert_eq!(flag, Flag::BadEnvelope, "{pointer} {value}");
        assert!(
            message.starts_with(&format!("{field}: ")) && message.contains(expected),
            "{pointer} {value}: {message}"
        );
        assert!(message.len() < 300, "{message}");
    }
    for seq in [0, 1, 9_007_199_254_740_991_u64, 9_007_199_254_740_992] {
        let mut frame = golden("heartbeat.v1");
        set(&mut frame, "/seq", json!(seq));
        let text = frame.to_string();
        assert_eq!(decode(text.as_bytes()).expect("an envelope").seq, seq);
    }
}

#[test]
fn an_envelope_of_another_version_is_told_apart_whatever_else_it_has() {
    // agentbus.envelope.schema_version
    for frame in [
        r#"{"schema_version":"agentbus-envelope/v2"}"#.to_owned(),
        r#"{"schema_version":"","seq":"x"}"#.to_owned(),
        {
            let mut frame = golden("heartbeat.v1");
            set(&mut frame, "/schema_version", json!("agentbus-envelope/v9"));
            frame.to_string()
        },
    ] {
        let (flag, message, _) = fault(frame.as_bytes());
        assert_eq!(flag, Flag::UnknownSchema, "{frame}");
        assert!(message.contains("agentbus-envelope/v1"), "{message}");
        assert_eq!(flag.code(), ErrorCode::BadEnvelope);
    }
    let (flag, message, _) = fault(br#"{"schema_version":1}"#);
    assert_eq!(flag, Flag::BadEnvelope);
    assert!(message.starts_with("schema_version: "), "{message}");
}

#[test]
fn what_is_no_json_object_is_refused() {
    // agentbus.framing.ndjson, agentbus.framing.no_length_prefix
    let good = golden("heartbeat.v1").to_string();
    for (line, flag) in [
        (b"[1,2]".to_vec(), Flag::BadEnvelope),
        (b"\"text\"".to_vec(), Flag::BadEnvelope),
        (b"17".to_vec(), Flag::BadEnvelope),
        (b"null".to_vec(), Flag::BadEnvelope),
        (b"{}".to_vec(), Flag::BadEnvelope),
        (b"".to_vec(), Flag::BadJson),
        (b"   ".to_vec(), Flag::BadJson),
        (b"nonsense".to_vec(), Flag::BadJson),
        (b"\x00\x00\x01\x02{}".to_vec(), Flag::BadJson),
        (b"\xff\xfe".to_vec(), Flag::BadJson),
        (format!("{good}{good}").into_bytes(), Flag::BadJson),
        (format!("{good},").into_bytes(), Flag::BadJson),
        (good.as_bytes()[..good.len() - 1].to_vec(), Flag::BadJson),
    ] {
        let shown = String::from_utf8_lossy(&line).into_owned();
        assert_eq!(fault(&line).0, flag, "{shown}");
    }
    let array = format!("[{good}]");
    assert_eq!(fault(array.as_bytes()).0, Flag::BadEnvelope);
}

#[test]
fn invalid_utf8_is_refused_also_where_nobody_looks() {
    let good = golden("heartbeat.v1").to_string();
    let mut line = good.as_bytes()[..good.len() - 1].to_vec();
    line.extend_from_slice(b",\"unknown\":\"\xff\"}");
    let (flag, message, _) = fault(&line);
    assert_eq!(flag, Flag::BadJson);
    assert!(message.contains("UTF-8"), "{message}");
}

#[test]
fn deep_json_is_refused_and_never_overflows() {
    let good = golden("heartbeat.v1").to_string();
    for open in ["[", "{\"a\":"] {
        let line = format!(
            "{},\"deep\":{}",
            &good[..good.len() - 1],
            open.repeat(200_000)
        );
        assert_eq!(fault(line.as_bytes()).0, Flag::BadJson);
    }
    let deep = format!(
        "{},\"deep\":{}{}}}",
        &good[..good.len() - 1],
        "[".repeat(500),
        "]".repeat(500)
    );
    let (flag, message, _) = fault(deep.as_bytes());
    assert_eq!(flag, Flag::BadJson);
    assert!(message.contains("deep"), "{message}");
}

#[test]
fn a_member_named_twice_is_refused() {
    let good = golden("heartbeat.v1").to_string();
    for twice in [
        format!("{},\"seq\":9}}", &good[..good.len() - 1]),
        format!("{},\"payload\":{{}}}}", &good[..good.len() - 1]),
    ] {
        let (flag, message, _) = fault(twice.as_bytes());
        assert_eq!(flag, Flag::BadEnvelope);
        assert!(message.contains("duplicate"), "{message}");
    }
    let unknown = format!("{},\"x\":1,\"x\":2}}", &good[..good.len() - 1]);
    decode(unknown.as_bytes()).expect("nobody reads them");
}

fn director() -> Sender<'static> {
    Sender {
        role: Role::Director,
        id: Text::from("director"),
        run_id: None,
    }
}

#[test]
fn frames_are_numbered_from_one_and_end_their_line() {
    // agentbus.framing.newline_terminated
    let mut writer = FrameWriter::new(director());
    let mut out = Vec::new();
    let revoked = TaskRevoked {
        issue_number: 1,
        epoch: 1,
        reason: "two\nlines".to_owned(),
        corr_id: None,
    };
    let ack = OperatorAck {
        ref_seq: 1,
        ok: true,
        message: String::new(),
    };
    writer.write(UtcTime(0), &revoked, &mut out);
    writer.write(UtcTime(1), &Outbound::from(ack), &mut out);
    let lines: Vec<&[u8]> = out.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 2);
    for (number, line) in (1..).zip(lines) {
        let frame = decode(line.strip_suffix(b"\n").expect("an end")).expect("an envelope");
        assert_eq!(frame.seq, number);
        assert_eq!(frame.sender, director());
    }
    assert_eq!(writer.seq(), 2);
}

#[test]
fn json_that_is_kept_verbatim_never_breaks_a_line() {
    let message = AgentMessage {
        message_id: "m".to_owned(),
        from: "a".to_owned(),
        to: None,
        kind: "custom".to_owned(),
        body: Json::from_text("{\r\n  \"text\": \"a\\nb\"\n}".to_owned()).expect("JSON"),
        ack_required: false,
        priority: None,
        redelivered: false,
        redacted: 0,
        corr_id: None,
        part: 0,
        parts: 1,
    };
    let mut out = Vec::new();
    FrameWriter::new(director()).write(UtcTime(0), &message, &mut out);
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
    let frame: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(frame["payload"]["body"]["text"], "a\nb");
}

#[test]
fn the_room_of_a_payload_is_what_the_envelope_leaves() {
    let sender = director();
    let name = MessageType::TaskRevoked.as_str();
    let room = envelope::room(400, name, &sender);
    for (len, fits) in [(room - 1, true), (room, true), (room + 1, false)] {
        let payload = json!({ "x": "y".repeat(len - r#"{"x":""}"#.len()) });
        let header = envelope::Header {
            sent_at: UtcTime(1_770_854_400_123),
            sender: &sender,
            seq: envelope::SEQ_MAX,
        };
        let mut out = Vec::new();
        envelope::encode(header, name, &payload, &mut out);
        assert_eq!(out.len() - 1 <= 400, fits, "{len} of {room}");
    }
    assert_eq!(envelope::room(10, name, &sender), 0);
}

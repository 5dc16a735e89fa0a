//! Frames that are wrong, larger than they may be, or newer than this hub.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_core::limits;
use switchboard_wire::squidrun::frame::{self, Inbound, NotAFrame};
use switchboard_wire::squidrun::to_wire;

use super::{NOW, golden, print};

fn read(frame: &Value) -> Result<Inbound, NotAFrame> {
    frame::read(frame.to_string().as_bytes())
}

fn answer(frame: &Value) -> Value {
    match read(frame) {
        Err(NotAFrame::Wrong(wrong)) => {
            let answer = print(&to_wire::wrong(*wrong, NOW));
            serde_json::from_str(&answer).expect("JSON")
        }
        other => panic!("{frame}: {other:?}"),
    }
}

#[test]
fn what_is_no_frame_is_passed_over() {
    let deep = format!("{{\"type\":\"send\",\"x\":{}", "[".repeat(200));
    let texts = [
        "",
        "  ",
        "hello",
        "{",
        "[]",
        "[{}]",
        "null",
        "{}",
        "{\"type\":1}",
    ];
    for text in texts.into_iter().chain(["{\"type\":\"send\"", &deep]) {
        assert_eq!(
            frame::read(text.as_bytes()),
            Err(NotAFrame::Noise),
            "{text}"
        );
    }
    assert_eq!(frame::read(b"{\"type\":\"\xff\"}"), Err(NotAFrame::Noise));
}

#[test]
fn unknown_types_and_members_are_tolerated() {
    let unknown = |request_id: Value| json!({ "type": "evidence-ledger", "requestId": request_id });
    for (request, kept) in [
        (json!("r"), Some("r".to_owned())),
        (json!(null), None),
        (json!(5), None),
        (json!("x".repeat(1000)), None),
    ] {
        let Ok(Inbound::Other { request_id, .. }) = read(&unknown(request)) else {
            panic!("unknown types are other frames");
        };
        assert_eq!(request_id, kept);
    }
    for name in [
        "in.register",
        "in.send",
        "in.delivery-check",
        "in.health-check",
    ] {
        let line = golden(name);
        let mut frame: Value = serde_json::from_str(&line).expect("JSON");
        frame["newer"] = json!({ "x": [1, 2] });
        assert!(read(&frame).is_ok(), "{frame}");
    }
    let nulls = json!({ "type": "send", "target": "builder", "content": "x", "priority": null, "metadata": null,
        "messageId": null, "ackRequired": null, "attempt": null, "traceContext": null });
    assert!(read(&nulls).is_ok());
}

#[test]
fn a_wrong_member_is_named_in_the_answer() {
    let send = |member: &str, value: Value| {
        let mut frame = json!({ "type": "send", "target": "builder", "content": "x", "messageId": "m",
            "ackRequired": true });
        frame[member] = value;
        answer(&frame)
    };
    for (member, value, status, error) in [
        (
            "content",
            json!(5),
            "invalid_message",
            "content: expected a string, not 5",
        ),
        (
            "metadata",
            json!([1]),
            "invalid_message",
            "metadata: expected an object",
        ),
        (
            "metadata",
            json!("x"),
            "invalid_message",
            "metadata: expected an object",
        ),
        (
            "traceContext",
            json!("x"),
            "invalid_message",
            "traceContext: expected an object, not \"x\"",
        ),
        (
            "traceContext",
            json!({ "traceId": "a b" }),
            "invalid_message",
            "traceContext.traceId: must not have spaces or control characters",
        ),
        (
            "attempt",
            json!(-1),
            "invalid_message",
            "attempt: expected a whole number, 0 or more, not -1",
        ),
        (
            "target",
            json!(["builder"]),
            "invalid_target",
            "target: expected a string, not a list",
        ),
    ] {
        let ack = send(member, value);
        let told = (&ack["type"], &ack["messageId"], &ack["accepted"]);
        assert_eq!(
            told,
            (&json!("send-ack"), &json!("m"), &json!(false)),
            "{ack}"
        );
        assert_eq!(
            (&ack["status"], &ack["error"]),
            (&json!(status), &json!(error))
        );
    }
    assert_eq!(send("messageId", json!("a b"))["messageId"], Value::Null);
    for (frame, told) in [
        (
            json!({ "type": "send", "target": "builder" }),
            "send: content: is required",
        ),
        (json!({ "type": "register" }), "register: role: is required"),
        (
            json!({ "type": "register", "role": 2 }),
            "register: role: expected a string, not 2",
        ),
        (
            json!({ "type": "receipt" }),
            "receipt: traceId: is required",
        ),
        (
            json!({ "type": "health-check", "target": "builder", "staleAfterMs": "x" }),
            "health-check: staleAfterMs: expected a number, not \"x\"",
        ),
        (
            json!({ "type": "comms-event", "eventType": "e", "payload": 1 }),
            "comms-event: payload: expected an object",
        ),
        (
            json!({ "type": "background-agent", "action": {}, "requestId": "b" }),
            "background-agent: action: expected a string, not an object",
        ),
    ] {
        assert_eq!(answer(&frame), json!({ "type": "error", "message": told }));
    }
    let check = answer(&json!({ "type": "delivery-check", "requestId": "d", "messageId": 1 }));
    assert_eq!(
        (&check["status"], &check["known"]),
        (&json!("invalid_message_id"), &json!(false))
    );
}

#[test]
fn every_text_is_bounded() {
    let (id, name) = (limits::ID_BYTES_MAX, limits::NAME_BYTES_MAX);
    let payload = limits::PAYLOAD_BYTES_MAX;
    let object = |bytes: usize| json!({ "x": "y".repeat(bytes - r#"{"x":""}"#.len()) });
    let text = |bytes: usize| json!("x".repeat(bytes));
    for (name, member, max, made) in [
        ("in.register", "role", id, &text as &dyn Fn(usize) -> Value),
        ("in.register", "profileName", name, &text),
        ("in.register", "windowKey", name, &text),
        ("in.register", "sessionScopeId", name, &text),
        ("in.register", "token", name, &text),
        ("in.health-check", "target", id, &text),
        ("in.health-check", "requestId", id, &text),
        ("in.send", "target", id, &text),
        ("in.send", "content", payload, &text),
        ("in.send", "priority", name, &text),
        ("in.send", "messageId", id - 3, &text),
        ("in.send", "metadata", payload, &object),
        ("in.receipt", "traceId", id, &text),
        ("in.delivery-check", "requestId", id, &text),
        ("in.comms-event", "eventType", name, &text),
        ("in.comms-event", "payload", payload, &object),
        ("in.background-agent", "action", name, &text),
        ("in.background-agent", "payload", payload, &object),
        ("in.background-agent", "requestId", id, &text),
    ] {
        let mut frame: Value = serde_json::from_str(&golden(name)).expect("JSON");
        for (bytes, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
            frame[member] = made(bytes);
            assert_eq!(read(&frame).is_ok(), fits, "{name} {member} {bytes}");
        }
        let told = answer(&frame).to_string();
        assert!(
            told.contains(&format!("{member}: is longer than {max} bytes")),
            "{told}"
        );
    }
}

#[test]
fn a_threshold_that_is_not_positive_is_a_minute() {
    for (given, used) in [
        (json!(5000), 5000),
        (json!(1.5), 1),
        (json!(0.5), 60_000),
        (json!(0), 60_000),
        (json!(-5), 60_000),
        (json!(null), 60_000),
        (json!(1e300), i64::MAX),
    ] {
        let frame = json!({ "type": "health-check", "target": "builder", "staleAfterMs": given });
        let Ok(Inbound::HealthCheck(check)) = read(&frame) else {
            panic!("{frame}");
        };
        assert_eq!(check.stale_after_ms(), used, "{frame}");
    }
}

#[test]
fn a_token_is_not_shown() {
    let read = read(&json!({ "type": "register", "role": "builder", "token": "secret" }));
    assert!(!format!("{read:?}").contains("secret"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_frame_or_none(bytes: Vec<u8>) {
        let _ = frame::read(&bytes);
    }

    #[test]
    fn any_value_in_any_member_is_taken_or_named(
        kind in prop::sample::select(vec!["register", "health-check", "send", "broadcast", "receipt",
            "delivery-check", "comms-event", "background-agent"]),
        member in prop::sample::select(vec!["role", "target", "content", "priority", "metadata", "messageId",
            "ackRequired", "attempt", "traceContext", "traceId", "requestId", "staleAfterMs", "eventType",
            "payload", "action", "token"]),
        value in prop::sample::select(vec![json!(null), json!(true), json!(-1), json!(1e300), json!(""),
            json!("\u{0}"), json!("x"), json!([]), json!({}), json!({ "traceId": 1 })]),
    ) {
        let mut frame = json!({ "type": kind, "role": "arch", "target": "builder", "content": "x",
            "traceId": "t", "messageId": "m", "requestId": "r", "eventType": "e" });
        frame[member] = value;
        if let Err(NotAFrame::Wrong(wrong)) = read(&frame) {
            let told = print(&to_wire::wrong(*wrong, NOW));
            prop_assert!(serde_json::from_str::<Value>(&told).is_ok() && told.len() < 1000, "{}", told);
        }
    }
}

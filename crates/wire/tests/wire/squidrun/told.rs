//! What recipients get of each dialect, and what senders are told.

use serde_json::{Value, json};
use switchboard_core::id::{HUB, HUB_ROLE};
use switchboard_core::talk::Given;
use switchboard_core::{Delivery, DeliveryState, Door, Message, Priority, Received, To};
use switchboard_wire::squidrun::{Saying, Status, to_wire};

use super::{NOW, SESSION, delivery, print, received, row, say, saying};

fn frame(received: &Received, session: u32) -> Value {
    serde_json::from_str(&print(&to_wire::message(received, session))).expect("JSON")
}

fn foreign(payload: Value) -> Received {
    let payload = serde_json::to_string_pretty(&payload).expect("JSON");
    Received {
        message: row(
            "m1".into(),
            To::One("builder".into()),
            "task.help_needed",
            &payload,
        ),
        priority: Priority::High,
        redelivered: false,
    }
}

#[test]
fn what_another_dialect_says_gets_a_header() {
    for (payload, content) in [
        (json!({ "text": "hello", "x": 1 }), "(CLAUDE-1 #7): hello"),
        (
            json!({ "subject": "Build", "body": "is red" }),
            "(CLAUDE-1 #7): Build: is red",
        ),
        (
            json!({ "subject": "Build" }),
            r#"(CLAUDE-1 #7): {"subject":"Build"}"#,
        ),
        (
            json!({ "a": ["b c", 1] }),
            r#"(CLAUDE-1 #7): {"a":["b c",1]}"#,
        ),
        (json!("plain"), "(CLAUDE-1 #7): plain"),
        (json!(null), "(CLAUDE-1 #7): null"),
    ] {
        let told = frame(&foreign(payload), SESSION);
        assert_eq!(
            (&told["content"], &told["from"]),
            (&json!(content), &json!("claude/1"))
        );
        assert_eq!(
            (&told["priority"], &told["metadata"]),
            (&json!("high"), &Value::Null)
        );
    }
}

#[test]
fn a_header_made_for_somebody_is_one_that_can_be_read() {
    for (from, header) in [
        ("claude/1", "CLAUDE-1"),
        ("builder-2", "BUILDER-2"),
        ("-ä-", "AGENT"),
        (HUB, "HUB"),
        (HUB_ROLE, "HUB"),
    ] {
        let mut received = foreign(json!({ "text": "x" }));
        received.message.from = from.into();
        let told = frame(&received, SESSION);
        assert_eq!(
            told["content"],
            json!(format!("({header} #7): x")),
            "{from}"
        );
    }
    let mut received = foreign(json!({ "text": "x" }));
    received.message.from = HUB.into();
    assert_eq!(frame(&received, SESSION)["from"], "hub");
}

#[test]
fn a_number_that_the_hub_gave_is_shown_everywhere_and_tells_of_its_session() {
    let mut received = foreign(json!({ "text": "x" }));
    assert_eq!(to_wire::content(&received.message), "x");
    received.message.given = Some(Given {
        session: SESSION,
        number: 3,
    });
    let told = frame(&received, SESSION);
    assert_eq!(told["content"], "(CLAUDE-1 #3): x");
    assert_eq!(told["metadata"], Value::Null);
    assert_eq!(to_wire::content(&received.message), "(CLAUDE-1 #3): x");
    let told = frame(&received, SESSION + 1);
    assert_eq!(told["content"], "(CLAUDE-1 #3): x", "never renumbered");
    let marked = json!({ "delayed": true, "sessionId": "app-session-3" });
    assert_eq!(told["metadata"], marked);
    let own = super::received(&say(saying("1", "2", "(ARCH #4): x")));
    assert_eq!(to_wire::content(&own.message), "(ARCH #4): x");
}

#[test]
fn a_text_that_must_be_acknowledged_says_so_after_its_header() {
    let mut received = foreign(json!({ "text": "stop" }));
    received.message.ack_required = true;
    let asked = json!("(CLAUDE-1 #7): [ACK REQUIRED] stop");
    assert_eq!(frame(&received, SESSION)["content"], asked);
    received.message.payload = r#"{"text":"[URGENT] [ACK REQUIRED] stop"}"#.into();
    let tagged = json!("(CLAUDE-1 #7): [URGENT] [ACK REQUIRED] stop");
    assert_eq!(frame(&received, SESSION)["content"], tagged);
    let text = "(ARCH #4): [ACK REQUIRED] stop";
    let own = super::received(&say(saying("1", "2", text)));
    assert!(own.message.ack_required);
    assert_eq!(frame(&own, SESSION)["content"], json!(text));
}

#[test]
fn a_message_is_marked_as_delayed_and_as_redelivered() {
    let metadata = Some(json!({ "a": 1 }).into());
    let mut late = received(&say(Saying {
        metadata,
        ..saying("1", "2", "(ARCH #1): x")
    }));
    assert_eq!(frame(&late, SESSION)["metadata"], json!({ "a": 1 }));
    late.redelivered = true;
    let marked = json!({ "a": 1, "redelivered": true });
    assert_eq!(frame(&late, SESSION)["metadata"], marked);
    let marked =
        json!({ "a": 1, "delayed": true, "sessionId": "app-session-3", "redelivered": true });
    assert_eq!(frame(&late, SESSION + 1)["metadata"], marked);
}

#[test]
fn a_frame_keeps_the_priority_that_its_sender_gave() {
    let priority = |word: Option<&str>, text: &str| {
        let priority = word.map(str::to_owned);
        let said = say(Saying {
            priority,
            ..saying("1", "2", text)
        });
        frame(&received(&said), SESSION)["priority"].clone()
    };
    assert_eq!(priority(None, "[URGENT] x"), "normal");
    assert_eq!(priority(Some("high"), "[URGENT] x"), "high");
    for (inside, word) in [
        (Priority::Critical, "urgent"),
        (Priority::High, "high"),
        (Priority::Medium, "normal"),
        (Priority::Low, "low"),
    ] {
        let mut received = foreign(json!({ "text": "x" }));
        received.priority = inside;
        assert_eq!(frame(&received, SESSION)["priority"], word);
    }
}

#[test]
fn a_delegated_task_is_named_at_the_end() {
    let said = received(&say(saying("1", "2", "(ARCH #1): [TASK] fix it")));
    let task = to_wire::task_of(&said.message).expect("it delegates one");
    assert_eq!(task.as_str(), "sq:m1");
    let told = print(&to_wire::with_task(to_wire::message(&said, SESSION), 12));
    assert!(
        told.contains(r#""content":"(ARCH #1): [TASK] fix it (task #12)""#),
        "{told}"
    );
    let plain = received(&say(saying("1", "2", "(ARCH #1): later [TASK]")));
    assert_eq!(to_wire::task_of(&plain.message), None);
}

#[test]
fn the_ladder_follows_state_and_door() {
    use DeliveryState::{Acknowledged, Expired, Failed, Handed, Queued};
    let failed = |reason: &str| Delivery {
        reason: Some(reason.into()),
        ..delivery(Failed, None)
    };
    for (row, status) in [
        (delivery(Queued, None), Status::AcceptedUnverified),
        (
            delivery(Queued, Some(Door::Squidrun)),
            Status::AcceptedUnverified,
        ),
        (
            delivery(Handed, Some(Door::Squidrun)),
            Status::DeliveredWebsocket,
        ),
        (
            delivery(Handed, Some(Door::Jetpack)),
            Status::AcceptedUnverified,
        ),
        (
            delivery(Handed, Some(Door::Bus)),
            Status::AcceptedUnverified,
        ),
        (
            delivery(Acknowledged, Some(Door::Squidrun)),
            Status::DeliveredVerified,
        ),
        (
            delivery(Acknowledged, Some(Door::Jetpack)),
            Status::DeliveredVerified,
        ),
        (delivery(Expired, None), Status::DeliveryFailed),
        (failed("the worker refused it"), Status::DeliveryFailed),
        (failed("agent_not_running"), Status::AgentNotRunning),
        (failed("delivered.verified"), Status::DeliveryFailed),
    ] {
        assert_eq!(to_wire::status([&row]), status, "{row:?}");
    }
    let (queued, handed) = (
        delivery(Queued, None),
        delivery(Handed, Some(Door::Squidrun)),
    );
    let failed = failed("agent_not_running");
    assert_eq!(
        to_wire::status([&queued, &handed, &failed]),
        Status::DeliveredWebsocket
    );
    assert_eq!(
        to_wire::status([&failed, &queued]),
        Status::AcceptedUnverified
    );
    assert_eq!(to_wire::status([]), Status::NoTargets);
}

#[test]
fn what_came_by_file_and_waits_is_a_fallback() {
    let roles = switchboard_wire::squidrun::Roles::default();
    let to = switchboard_wire::squidrun::Addressees::One("builder".to_owned());
    let said = say(Saying::by_file("(ARCH #1): x".to_owned(), to, &roles));
    let row = received(&said).message;
    let status = |state, via| to_wire::ack(&row, &[delivery(state, via)], NOW).status;
    assert_eq!(
        status(DeliveryState::Queued, None),
        Status::FallbackTriggered
    );
    let handed = status(DeliveryState::Handed, Some(Door::Squidrun));
    assert_eq!(handed, Status::DeliveredWebsocket);
}

#[test]
fn an_ack_is_ok_once_somebody_took_it_and_accepted_once_it_is_durable() {
    for status in Status::ALL {
        let ack = to_wire::send_ack(Some("m".to_owned()), *status, NOW);
        assert_eq!(
            (ack.ok, ack.queued),
            (ack.verified, ack.accepted),
            "{status}"
        );
        assert!(ack.accepted || !ack.verified, "{status}");
    }
    let are = |is: fn(&Status) -> bool| Status::ALL.iter().copied().filter(is).collect::<Vec<_>>();
    assert_eq!(
        are(|status| status.is_verified()),
        [
            Status::DeliveredVerified,
            Status::DeliveredDaemonWrite,
            Status::TelegramDelivered,
            Status::DeliveredWebsocket
        ]
    );
    assert_eq!(
        are(|status| status.is_accepted() && !status.is_verified()),
        [
            Status::RoutedUnverified,
            Status::FallbackTriggered,
            Status::AcceptedUnverified
        ]
    );
}

#[test]
fn an_ack_tells_how_long_the_first_write_took() {
    let row: Message = received(&say(saying("1", "2", "x"))).message;
    let late = Delivery {
        delivered_at: Some(switchboard_core::Timestamp(NOW.0 + 500)),
        ..delivery(DeliveryState::Acknowledged, Some(Door::Squidrun))
    };
    let first = delivery(DeliveryState::Handed, Some(Door::Squidrun));
    let ack = to_wire::ack(&row, &[late, first], NOW);
    assert_eq!((ack.ack_latency_ms, ack.ws_delivery_count), (1, 2));
}

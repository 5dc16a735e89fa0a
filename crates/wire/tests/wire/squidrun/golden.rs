//! Every frame, byte for byte.

use std::collections::BTreeSet;

use switchboard_core::{DeliveryState, Door};
use switchboard_wire::squidrun::frame::{self, Dedupe, Inbound, Outbound, SendAck, Welcome};
use switchboard_wire::squidrun::to_wire::{self, Found};
use switchboard_wire::squidrun::{Roles, Saying, Status};

use super::{NOW, SAID_AT, SESSION, delivery, golden, print, received, say, spoken};

fn read(name: &str) -> Inbound {
    let line = golden(name);
    frame::read(line.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

fn registered(name: &str) -> Outbound {
    match read(name) {
        Inbound::Register(register) => to_wire::registered(register, &Roles::default()),
        other => panic!("{other:?}"),
    }
}

fn health(line: &str, seen: Option<i64>) -> Outbound {
    let Ok(Inbound::HealthCheck(check)) = frame::read(line.as_bytes()) else {
        panic!("{line}");
    };
    let seen = |_: &_| seen.map(switchboard_core::Timestamp);
    to_wire::health(check, &Roles::default(), seen, NOW)
}

fn checked(found: Found) -> Outbound {
    match read("in.delivery-check") {
        Inbound::DeliveryCheck(check) => to_wire::delivery_check(check, found, NOW),
        other => panic!("{other:?}"),
    }
}

/// What the hub says in each case, as the golden files have it.
fn told() -> Vec<(&'static str, Outbound)> {
    let roles = Roles::default();
    let send = Saying::by_send(spoken(&golden("in.send")), roles.speaker("arch"));
    let sent = received(&say(send));
    let broadcast = spoken(&golden("in.broadcast"));
    let broadcast = received(&say(Saying::by_broadcast(broadcast, roles.speaker("1"))));
    let handed = [delivery(DeliveryState::Handed, Some(Door::Squidrun))];
    let plain = |id: &str| {
        let id = Some(id.to_owned());
        to_wire::send_ack(id, Status::AcceptedUnverified, NOW)
    };
    let dedupe = Some(Dedupe {
        mode: "signature_cache",
        key: "k".to_owned(),
        source_message_id: "m1".to_owned(),
    });
    let health_check = golden("in.health-check");
    vec![
        ("welcome", Outbound::Welcome(Welcome { client_id: 1 })),
        ("registered", registered("in.register")),
        ("registered.unknown", registered("in.register.full")),
        (
            "health-check-result",
            health(&health_check, Some(NOW.0 - 153)),
        ),
        (
            "health-check-result.no-route",
            health(
                r#"{"type":"health-check","target":"bg-2-1","requestId":"h1","staleAfterMs":-1}"#,
                None,
            ),
        ),
        (
            "health-check-result.invalid-target",
            health(
                r#"{"type":"health-check","target":"user"}"#,
                Some(SAID_AT.0),
            ),
        ),
        ("message", to_wire::message(&sent, SESSION)),
        ("broadcast", to_wire::message(&broadcast, SESSION)),
        (
            "send-ack",
            Outbound::SendAck(to_wire::ack(&sent.message, &handed, NOW)),
        ),
        (
            "send-ack.dedupe",
            Outbound::SendAck(SendAck {
                dedupe,
                ..plain("m2")
            }),
        ),
        (
            "delivery-check-result",
            checked(Found::Known(Box::new(plain("m1")))),
        ),
        ("delivery-check-result.pending", checked(Found::Pending)),
        ("delivery-check-result.unknown", checked(Found::Unknown)),
        ("response", Outbound::unsupported("r1".to_owned(), NOW)),
        ("error.size", Outbound::too_large()),
        ("error.rate", Outbound::too_many()),
    ]
}

#[test]
fn every_frame_is_printed_byte_for_byte() {
    let mut seen = BTreeSet::new();
    for (name, frame) in told() {
        assert_eq!(print(&frame), golden(&format!("out.{name}")), "{name}");
        seen.insert(format!("out.{name}.json"));
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/squidrun");
    for entry in std::fs::read_dir(folder).expect("the golden files") {
        let name = entry.expect("an entry").file_name();
        let name = name.into_string().expect("a name");
        assert!(name.starts_with("in.") || seen.contains(&name), "{name}");
    }
}

#[test]
fn every_frame_of_a_client_is_read() {
    let kinds = [
        "register",
        "register.full",
        "health-check",
        "send",
        "broadcast",
        "receipt",
        "delivery-check",
        "comms-event",
        "background-agent",
        "other",
    ];
    let kinds = kinds.map(|name| match read(&format!("in.{name}")) {
        Inbound::Register(frame) => format!("register {}", frame.role),
        Inbound::HealthCheck(frame) => format!("health-check {}", frame.stale_after_ms()),
        Inbound::Send(frame) => {
            let attempts = (frame.attempt, frame.max_attempts);
            format!("send {} {} {attempts:?}", frame.target, frame.ack_required)
        }
        Inbound::Broadcast(frame) => format!("broadcast {:?}", frame.message_id),
        Inbound::Receipt(frame) => format!("receipt {}", frame.trace_id),
        Inbound::DeliveryCheck(frame) => format!("delivery-check {:?}", frame.id()),
        Inbound::CommsEvent(frame) => format!("comms-event {}", frame.event_type),
        Inbound::BackgroundAgent(frame) => format!("background-agent {}", frame.action),
        Inbound::Other { kind, request_id } => format!("{kind} {request_id:?}"),
    });
    assert_eq!(
        kinds,
        [
            "register devops",
            "register reviewer",
            "health-check 60000",
            "send builder true (Some(1), Some(4))",
            "broadcast Some(\"hm-2\")",
            "receipt hm-1794728661198-ol187i",
            "delivery-check Some(\"m1\")",
            "comms-event comms.delivery.failed",
            "background-agent spawn",
            "team-memory Some(\"r1\")",
        ]
    );
}

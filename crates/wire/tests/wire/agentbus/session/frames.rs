//! What is said, by whom, in which order.

use serde_json::{Value, json};
use switchboard_wire::agentbus::message::Inbound;
use switchboard_wire::agentbus::session::{CloseReason, Limits, Session};
use switchboard_wire::agentbus::{ErrorCode, Flag, Role, Version};

use super::{SECOND, Seen, Wire, beat, golden, hello, operator_hello, set, with};

#[test]
fn a_worker_says_hello_is_welcomed_and_beats() {
    // agentbus.version.answer, agentbus.framing.many_per_connection
    let mut wire = Wire::open();
    let peer = wire.session.peer().expect("a peer").clone();
    assert_eq!(
        (peer.role, &*peer.id),
        (Role::Worker, "worker-3-1707600000")
    );
    assert_eq!(peer.agreed.version.to_string(), "0.1");
    for seq in 2..50 {
        let seen = wire.say(&beat(seq));
        assert_eq!(seen.accepted.as_deref(), Some("beat CODE"));
        assert_eq!(
            (seen.seq, seen.flags.len(), seen.close),
            (Some(seq), 0, None)
        );
    }
}

#[test]
fn the_first_frame_is_a_hello_or_the_last_one() {
    // agentbus.version.hello_first
    let cases = [
        (beat(1).to_string(), ErrorCode::HelloRequired),
        ("nonsense".to_owned(), ErrorCode::BadJson),
        ("{}".to_owned(), ErrorCode::BadEnvelope),
        ("GET / HTTP/1.1".to_owned(), ErrorCode::BadJson),
        (
            with(hello(), "/message_type", json!("protocol_hello.v2")).to_string(),
            ErrorCode::HelloRequired,
        ),
        (
            with(hello(), "/payload", json!({ "protocol_version": "0.1" })).to_string(),
            ErrorCode::BadEnvelope,
        ),
        (
            with(hello(), "/payload/protocol_version", json!(0.1)).to_string(),
            ErrorCode::BadEnvelope,
        ),
        (
            with(hello(), "/payload/worker", Value::Null).to_string(),
            ErrorCode::BadEnvelope,
        ),
        (
            with(hello(), "/sender/role", json!("director")).to_string(),
            ErrorCode::RoleForbidden,
        ),
    ];
    for (line, code) in cases {
        let mut wire = Wire::new(Limits::default());
        let seen = wire.bytes(line.as_bytes());
        assert_eq!(seen.code(), Some(code), "{line}");
        assert_eq!(seen.close, Some(CloseReason::NoHello), "{line}");
        assert!(seen.accepted.is_none() && wire.session.is_closed());
        // Nothing is heard after the end.
        assert_eq!(wire.say(&hello()), Seen::default());
        assert_eq!(wire.tick_at(1_000_000), Seen::default());
        assert_eq!(wire.session.due_at(), None);
    }
    let mut wire = Wire::new(Limits::default());
    let seen = Seen::of(wire.session.oversize(0));
    assert_eq!(seen.code(), Some(ErrorCode::TooLarge));
    assert_eq!(seen.close, Some(CloseReason::NoHello));
}

#[test]
fn operators_open_with_a_hello_too_and_are_not_probed() {
    // agentbus.hello.operator_too
    let mut wire = Wire::new(Limits::default());
    assert_eq!(
        wire.say(&operator_hello()).accepted.as_deref(),
        Some("hello")
    );
    assert_eq!(wire.session.due_at(), None);
    wire.session.welcomed(0);
    assert_eq!(wire.session.due_at(), None);
    assert_eq!(wire.tick_at(10_000 * SECOND), Seen::default());
    let mut command = golden("operator_command.v1");
    set(&mut command, "/seq", json!(2));
    assert!(wire.say(&command).accepted.is_some());
}

#[test]
fn another_minor_version_is_welcomed_with_the_lower_one() {
    // agentbus.version.minor_compatible
    let limits = || Limits {
        version: Version { major: 0, minor: 2 },
        ..Limits::default()
    };
    for (theirs, spoken, lowered) in [
        ("0.1", "0.1", true),
        ("0.2", "0.2", false),
        ("0.7", "0.2", false),
    ] {
        let mut wire = Wire::new(limits());
        let mut frame = with(hello(), "/payload/protocol_version", json!(theirs));
        set(&mut frame, "/payload/new_in_minor", json!({ "a": 1 }));
        assert!(wire.say(&frame).accepted.is_some(), "{theirs}");
        let agreed = wire.session.peer().expect("a peer").agreed;
        assert_eq!(
            (agreed.version.to_string().as_str(), agreed.lowered),
            (spoken, lowered)
        );
    }
}

#[test]
fn another_major_version_and_no_version_at_all_are_incompatible() {
    // agentbus.version.major_breaks, agentbus.version.string, agentbus.incompat.fields, agentbus.incompat.action
    for theirs in ["1.0", "2.1", "latest", "", "0", "0.1-beta"] {
        let mut wire = Wire::new(Limits::default());
        let frame = with(hello(), "/payload/protocol_version", json!(theirs));
        let seen = wire.say(&frame);
        assert!(seen.accepted.is_none());
        assert_eq!(seen.close, Some(CloseReason::Incompatible), "{theirs}");
        let sent: Value = serde_json::from_str(&seen.sent.expect("told")).expect("JSON");
        assert_eq!(sent["expected_protocol_version"], "0.1");
        assert_eq!(sent["sender_protocol_version"], theirs);
        assert_eq!(sent["required_action"], "sync_main_and_restart");
        assert!(!sent["reason"].as_str().expect("a reason").is_empty());
    }
}

#[test]
fn numbers_grow_and_a_gap_is_only_flagged() {
    // agentbus.envelope.seq_monotonic
    let mut wire = Wire::open();
    for (seq, accepted, flags) in [
        (2, true, vec![]),
        (2, false, vec![Flag::BadSeq]),
        (1, false, vec![Flag::BadSeq]),
        (0, false, vec![Flag::BadSeq]),
        (3, true, vec![]),
        (10, true, vec![Flag::SeqGap]),
        (9, false, vec![Flag::BadSeq]),
        (11, true, vec![]),
        (1 << 53, true, vec![Flag::SeqGap]),
        (1 << 53, false, vec![Flag::BadSeq]),
    ] {
        let seen = wire.say(&beat(seq));
        assert_eq!(seen.accepted.is_some(), accepted, "{seq}");
        assert_eq!(seen.flags, flags, "{seq}");
        if !accepted {
            let error = seen.error.expect("told");
            assert_eq!((error.code, error.ref_seq), (ErrorCode::BadSeq, Some(seq)));
        }
        assert_eq!(seen.close, None);
    }
}

#[test]
fn a_refused_frame_uses_its_number() {
    let mut wire = Wire::open();
    let bad = with(beat(2), "/payload/state/stage", json!("DANCE"));
    let seen = wire.say(&bad);
    assert_eq!(seen.flags, [Flag::BadPayload]);
    let error = seen.error.expect("told");
    assert_eq!(
        (error.code, error.ref_seq),
        (ErrorCode::BadEnvelope, Some(2))
    );
    assert!(
        error.message.starts_with("payload.state.stage: "),
        "{}",
        error.message
    );
    assert_eq!(wire.say(&beat(2)).flags, [Flag::BadSeq]);
    let seen = wire.say(&beat(3));
    assert!(seen.accepted.is_some() && seen.flags.is_empty());
}

#[test]
fn a_replayed_hello_is_refused_and_the_connection_goes_on() {
    let mut wire = Wire::open();
    assert_eq!(wire.say(&hello()).flags, [Flag::BadSeq]);
    let again = with(hello(), "/seq", json!(2));
    let seen = wire.say(&again);
    assert_eq!((seen.accepted, seen.flags), (None, vec![Flag::HelloAgain]));
    assert!(wire.say(&beat(3)).accepted.is_some());
}

#[test]
fn the_sender_stays_the_same() {
    // agentbus.envelope.sender_id
    let mut wire = Wire::open();
    let other = with(beat(2), "/sender/id", json!("worker-4"));
    let seen = wire.say(&other);
    assert_eq!(
        (seen.accepted, seen.flags),
        (None, vec![Flag::SenderChanged])
    );
    let posing = with(beat(3), "/sender/role", json!("operator"));
    let seen = wire.say(&posing);
    assert_eq!(seen.code(), Some(ErrorCode::RoleForbidden));
    assert!(wire.say(&beat(4)).accepted.is_some());
}

#[test]
fn nobody_says_what_is_not_theirs_to_say() {
    let mut wire = Wire::open();
    let mut seq = 1;
    for name in [
        "operator_command.v1",
        "release_published.v1",
        "protocol_welcome.v1",
        "project_state_snapshot.v1",
        "task_assigned.v1",
        "task_revoked.v1",
        "sync_required.v1",
        "protocol_error.v1",
        "budget_grant.v1",
    ] {
        seq += 1;
        let mut frame = golden(name);
        set(&mut frame, "/seq", json!(seq));
        set(&mut frame, "/sender", hello()["sender"].clone());
        let seen = wire.say(&frame);
        assert_eq!(seen.code(), Some(ErrorCode::RoleForbidden), "{name}");
        assert!(seen.accepted.is_none(), "{name}");
    }
    let mut wire = Wire::new(Limits::default());
    let _ = wire.say(&operator_hello());
    wire.session.welcomed(0);
    for (seq, name) in (2..).zip([
        "heartbeat.v1",
        "worker_error.v1",
        "task_result.v1",
        "memory_event.v1",
    ]) {
        let mut frame = golden(name);
        set(&mut frame, "/seq", json!(seq));
        set(&mut frame, "/sender", operator_hello()["sender"].clone());
        let seen = wire.say(&frame);
        assert_eq!(seen.code(), Some(ErrorCode::RoleForbidden), "{name}");
    }
    // A worker writes in its own name only.
    let mut wire = Wire::open();
    let mut mail = golden("agent_message.v1");
    set(&mut mail, "/seq", json!(2));
    assert!(wire.say(&mail).accepted.is_some());
    set(&mut mail, "/seq", json!(3));
    set(&mut mail, "/payload/from", json!("builder-2"));
    assert_eq!(wire.say(&mail).code(), Some(ErrorCode::RoleForbidden));
}

#[test]
fn an_unknown_type_is_flagged_and_ignored_however_often() {
    // agentbus.envelope.message_type
    let mut wire = Wire::open();
    for seq in 2..200 {
        let frame = with(beat(seq), "/message_type", json!("tea_break.v3"));
        let seen = wire.say(&frame);
        assert_eq!(seen.flags, [Flag::UnknownType]);
        assert_eq!((seen.accepted, seen.error, seen.close), (None, None, None));
    }
    assert!(wire.say(&beat(200)).accepted.is_some());
}

#[test]
fn an_unknown_schema_ends_the_connection() {
    // agentbus.envelope.schema_version
    let mut wire = Wire::open();
    let frame = with(beat(2), "/schema_version", json!("agentbus-envelope/v2"));
    let seen = wire.say(&frame);
    assert_eq!(seen.code(), Some(ErrorCode::BadEnvelope));
    assert_eq!(seen.close, Some(CloseReason::UnknownSchema));
    let mut wire = Wire::new(Limits::default());
    let frame = with(hello(), "/schema_version", json!("agentbus-envelope/v2"));
    assert_eq!(wire.say(&frame).close, Some(CloseReason::UnknownSchema));
}

#[test]
fn the_hub_may_turn_a_hello_away_and_replace_a_connection() {
    let mut wire = Wire::new(Limits::default());
    let _ = wire.say(&hello());
    // Until the hub has answered, nothing else is taken.
    let seen = wire.say(&beat(2));
    assert_eq!(
        (seen.accepted, seen.flags),
        (None, vec![Flag::HelloRequired])
    );
    let seen = Seen::of(wire.session.refuse("the certificate is another's"));
    assert_eq!(seen.code(), Some(ErrorCode::RoleForbidden));
    assert_eq!(seen.close, Some(CloseReason::Refused));
    wire.session.welcomed(0);
    assert!(wire.session.is_closed());

    let mut wire = Wire::open();
    let seen = Seen::of(wire.session.replaced());
    assert_eq!(seen.code(), Some(ErrorCode::Replaced));
    assert_eq!(seen.close, Some(CloseReason::Replaced));
    assert_eq!(Seen::of(wire.session.replaced()), Seen::default());
}

#[test]
fn an_idle_session_is_small() {
    assert!(size_of::<Session>() <= 256, "{}", size_of::<Session>());
}

#[test]
fn a_heartbeat_is_read_without_copying_its_texts() {
    let mut wire = Wire::open();
    let line = beat(2).to_string();
    let step = wire.session.line(line.as_bytes(), 0);
    let accepted = step.accept.expect("accepted");
    let Inbound::Heartbeat(beat) = accepted.message else {
        panic!("a heartbeat");
    };
    let repo = beat.state.repo.expect("a branch");
    let texts = [
        Some(accepted.envelope.message_type),
        Some(accepted.envelope.sender.id),
        accepted.envelope.sender.run_id,
        beat.state.progress.map(|progress| progress.step),
        beat.state.last_error_id,
        repo.branch_name,
        repo.base_branch,
        repo.main_ancestor_sha,
        repo.catalog_hash_seen,
    ];
    for text in texts {
        let text = text.expect("the golden heartbeat has everything");
        assert!(
            line.as_bytes().as_ptr_range().contains(&text.as_ptr()),
            "{text} was copied"
        );
    }
}

//! Events between nodes: the document's examples are read, become what the rules know, and print the same again.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_core::outbox::{Control, FailureClass, News, Outgoing};
use switchboard_core::skill_review::SkillReview;
use switchboard_core::verb::{Publish, Step};
use switchboard_core::{NodeId, Timestamp, limits};
use switchboard_wire::jetpack::from_wire::Context;
use switchboard_wire::runtime::capability_from_wire::{checksum, signed};
use switchboard_wire::runtime::event_from_wire::Publishing;
use switchboard_wire::runtime::{
    CursorRecord, Event, PublishRequest, capability_to_wire, event_from_wire, event_to_wire,
};
use switchboard_wire::{Malformed, parse};

/// The envelope of §1 around a payload.
fn event(kind: &str, payload: Value) -> Value {
    json!({
        "eventId": "evt_01JV3M2N8V1ZK4J2A0M7Y6P9QF",
        "seq": 1842,
        "kind": kind,
        "sourceNodeId": "vps-jane",
        "sourceAgentId": "architect",
        "toAgentId": "mbp-jane",
        "corrId": "corr_01JV3M2B1P2M4E6R7T8Y9U0I1O",
        "createdAt": "2026-02-25T16:22:10.123Z",
        "expiresAt": "2026-02-26T16:22:10.123Z",
        "payload": payload,
        "trace": { "attempt": 1 },
    })
}

/// §3 to §5, each as the document prints it; members that it leaves out have their defaults.
fn examples() -> Vec<(&'static str, Value)> {
    vec![
        (
            "message",
            json!({
                "toAgents": ["mbp-jane", "vps-jane"], "subject": "Coordination update",
                "body": "Build completed. Please validate release notes.", "priority": "normal", "expectsReply": false,
            }),
        ),
        (
            "task_create",
            json!({
                "taskId": "tsk_01JV3Q9A1V7M4R3N8E2W0D6Y5U", "title": "Publish v1 release checklist",
                "description": "Generate and validate release checklist for plugin v1.3.0", "toAgents": [],
                "requiredCapabilities": ["cap.release.checklist"], "priority": "high",
                "requesterAgentId": "architect", "responseRequired": true, "deadlineAt": "2026-02-25T20:00:00.000Z",
            }),
        ),
        (
            "task_accept",
            json!({
                "taskId": "tsk_01JV3Q9A1V7M4R3N8E2W0D6Y5U", "acceptedByAgentId": "executor-mbp",
                "etaAt": "2026-02-25T18:00:00.000Z",
                "planSummary": "Validate checklist template, gather release artifacts, emit final report.",
            }),
        ),
        (
            "task_update",
            json!({
                "taskId": "tsk_01JV3Q9A1V7M4R3N8E2W0D6Y5U", "status": "in_progress", "progress": 60,
                "note": "Artifact scan complete; validating links.", "revisedEtaAt": "2026-02-25T18:30:00.000Z",
            }),
        ),
        (
            "task_failed",
            json!({
                "taskId": "tsk_01JV3Q9A1V7M4R3N8E2W0D6Y5U", "failedByAgentId": "executor-mbp",
                "failureClass": "dependency_missing", "errorSummary": "Release artifacts missing changelog metadata.",
                "failedAt": "2026-02-25T17:40:02.000Z",
            }),
        ),
        (
            "reply",
            json!({ "refEventId": "evt_1", "body": { "ok": true }, "status": "done" }),
        ),
        (
            "signal",
            json!({
                "path": "agents.executor-mbp", "rev": 3,
                "record": { "agentId": "executor-mbp", "gateway": "vps-jane", "type": "internal", "live": true },
            }),
        ),
        (
            "signal",
            json!({
                "path": "nodes.mbp-jane", "rev": 4,
                "record": {
                    "nodeId": "mbp-jane", "tier": "edge", "endpoint": "https://mbp.example:7373", "status": "online",
                    "protocolVersion": "1.0", "publicKey": "0a".repeat(32),
                },
            }),
        ),
        (
            "dead_letter",
            json!({ "refEventId": "evt_1", "refKind": "message", "attempts": 15, "reason": "no answer" }),
        ),
        ("telemetry", json!({ "anything": [1, 2] })),
        // §7, in the payload of a task.
        (
            "task_create",
            json!({
                "taskId": "tsk_1", "title": "Install it", "toAgents": ["mbp-jane"], "requiredCapabilities": [],
                "priority": "low", "requesterAgentId": "switchboard", "responseRequired": false,
                "taskType": "skill_distribution", "capabilityId": "cap.fs.diff-apply",
                "delegationSkillRef": { "name": "ansible-delegate-fs", "version": "1.3.0" },
                "requiredBy": "2026-02-25T18:30:00.000Z",
            }),
        ),
    ]
}

fn read(value: &Value) -> Event {
    serde_json::from_value(value.clone()).expect("an envelope")
}

fn printed(value: &Value) -> Value {
    let event = read(value);
    let row = Outgoing {
        seq: event.seq,
        event: event_from_wire::event(&event).expect("it is well formed"),
    };
    let here = NodeId::from("vps-jane");
    serde_json::to_value(event_to_wire::event(&row, &here)).expect("JSON")
}

#[test]
fn the_documents_examples_print_as_they_were_read() {
    for (kind, payload) in examples() {
        let given = event(kind, payload);
        assert_eq!(printed(&given), given, "{kind}");
    }
}

#[test]
fn a_completion_tells_what_the_agent_reported() {
    let payload = json!({
        "taskId": "tsk_1", "completedByAgentId": "executor-mbp", "completedAt": "2026-02-25T17:54:10.000Z",
        "resultSummary": "", "result": { "summary": "Checklist generated.", "resultRef": "artifact://reports/x.md" },
    });
    let told = printed(&event("task_complete", payload));
    assert_eq!(told["payload"]["resultSummary"], "Checklist generated.");
    assert_eq!(told["payload"]["resultRef"], "artifact://reports/x.md");
}

#[test]
fn an_ack_names_one_agent_and_all_if_there_are_several() {
    // The node that acks is the one whose outbox it is in.
    for (by, expected) in [
        (json!(["a"]), Value::Null),
        (json!(["a", "b"]), json!(["a", "b"])),
    ] {
        let told = printed(&event(
            "ack",
            json!({
                "refEventId": "evt_01JV3M2N8V1ZK4J2A0M7Y6P9QF", "refKind": "task_create", "ackType": "accepted",
                "ackedByNodeId": "vps-jane", "ackedByAgentIds": by, "ackedAt": "2026-02-25T16:31:00.000Z",
                "etaAt": "2026-02-25T18:00:00.000Z",
            }),
        ));
        assert_eq!(told["payload"]["ackedByAgentId"], "a");
        assert_eq!(told["payload"]["ackedByAgentIds"], expected);
    }
}

#[test]
fn the_documents_ack_prints_as_it_was_read_and_may_stand_for_an_acceptance() {
    let plain = json!({
        "refEventId": "evt_01JV3M2N8V1ZK4J2A0M7Y6P9QF", "refKind": "task_create", "ackType": "accepted",
        "ackedByNodeId": "vps-jane", "ackedByAgentId": "executor-mbp", "ackedAt": "2026-02-25T16:31:00.000Z",
        "etaAt": "2026-02-25T18:00:00.000Z",
    });
    let mut full = plain.clone();
    full["taskId"] = json!("tsk_1");
    full["acceptedByAgentId"] = json!("executor-mbp");
    let mut late = full.clone();
    late.as_object_mut().expect("an object").remove("etaAt");
    for (payload, stands) in [(plain, false), (full, true), (late, false)] {
        let given = event("ack", payload);
        assert_eq!(printed(&given), given);
        let read = event_from_wire::event(&read(&given)).expect("it is well formed");
        let News::Ack(answer) = read.news else {
            panic!("{read:?}");
        };
        let accepted = answer.accepted(&"tsk_1".into()).is_some();
        assert_eq!(accepted, stands, "{given}");
        assert!(answer.accepted(&"another".into()).is_none());
    }
}

#[test]
fn an_eta_in_seconds_counts_from_when_it_was_said() {
    let given = event(
        "task_accept",
        json!({ "taskId": "t", "acceptedByAgentId": "a", "etaSeconds": 60 }),
    );
    let read = event_from_wire::event(&read(&given)).expect("it is well formed");
    let News::TaskAccept { eta_at, .. } = read.news else {
        panic!("{read:?}");
    };
    assert_eq!(eta_at, Timestamp(read.created_at.0 + 60_000));
}

#[test]
fn records_of_the_control_plane_that_nobody_knows_are_kept_as_they_are() {
    let given = event(
        "signal",
        json!({ "path": "queues.cap.x", "rev": 1, "record": { "ownerNodeId": "n" } }),
    );
    let read = event_from_wire::event(&read(&given)).expect("it is well formed");
    assert!(matches!(
        read.news,
        News::Signal {
            record: Control::Other { .. },
            ..
        }
    ));
}

#[test]
fn a_record_of_the_control_plane_says_nothing_of_what_is_said() {
    // runtime.plane.control_metadata_only
    for (path, member, field) in [
        ("agents.a", "payload", "payload.record.payload"),
        ("nodes.n", "body", "payload.record.body"),
        ("routing.cap.x", "message", "payload.record.message"),
        ("capabilities.catalog.cap.x", "task", "payload.record.task"),
    ] {
        let mut record = json!({});
        record[member] = json!("secret words");
        let given = event(
            "signal",
            json!({ "path": path, "rev": 1, "record": record }),
        );
        let told = event_from_wire::event(&read(&given)).expect_err(path);
        assert_eq!(told.field.as_deref(), Some(field));
    }
}

#[test]
fn what_is_wrong_with_an_event_is_told_by_its_field() {
    type Edit = fn(&mut Value);
    let cases: &[(Edit, &str)] = &[
        (|it| it["eventId"] = json!(""), "eventId"),
        (|it| it["eventId"] = json!("x".repeat(129)), "eventId"),
        (|it| it["corrId"] = json!(""), "corrId"),
        (|it| it["sourceAgentId"] = json!(""), "sourceAgentId"),
        (|it| it["trace"]["attempt"] = json!(0), "trace.attempt"),
        (|it| it["seq"] = json!(0), "seq"),
        (|it| it["seq"] = json!(limits::EVENT_SEQ_MAX + 1), "seq"),
        (
            |it| it["payload"] = json!({ "body": "x" }),
            "payload.toAgents",
        ),
        (
            |it| it["payload"]["toAgents"] = json!("x"),
            "payload.toAgents",
        ),
        (
            |it| it["payload"]["toAgents"] = json!([""]),
            "payload.toAgents[0]",
        ),
        (
            |it| it["payload"]["priority"] = json!("soon"),
            "payload.priority",
        ),
        (|it| it["payload"] = json!("x"), "payload"),
    ];
    for (edit, field) in cases {
        let mut given = event("message", examples()[0].1.clone());
        edit(&mut given);
        let told = event_from_wire::event(&read(&given)).expect_err(field);
        assert_eq!(told.field.as_deref(), Some(*field), "{given}");
    }
}

/// What somebody publishes, as it is read.
fn publishing(value: Value, most: usize) -> Result<Publishing, Malformed> {
    let request: PublishRequest = serde_json::from_value(value).expect("a request");
    let mut fresh = |prefix: &'static str| format!("{prefix}_fresh");
    let mut context = Context {
        root: "/",
        policy: &Arc::default(),
        fresh: &mut fresh,
    };
    let now = Timestamp(1_772_000_000_000);
    event_from_wire::publish(&request, now, most, &mut context)
}

/// Payloads of §3 to §5 as the agent `a` publishes them.
fn steps() -> Vec<(&'static str, Value)> {
    vec![
        (
            "reply",
            json!({ "refEventId": "evt_1", "body": { "ok": true }, "status": "done" }),
        ),
        (
            "task_accept",
            json!({ "taskId": "t", "acceptedByAgentId": "a", "etaSeconds": 60, "planSummary": "so" }),
        ),
        (
            "task_update",
            json!({ "taskId": "t", "status": "in_progress", "progress": 60, "revisedEtaAt": "2026-02-25T18:30:00.000Z" }),
        ),
        (
            "task_complete",
            json!({
                "taskId": "t", "completedByAgentId": "a", "completedAt": "2026-02-25T17:54:10.000Z",
                "resultSummary": "Checklist generated and validated.", "resultRef": "artifact://reports/x.md",
            }),
        ),
        (
            "task_failed",
            json!({
                "taskId": "t", "failedByAgentId": "a", "failureClass": "dependency_missing",
                "errorSummary": "No changelog.", "failedAt": "2026-02-25T17:40:02.000Z",
            }),
        ),
    ]
}

fn by_a(kind: &str, payload: Value) -> Value {
    json!({ "kind": kind, "sourceAgentId": "a", "corrId": "corr_1", "payload": payload })
}

#[test]
fn what_an_agent_does_is_published_as_the_document_has_it() {
    for (kind, payload) in steps() {
        let Publishing::Step(read) = publishing(by_a(kind, payload), 1000).expect(kind) else {
            panic!("{kind} is a step");
        };
        assert_eq!(
            (read.agent.as_str(), read.corr_id.as_str()),
            ("a", "corr_1")
        );
        match read.step {
            Step::Reply { to, body, .. } => {
                assert_eq!((to.as_str(), &*body), ("evt_1", r#"{"ok":true}"#))
            }
            Step::Accept { eta_at, plan, .. } => {
                assert_eq!(eta_at, Timestamp(1_772_000_060_000));
                assert_eq!(plan.as_deref(), Some("so"));
            }
            Step::Update {
                percent,
                revised_eta_at,
                ..
            } => {
                assert_eq!((percent, revised_eta_at.is_some()), (Some(60), true));
            }
            Step::Complete(complete) => {
                let result: Value = serde_json::from_str(&complete.result).expect("JSON");
                assert_eq!(result["summary"], "Checklist generated and validated.");
                assert_eq!(result["resultRef"], "artifact://reports/x.md");
            }
            Step::Fail { class, error, .. } => {
                assert_eq!(
                    (class, &*error),
                    (FailureClass::DependencyMissing, "No changelog.")
                );
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_step_is_told_by_its_field() {
    for (kind, payload) in steps() {
        for field in ["sourceAgentId", "corrId"] {
            let mut given = by_a(kind, payload.clone());
            given[field] = Value::Null;
            let told = publishing(given, 1000).expect_err(field);
            assert_eq!(told.field.as_deref(), Some(field), "{kind}");
        }
    }
    for (kind, member, value) in [
        ("reply", "refEventId", json!("")),
        ("reply", "body", Value::Null),
        ("task_accept", "etaSeconds", Value::Null),
        ("task_accept", "acceptedByAgentId", json!("b")),
        ("task_accept", "taskId", json!("")),
        ("task_update", "progress", json!(101)),
        ("task_update", "status", json!("pending")),
        ("task_update", "status", json!("blocked")),
        ("task_complete", "completedByAgentId", json!("b")),
        ("task_complete", "result", json!("done")),
        ("task_complete", "completedAt", json!("soon")),
        ("task_failed", "failedByAgentId", json!("b")),
        ("task_failed", "failureClass", json!("tired")),
    ] {
        let (_, mut payload) = steps()
            .into_iter()
            .find(|(one, _)| *one == kind)
            .expect(kind);
        match value.is_null() {
            true => drop(payload.as_object_mut().expect("an object").remove(member)),
            false => payload[member] = value,
        }
        let told = publishing(by_a(kind, payload), 1000).expect_err(member);
        let field = match member {
            "etaSeconds" => "payload.etaAt".to_owned(),
            member => format!("payload.{member}"),
        };
        assert_eq!(told.field, Some(field), "{kind}");
    }
}

#[test]
fn a_payload_is_no_longer_than_the_node_allows() {
    let given = |length: usize| json!({ "toAgents": ["b"], "body": "x".repeat(length) });
    let around = given(0).to_string().len();
    for (length, fits) in [(100, true), (101, false)] {
        let read = publishing(by_a("message", given(length - around)), 100);
        assert_eq!(read.is_ok(), fits, "{length}");
    }
}

#[test]
fn what_somebody_publishes_is_checked_before_the_rules_see_it() {
    let publish = |value: Value| -> Result<Publish, Malformed> {
        match publishing(value, limits::PAYLOAD_BYTES_MAX)? {
            Publishing::New(publish) => Ok(publish),
            Publishing::Step(step) => panic!("{step:?}"),
        }
    };
    // These the hub publishes alone.
    for kind in ["ack", "signal", "dead_letter", "x"] {
        let given = json!({ "kind": kind, "payload": {} }).to_string();
        let told = parse::<PublishRequest>(given.as_bytes()).expect_err(kind);
        assert_eq!(told.field.as_deref(), Some("kind"));
        assert!(told.message.contains("task_accept"), "{told}");
    }
    let message = || json!({ "toAgents": ["b"], "body": "x" });
    let given = json!({ "kind": "message", "sourceAgentId": "a", "payload": message() });
    let made = publish(given).expect("it is well formed");
    assert_eq!(made.event.as_str(), "evt_fresh");
    assert_eq!(made.corr_id.as_str(), "corr_evt_fresh");
    let with = |name: &str, value: Value| {
        let mut given = json!({ "kind": "message", "sourceAgentId": "a", "payload": message() });
        given[name] = value;
        publish(given)
    };
    for (name, value, field) in [
        ("expiresAt", json!("2001-01-01T00:00:00.000Z"), "expiresAt"),
        ("eventId", json!("a b"), "eventId"),
        ("corrId", json!(""), "corrId"),
        ("sourceAgentId", json!(""), "sourceAgentId"),
        (
            "payload",
            json!({ "toAgents": [], "body": "x" }),
            "payload.toAgents",
        ),
    ] {
        let told = with(name, value).expect_err(field);
        assert_eq!(told.field.as_deref(), Some(field));
    }
    // As deep as it can still be read inside a page, and one level more.
    for (depth, fits) in [(121, true), (122, false)] {
        let body = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let payload = format!(r#"{{"toAgents":["b"],"body":{body}}}"#);
        let payload: Value = serde_json::from_str(&payload).expect("JSON");
        assert_eq!(with("payload", payload).is_ok(), fits, "{depth}");
    }
    // The same said in another order is the same; anything else is not.
    let sum = |payload: Value| with("payload", payload).expect("it is well formed").sum;
    assert_eq!(
        sum(message()),
        sum(json!({ "body": "x", "toAgents": ["b"] }))
    );
    assert_ne!(
        sum(message()),
        sum(json!({ "body": "y", "toAgents": ["b"] }))
    );
}

#[test]
fn the_documents_cursor_record_prints_as_it_was_read() {
    let given = json!({
        "consumerNodeId": "mbp-jane", "sourceNodeId": "vps-jane", "lastSeq": 1842,
        "updatedAt": "2026-02-25T16:32:00.000Z", "status": "active",
        "leaseExpiresAt": "2026-02-25T16:37:00.000Z", "epoch": "route-epoch-2026-02-25T16:00:00.000Z",
    });
    let read: CursorRecord = serde_json::from_value(given.clone()).expect("a record");
    assert_eq!(serde_json::to_value(read).expect("JSON"), given);
}

/// §2 and §8, each as the document prints it.
#[test]
fn records_of_capabilities_print_as_the_document_has_them() {
    let catalog = json!({
        "capabilityId": "cap.fs.diff-apply", "name": "Filesystem Diff Apply", "version": "1.3.0", "status": "active",
        "ownerAgentId": "executor-mbp", "ownerNodeId": "vps-jane",
        "delegationSkillRef": { "name": "ansible-delegate-fs", "version": "1.3.0", "path": "/skills/ansible-delegate-fs" },
        "executorSkillRef": { "name": "ansible-executor-fs", "version": "1.3.0", "path": "/skills/ansible-executor-fs" },
        "contractSchemaRef": "schema://ansible/cap.fs.diff-apply/1.3.0", "defaultEtaSeconds": 900,
        "publishedAt": "2026-02-25T16:30:00.000Z", "publishedByAgentId": "architect",
    });
    let index = json!({
        "capabilityId": "cap.fs.diff-apply", "eligibleAgentIds": ["executor-mbp"],
        "policyVersion": "cpv_2026_02_25_3", "updatedAt": "2026-02-25T16:30:05.000Z",
    });
    let routing = json!({
        "ownerNodeId": "vps-jane", "fallbackNodeIds": ["mbp"], "requiresCapabilities": ["cap.fs.diff-apply"],
        "policyVersion": "rpv_2026_02_25_1",
    });
    for (word, mut record) in [("catalog", catalog), ("index", index), ("routing", routing)] {
        let path = format!("capabilities.{word}.cap.fs.diff-apply");
        let given = |record: &Value| {
            event(
                "signal",
                json!({ "path": path, "rev": 7, "record": record }),
            )
        };
        let told = printed(&given(&record));
        if word == "index" {
            record["eligibleByNode"] = json!({ "vps-jane": ["executor-mbp"] });
        }
        assert_eq!(told, given(&record));
        assert_eq!(printed(&told), told, "and again");
    }
    let review = SkillReview {
        id: "rev_01JV3T7E6Q8M1W2R4D9K0N5P7H".to_owned(),
        capability: "cap.fs.diff-apply".into(),
        delegation_version: "1.3.0".to_owned(),
        executor_version: "1.3.0".to_owned(),
        class: FailureClass::SlaBreach,
        corr_ids: vec!["corr_01...".into(), "corr_02...".into()],
        count: 2,
        created_at: Timestamp(1_772_042_700_000),
        last_at: Timestamp(1_772_042_700_000),
        resolved: None,
    };
    let told = serde_json::to_value(capability_to_wire::review(&review)).expect("JSON");
    let expected = json!({
        "reviewId": "rev_01JV3T7E6Q8M1W2R4D9K0N5P7H", "capabilityId": "cap.fs.diff-apply",
        "delegationSkillVersion": "1.3.0", "executorSkillVersion": "1.3.0", "failureClass": "sla_breach",
        "sampleCorrIds": ["corr_01...", "corr_02..."], "createdAt": "2026-02-25T18:05:00.000Z",
        "count": 2, "lastAt": "2026-02-25T18:05:00.000Z",
    });
    assert_eq!(told, expected);
}

#[test]
fn a_manifest_is_known_by_the_hash_of_all_that_it_says() {
    let given = json!({ "version": "1.0.0", "capabilityId": "cap.x", "provenance": { "keyId": "k", "manifestChecksum": "sha256:00" } });
    let expected = r#"{"capabilityId":"cap.x","provenance":{"keyId":"k","manifestChecksum":"","manifestSignature":""},"version":"1.0.0"}"#;
    assert_eq!(signed(&given), expected);
    assert!(checksum(expected).starts_with("sha256:") && checksum(expected).len() == 71);
}

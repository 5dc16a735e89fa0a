//! Events between nodes: the document's examples are read, become what the rules know, and print the same again.

use serde_json::{Value, json};
use switchboard_core::outbox::{Control, FailureClass, News, Outgoing};
use switchboard_core::skill_review::SkillReview;
use switchboard_core::{NodeId, Timestamp, limits};
use switchboard_wire::runtime::capability_from_wire::{checksum, signed};
use switchboard_wire::runtime::{
    Event, PublishRequest, capability_to_wire, event_from_wire, event_to_wire,
};

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

#[test]
fn what_somebody_publishes_is_checked_before_the_rules_see_it() {
    let now = Timestamp(1_772_000_000_000);
    let publish = |value: Value| {
        let request: PublishRequest = serde_json::from_value(value).expect("a request");
        let mut fresh = |prefix: &'static str| format!("{prefix}_fresh");
        event_from_wire::publish(&request, now, &mut fresh)
    };
    for kind in ["ack", "task_complete", "signal", "x"] {
        let given = json!({ "kind": kind, "payload": {} });
        assert!(
            serde_json::from_value::<PublishRequest>(given).is_err(),
            "{kind}"
        );
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

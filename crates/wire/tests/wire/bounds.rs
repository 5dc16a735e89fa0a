//! Every range and length at n-1, n and n+1.

use serde_json::{Value, json};
use switchboard_core::limits;
use switchboard_wire::jetpack::{Operation, PatchTaskRequest, Request, from_wire};
use switchboard_wire::{Malformed, parse};

use crate::from_wire::{call, create, golden, set};

fn letters(count: usize) -> Value {
    "x".repeat(count).into()
}

fn list(count: usize) -> Value {
    (0..count)
        .map(|index| format!("i{index}"))
        .collect::<Vec<_>>()
        .into()
}

/// Bytes of a JSON string with its quotes.
fn payload(count: usize) -> Value {
    "x".repeat(count - 2).into()
}

/// Makes a value of a size.
type Make = fn(usize) -> Value;

type Bound = (Operation, &'static str, &'static str, Make, usize);

#[rustfmt::skip]
const BOUNDS: &[Bound] = &[
    (Operation::Register, "/agent/id", "agent.id", letters, limits::ID_BYTES_MAX),
    (Operation::Register, "/agent/name", "agent.name", letters, limits::NAME_BYTES_MAX),
    (Operation::Register, "/agent/capabilities/skills", "agent.capabilities.skills", list, limits::SKILLS_MAX),
    (Operation::Register, "/agent/machine/hostname", "agent.machine.hostname", letters, limits::NAME_BYTES_MAX),
    (Operation::Register, "/agent/machine/id", "agent.machine.id", letters, limits::NAME_BYTES_MAX),
    (Operation::Register, "/agent/capabilities/maxTaskMinutes", "agent.capabilities.maxTaskMinutes", |minutes| json!(minutes), limits::MINUTES_MAX as usize),
    (Operation::Heartbeat, "/agentId", "agentId", letters, limits::ID_BYTES_MAX),
    (Operation::Heartbeat, "/currentTask/id", "currentTask.id", letters, limits::ID_BYTES_MAX),
    (Operation::Heartbeat, "/currentTask/progress", "currentTask.progress", |value| json!(value), 100),
    (Operation::Claim, "/agentId", "agentId", letters, limits::ID_BYTES_MAX),
    (Operation::Claim, "/taskId", "taskId", letters, limits::ID_BYTES_MAX),
    (Operation::Claim, "/filter/excludeIds", "filter.excludeIds", list, limits::EXCLUDED_IDS_MAX),
    (Operation::Claim, "/filter/skills", "filter.skills", list, limits::SKILLS_MAX),
    (Operation::Claim, "/wait", "wait", |seconds| json!(seconds), 60),
    (Operation::Progress, "/progress/percentComplete", "progress.percentComplete", |value| json!(value), 100),
    (Operation::Progress, "/progress/description", "progress.description", letters, limits::NOTE_BYTES_MAX),
    (Operation::Progress, "/progress/filesModified", "progress.filesModified", list, limits::FILES_MAX),
    (Operation::Complete, "/result/summary", "result.summary", letters, limits::NOTE_BYTES_MAX),
    (Operation::Complete, "/result/filesCreated", "result.filesCreated", list, limits::FILES_MAX),
    (Operation::Complete, "/result/learnings", "result.learnings", list, limits::LEARNINGS_PER_TASK_MAX),
    (Operation::Fail, "/failure/message", "failure.message", letters, limits::NOTE_BYTES_MAX),
    (Operation::Fail, "/failure/details", "failure.details", letters, limits::DETAILS_BYTES_MAX),
    (Operation::SendMessage, "/message/payload", "message.payload", payload, limits::PAYLOAD_BYTES_MAX),
    (Operation::SendMessage, "/message/id", "message.id", letters, limits::ID_BYTES_MAX),
    (Operation::ReceiveMessages, "/types", "types", list, limits::MESSAGE_TYPES_MAX),
    (Operation::ReceiveMessages, "/wait", "wait", |seconds| json!(seconds), 60),
    (Operation::AcquireLease, "/filePath", "filePath", letters, limits::PATH_BYTES_MAX),
];

#[test]
fn every_bound_holds_at_one_below_at_and_one_above() {
    for (operation, pointer, field, make, bound) in BOUNDS {
        for (size, fits) in [(bound - 1, true), (*bound, true), (bound + 1, false)] {
            let mut body = golden(*operation);
            if *field == "message.payload" {
                set(&mut body, "/message/type", json!("custom"));
            }
            set(&mut body, pointer, make(size));
            match call(*operation, &body) {
                Ok(_) => assert!(fits, "{operation} took {field} of {size}"),
                Err(malformed) => {
                    assert!(!fits, "{operation} refused {field} of {size}: {malformed}");
                    assert_eq!(malformed.field.as_deref(), Some(*field), "{operation}");
                }
            }
        }
    }
}

#[test]
fn values_out_of_range_are_named() {
    let cases = [
        (Operation::Register, "/agent/id", json!(""), "agent.id"),
        (Operation::Register, "/agent/id", json!("a b"), "agent.id"),
        (
            Operation::Register,
            "/agent/name",
            json!("  "),
            "agent.name",
        ),
        (
            Operation::Register,
            "/agent/capabilities/skills",
            json!(["rust", ""]),
            "agent.capabilities.skills[1]",
        ),
        (
            Operation::Heartbeat,
            "/currentTask/progress",
            json!(-1),
            "currentTask.progress",
        ),
        (
            Operation::Heartbeat,
            "/currentTask/progress",
            json!(100.5),
            "currentTask.progress",
        ),
        (
            Operation::Heartbeat,
            "/metrics/memoryUsedMB",
            json!(-1),
            "metrics.memoryUsedMB",
        ),
        (
            Operation::Claim,
            "/filter/excludeIds",
            json!(["a", "b\n"]),
            "filter.excludeIds[1]",
        ),
        (
            Operation::Progress,
            "/progress/percentComplete",
            json!(-0.1),
            "progress.percentComplete",
        ),
        (
            Operation::Complete,
            "/qualityMetrics/testsPassed",
            json!(121),
            "qualityMetrics.testsPassed",
        ),
        (
            Operation::Complete,
            "/qualityMetrics/testCoverage",
            json!(101),
            "qualityMetrics.testCoverage",
        ),
        (
            Operation::Complete,
            "/result/learnings",
            json!([" "]),
            "result.learnings[0]",
        ),
        (
            Operation::SendMessage,
            "/message/type",
            json!("shout"),
            "message.type",
        ),
        (
            Operation::SendMessage,
            "/message/type",
            json!("a..b"),
            "message.type",
        ),
        (
            Operation::SendMessage,
            "/message/type",
            json!(""),
            "message.type",
        ),
        (
            Operation::SendMessage,
            "/message/to",
            json!(""),
            "message.to",
        ),
        (
            Operation::SendMessage,
            "/message/expiresIn",
            json!(0),
            "message.expiresIn",
        ),
        (
            Operation::SendMessage,
            "/message/payload",
            json!({ "taskId": "" }),
            "message.payload.taskId",
        ),
        (Operation::ReceiveMessages, "/limit", json!(0), "limit"),
        (Operation::ReceiveMessages, "/since", json!(" "), "since"),
        (
            Operation::AcquireLease,
            "/durationMs",
            json!(0),
            "durationMs",
        ),
        (
            Operation::AcquireLease,
            "/durationMs",
            json!(-5),
            "durationMs",
        ),
        (
            Operation::AcquireLease,
            "/filePath",
            json!("../x"),
            "filePath",
        ),
        (
            Operation::AcquireLease,
            "/filePath",
            json!("/etc/passwd"),
            "filePath",
        ),
        (Operation::AcquireLease, "/filePath", json!(""), "filePath"),
        (
            Operation::ReleaseLease,
            "/filePath",
            json!("a/../../b"),
            "filePath",
        ),
    ];
    for (operation, pointer, value, field) in cases {
        let mut body = golden(operation);
        set(&mut body, pointer, value.clone());
        let malformed = call(operation, &body).expect_err(field);
        assert_eq!(
            malformed.field.as_deref(),
            Some(field),
            "{operation} {pointer} = {value}: {malformed}"
        );
    }
}

#[test]
fn new_tasks_are_bounded_each_under_its_place() {
    let many = |count: usize| json!({ "tasks": vec![json!({ "title": "T" }); count] });
    for (count, fits) in [
        (0, false),
        (1, true),
        (999, true),
        (1000, true),
        (1001, false),
    ] {
        assert_eq!(create(&many(count)).is_ok(), fits, "{count}");
    }
    let bounds: &[(&str, Make, usize)] = &[
        ("title", letters, limits::TITLE_BYTES_MAX),
        ("description", letters, limits::DESCRIPTION_BYTES_MAX),
        ("branch", letters, limits::NAME_BYTES_MAX),
        ("id", letters, limits::ID_BYTES_MAX),
        ("corrId", letters, limits::ID_BYTES_MAX),
        ("requiredSkills", list, limits::SKILLS_MAX),
        ("dependencies", list, limits::DEPENDENCIES_MAX),
        ("files", list, limits::FILES_MAX),
        ("audience", list, limits::AUDIENCE_MAX),
        (
            "estimatedMinutes",
            |minutes| json!(minutes),
            limits::MINUTES_MAX as usize,
        ),
        (
            "maxRetries",
            |retries| json!(retries),
            limits::RETRIES_MAX as usize,
        ),
    ];
    for (member, make, bound) in bounds {
        for (size, fits) in [(bound - 1, true), (*bound, true), (bound + 1, false)] {
            let mut task = json!({ "title": "T" });
            set(&mut task, &format!("/{member}"), make(size));
            let made = create(&json!({ "tasks": [{ "title": "first" }, task] }));
            assert_eq!(made.is_ok(), fits, "{member} of {size}");
            if let Err(malformed) = made {
                assert_eq!(malformed.field, Some(format!("tasks[1].{member}")));
            }
            let mut patch = json!({});
            set(&mut patch, &format!("/{member}"), make(size));
            let patch: PatchTaskRequest = parse(patch.to_string().as_bytes()).expect("a patch");
            let patchable = !["id", "corrId", "dependencies"].contains(member);
            assert_eq!(
                from_wire::change("t".into(), patch).is_ok(),
                fits || !patchable,
                "PATCH {member} of {size}"
            );
        }
    }
}

#[test]
fn a_skill_is_bounded_and_has_no_control_characters_wherever_it_stands() {
    let long = |bytes: usize| "s".repeat(bytes);
    let cases = [
        ("two words", true),
        ("c++ \u{00fc}", true),
        (&*long(limits::SKILL_BYTES_MAX - 1), true),
        (&*long(limits::SKILL_BYTES_MAX), true),
        (&*long(limits::SKILL_BYTES_MAX + 1), false),
        ("a\u{0000}", false),
        ("a\nb", false),
        ("a\u{001e}b", false),
        ("a\u{001f}b", false),
        ("\u{001f}", false),
        ("a\u{007f}", false),
        ("a\u{0085}b", false),
    ];
    let places = [
        (
            Operation::Register,
            "/agent/capabilities/skills",
            "agent.capabilities.skills[1]",
        ),
        (Operation::Claim, "/filter/skills", "filter.skills[1]"),
    ];
    for (skill, fits) in cases {
        let skills = json!(["rust", skill]);
        let judged = |made: Result<(), Malformed>, field: &str| match made {
            Ok(()) => assert!(fits, "{field} took {skill:?}"),
            Err(malformed) => {
                assert!(!fits, "{field} refused {skill:?}: {malformed}");
                assert_eq!(malformed.field.as_deref(), Some(field), "{skill:?}");
            }
        };
        for (operation, pointer, field) in places {
            let mut body = golden(operation);
            set(&mut body, pointer, skills.clone());
            judged(call(operation, &body).map(drop), field);
        }
        let task = json!({ "title": "T", "requiredSkills": skills });
        judged(create(&task).map(drop), "requiredSkills[1]");
        let patch = json!({ "requiredSkills": skills }).to_string();
        let patch: PatchTaskRequest = parse(patch.as_bytes()).expect("a patch");
        let changed = from_wire::change("t".into(), patch);
        judged(changed.map(drop), "requiredSkills[1]");
    }
}

#[test]
fn pages_waits_and_keys_are_bounded() {
    for (limit, size) in [
        (None, Some(100)),
        (Some(0), None),
        (Some(1), Some(1)),
        (Some(999), Some(999)),
    ] {
        assert_eq!(from_wire::page_size(limit).ok(), size);
    }
    assert_eq!(from_wire::page_size(Some(1000)).ok(), Some(1000));
    assert_eq!(
        from_wire::page_size(Some(1001))
            .expect_err("too many")
            .field
            .as_deref(),
        Some("limit")
    );
    for (seconds, fits) in [(59, true), (60, true), (61, false)] {
        assert_eq!(from_wire::wait_for(Some(seconds)).is_ok(), fits);
    }
    for (key, fits) in [("", false), ("k", true), ("a b", false), ("ä", false)] {
        assert_eq!(
            from_wire::idempotency_key("requestId", key).is_ok(),
            fits,
            "{key}"
        );
    }
    for (len, fits) in [(127, true), (128, true), (129, false)] {
        assert_eq!(
            from_wire::idempotency_key("requestId", &"k".repeat(len)).is_ok(),
            fits
        );
    }
}

#[test]
fn depth_is_refused_cheaply_and_clearly() {
    for open in ["[", "{\"a\":"] {
        let bytes = format!("{{\"agentId\":\"a\",\"x\":{}", open.repeat(200_000));
        let malformed =
            Request::parse(Operation::SendMessage, bytes.as_bytes()).expect_err("too deep");
        assert!(
            malformed.field.is_none() || malformed.message.len() < 200,
            "{malformed}"
        );
    }
    let payload = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let body = format!(r#"{{"agentId":"a","message":{{"type":"custom","payload":{payload}}}}}"#);
    let malformed = Request::parse(Operation::SendMessage, body.as_bytes()).map(|_| json!(null));
    assert!(
        malformed
            .expect_err("too deep")
            .message
            .contains("too deeply")
    );
}

//! One rule of the protocol broken on purpose, to show that `switchboard conformance runtime` notices.
//!
//! Only in builds with debug assertions; `SWITCHBOARD_BREAK_RUNTIME` names the group of clauses. What is broken is broken
//! where events come in and go out, and the rules behind know nothing of it.

use std::env;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use switchboard_core::audit::AuditEntry;
use switchboard_core::node::Timings;
use switchboard_core::skill_review::SkillReview;
use switchboard_wire::Json;
use switchboard_wire::runtime::{Event, PublishResponse};

static GROUP: LazyLock<String> =
    LazyLock::new(|| env::var("SWITCHBOARD_BREAK_RUNTIME").unwrap_or_default());

/// Whether the rule of this group is to be broken.
pub fn is(group: &str) -> bool {
    GROUP.as_str() == group
}

/// An event as it is told to others.
pub fn told(mut event: Event) -> Event {
    if GROUP.is_empty() {
        return event;
    }
    let Ok(mut payload) = event.payload.read::<Value>() else {
        return event;
    };
    let path = payload["path"].as_str().unwrap_or_default();
    let record = match path.split('.').nth(1) {
        Some("catalog") => "catalog",
        Some("index") => "index",
        _ => "",
    };
    match (GROUP.as_str(), event.kind.as_str()) {
        ("message", "message") => payload["priority"] = json!("low"),
        ("ack", "ack") => payload["refKind"] = json!(""),
        ("task_create", "task_create") => payload["deadlineAt"] = Value::Null,
        ("task_accept", "task_accept") => payload["planSummary"] = Value::Null,
        ("task_update", "task_update") => payload["progress"] = Value::Null,
        ("task_complete", "task_complete") => payload["resultRef"] = Value::Null,
        ("task_failed", "task_failed") => payload["failureClass"] = json!("unknown"),
        ("skill", "task_create") => payload["taskType"] = Value::Null,
        ("catalog", "signal") if record == "catalog" => {
            payload["record"]["ownerNodeId"] = Value::Null;
        }
        ("index", "signal") if record == "index" => {
            payload["record"]["policyVersion"] = Value::Null;
        }
        _ => return event,
    }
    event.payload = Json::from(payload);
    event
}

/// An event as others bring it.
pub fn heard(event: &Event, source: &str) -> Event {
    let mut event = event.clone();
    if is("envelope") {
        source.clone_into(&mut event.source_node_id);
    }
    if is("message") && event.kind == "message" && event.trace.attempt > 1 {
        event.event_id.push_str("_again");
    }
    event
}

/// What is said to who publishes.
pub fn published(mut said: PublishResponse) -> PublishResponse {
    if is("route") {
        said.recipients.append(&mut said.ignored);
    }
    said
}

/// What counts once, as it is remembered: so that it counts again.
pub fn once(group: &str, value: &str) -> String {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    match is(group) {
        true => SERIAL.fetch_add(1, Ordering::Relaxed).to_string(),
        false => value.to_owned(),
    }
}

/// What was written down of a step.
pub fn written(mut entry: AuditEntry) -> AuditEntry {
    if is("audit") {
        entry.session = None;
    }
    entry
}

/// How long is waited before something is sent again.
pub fn timings(configured: Timings) -> Timings {
    match is("default") {
        true => Timings {
            answered_within_seconds: 2,
            ..configured
        },
        false => configured,
    }
}

/// Which outbox a page is said to be of.
pub fn epoch(said: &str) -> &str {
    match is("cursor") {
        true => "route-epoch-any",
        false => said,
    }
}

/// What there is to review.
pub fn reviews(open: Vec<SkillReview>) -> Vec<SkillReview> {
    match is("review") {
        true => Vec::new(),
        false => open,
    }
}

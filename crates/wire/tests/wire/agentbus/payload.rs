//! Every payload: what is required, what may be absent, and every bound at n-1, n and n+1.

use serde_json::{Value, json};
use switchboard_core::limits;
use switchboard_wire::agentbus::message::{
    BudgetGrant, CAPABILITY_ASSIGN, Heartbeat, Hello, Inbound, MessageType, Outbound,
};
use switchboard_wire::agentbus::{NUMBER_MAX, Role, SECONDS_MAX, Stage};
use switchboard_wire::{Json, Malformed};

use super::{golden, set, take};

pub fn read(name: &str, payload: &Value) -> Result<(), Malformed> {
    let kind: MessageType = name.split(".v1").next().map_or_else(
        || panic!("{name}"),
        |stem| format!("{stem}.v1").parse().expect("a type"),
    );
    let payload = serde_json::value::to_raw_value(payload).expect("JSON");
    match Inbound::read(kind, &payload) {
        Some(read) => read.map(|_| ()),
        None => Outbound::read(kind, &payload)
            .unwrap_or_else(|| panic!("{kind} is of no direction"))
            .map(|_| ()),
    }
}

fn blamed(name: &str, payload: &Value) -> String {
    let malformed = read(name, payload).expect_err("refused");
    malformed.field.unwrap_or_default()
}

#[rustfmt::skip]
const REQUIRED: &[(&str, &[&str])] = &[
    // agentbus.hello.version_and_capabilities, agentbus.hello.worker
    ("protocol_hello.v1", &["/protocol_version", "/capabilities", "/worker/worker_id"]),
    ("protocol_welcome.v1", &["/protocol_version", "/director", "/director/run_id"]),
    // agentbus.incompat.fields
    ("protocol_incompatibility.v1", &["/reason", "/expected_protocol_version", "/sender_protocol_version", "/required_action"]),
    ("protocol_error.v1", &["/code", "/message"]),
    ("worker_probe.v1", &["/reason", "/answer_within_seconds"]),
    // agentbus.heartbeat.issue_attempt, agentbus.heartbeat.progress
    ("heartbeat.v1", &["/state", "/state/stage", "/state/issue_number", "/state/progress/step", "/state/progress/percent"]),
    ("task_progress.v1", &["/issue_number", "/attempt", "/stage", "/progress", "/progress/step", "/progress/percent"]),
    // agentbus.error.identity, agentbus.error.type_and_message, agentbus.error.flags
    ("worker_error.v1", &["/error", "/error/error_id", "/error/worker_id", "/error/issue_number", "/error/stage", "/error/attempt", "/error/error_type",
        "/error/is_transient", "/error/should_retry", "/error/escalate_to_human", "/error/message"]),
    ("project_state_snapshot.v1", &["/workers", "/queue", "/queue/eligible_issue_numbers", "/queue/claimed_issue_numbers", "/release/release_id",
        "/release/release_branch", "/director/state", "/director/since", "/director/run_id", "/workers/0/worker_id", "/workers/0/connected"]),
    ("memory_event.v1", &["/event_type", "/event"]),
    ("engram_announce.v1", &["/batch_id", "/engram_id", "/scope", "/path", "/hash"]),
    ("engram_catalog_snapshot.v1", &["/catalog_version", "/catalog_hash", "/catalog_path", "/entries", "/entries/0/engram_id", "/entries/0/scope",
        "/entries/0/version", "/entries/0/path", "/entries/0/hash"]),
    ("engram_catalog_delta.v1", &["/from_version", "/from_hash", "/to_version", "/to_hash", "/added", "/removed"]),
    ("engram_request.v1", &["/engram_id"]),
    ("engram_content.v1", &["/engram_id", "/hash", "/part", "/parts", "/content"]),
    ("sync_required.v1", &["/reason", "/main_sha_expected", "/policy", "/required_action"]),
    ("release_published.v1", &["/tag", "/main_sha", "/image_tag"]),
    ("operator_command.v1", &["/command", "/release"]),
    ("operator_ack.v1", &["/ref_seq", "/ok", "/message"]),
    ("budget_request.v1", &["/request_id", "/resource", "/kind", "/priority"]),
    ("budget_grant.v1", &["/request_id", "/grant_id"]),
    ("budget_result.v1", &["/grant_id", "/status"]),
    ("task_assigned.v1", &["/issue_number", "/task_id", "/epoch", "/attempt", "/title", "/description", "/files"]),
    ("task_accepted.v1", &["/issue_number", "/epoch"]),
    ("task_declined.v1", &["/issue_number", "/epoch", "/reason"]),
    ("task_result.v1", &["/issue_number", "/epoch", "/result", "/quality/tests_ran", "/quality/tests_passed", "/quality/lint_errors",
        "/quality/type_errors", "/quality/build_success"]),
    ("task_revoked.v1", &["/issue_number", "/epoch", "/reason"]),
    ("agent_message.v1", &["/message_id", "/from", "/type", "/body", "/ack_required"]),
    ("agent_message_ack.v1", &["/message_id"]),
];

#[rustfmt::skip]
const OPTIONAL: &[(&str, &[&str])] = &[
    ("protocol_hello.v1", &["/worker", "/repo", "/worker/container_id", "/worker/image_tag", "/worker/worktree_path", "/worker/branch_name",
        "/worker/max_task_minutes",
        // agentbus.hello.repo
        "/repo/main_sha_seen", "/repo/main_ancestor_sha", "/repo/catalog_hash_seen"]),
    // agentbus.welcome.director
    ("protocol_welcome.v1", &["/director/main_sha_expected", "/director/catalog_hash_expected", "/limits"]),
    ("protocol_error.v1", &["/ref_seq"]),
    // agentbus.heartbeat.repo, agentbus.heartbeat.last_error_id
    ("heartbeat.v1", &["/state/attempt", "/state/last_update_at", "/state/progress", "/state/repo", "/state/last_error_id", "/state/repo/branch_name", "/state/repo/base_branch",
        "/state/repo/main_ancestor_sha", "/state/repo/catalog_hash_seen"]),
    ("task_progress.v1", &["/note", "/corr_id"]),
    // agentbus.error.optional_fields
    ("worker_error.v1", &["/error/exit_code", "/error/container_id", "/error/worktree_path", "/error/last_stdout_tail", "/error/last_stderr_tail",
        "/error/retry_after_seconds", "/corr_id"]),
    // agentbus.snapshot.release
    ("project_state_snapshot.v1", &["/release", "/release/release_pr_number", "/director", "/director/reason", "/queue/eligible_total", "/queue/claimed_total",
        "/snapshot_id", "/workers/0/last_heartbeat_age_seconds", "/workers/0/doors", "/workers/0/stage", "/workers/0/external", "/workers/0/progress",
        "/workers/0/repo", "/workers/0/last_error_id", "/workers/0/last_update_at"]),
    ("engram_catalog_snapshot.v1", &["/snapshot_id", "/part", "/parts", "/entries/0/topics"]),
    ("engram_catalog_delta.v1", &["/part", "/parts"]),
    ("catalog_refresh_request.v1", &["/have_version", "/have_hash"]),
    // agentbus.sync.expected, agentbus.sync.policy
    ("sync_required.v1", &["/catalog_hash_expected", "/policy/max_commits_behind", "/policy/max_seconds_behind", "/policy/require_catalog_hash_match"]),
    ("operator_command.v1", &["/target", "/reason", "/seconds", "/release/release_pr_number"]),
    ("budget_grant.v1.queued", &["/position"]),
    ("budget_result.v1", &["/retry_after_seconds"]),
    ("task_assigned.v1", &["/branch", "/deadline", "/corr_id"]),
    ("task_accepted.v1", &["/corr_id"]),
    ("task_result.v1", &["/quality", "/quality/lint_warnings", "/quality/test_coverage", "/result/summary", "/result/files_created",
        "/result/files_modified", "/result/files_deleted", "/result/learnings", "/corr_id"]),
    ("agent_message.v1", &["/to", "/corr_id"]),
    ("agent_message_ack.v1", &["/state", "/reason", "/corr_id"]),
];

/// `/workers/0/id` as an error names it: `payload.workers[0].id`.
fn field_of(pointer: &str) -> String {
    pointer
        .split('/')
        .skip(1)
        .fold("payload".to_owned(), |field, member| {
            match member.parse::<usize>() {
                Ok(index) => format!("{field}[{index}]"),
                Err(_) => format!("{field}.{member}"),
            }
        })
}

#[test]
fn what_is_required_is_asked_for_by_name() {
    for (name, pointers) in REQUIRED {
        for pointer in *pointers {
            let mut payload = golden(name)["payload"].take();
            take(&mut payload, pointer);
            let field = field_of(pointer);
            assert_eq!(blamed(name, &payload), field, "{name}{pointer}");
        }
    }
}

#[test]
fn what_is_optional_may_be_absent_or_null() {
    for (name, pointers) in OPTIONAL {
        for pointer in *pointers {
            let mut payload = golden(name)["payload"].take();
            take(&mut payload, pointer);
            read(name, &payload).unwrap_or_else(|m| panic!("{name}{pointer}: {m}"));
        }
    }
    let mut heartbeat = golden("heartbeat.v1")["payload"].take();
    for pointer in ["/state/progress", "/state/repo", "/state/last_error_id"] {
        set(&mut heartbeat, pointer, Value::Null);
    }
    read("heartbeat.v1", &heartbeat).expect("null is absent");
}

#[test]
fn stages_are_twelve_words() {
    // agentbus.heartbeat.stage_enum
    for stage in Stage::WORDS {
        let mut payload = golden("heartbeat.v1")["payload"].take();
        set(&mut payload, "/state/stage", json!(stage));
        read("heartbeat.v1", &payload).unwrap_or_else(|m| panic!("{stage}: {m}"));
    }
    for stage in [json!("CODING"), json!("code"), json!(""), json!(4)] {
        let mut payload = golden("heartbeat.v1")["payload"].take();
        set(&mut payload, "/state/stage", stage);
        assert_eq!(blamed("heartbeat.v1", &payload), "payload.state.stage");
    }
}

fn letters(count: usize) -> Value {
    "x".repeat(count).into()
}

fn list(count: usize) -> Value {
    (0..count).map(|index| format!("i{index}")).collect()
}

fn number(value: usize) -> Value {
    value.into()
}

type Bound = (
    &'static str,
    &'static str,
    &'static str,
    fn(usize) -> Value,
    usize,
);

#[rustfmt::skip]
const BOUNDS: &[Bound] = &[
    ("protocol_hello.v1", "/capabilities", "capabilities", list, limits::SKILLS_MAX),
    ("protocol_hello.v1", "/capabilities/0", "capabilities[0]", letters, limits::SKILL_BYTES_MAX),
    ("protocol_hello.v1", "/worker/worker_id", "worker.worker_id", letters, limits::ID_BYTES_MAX),
    ("protocol_hello.v1", "/worker/worktree_path", "worker.worktree_path", letters, limits::PATH_BYTES_MAX),
    ("protocol_hello.v1", "/worker/max_task_minutes", "worker.max_task_minutes", number, limits::MINUTES_MAX as usize),
    ("protocol_hello.v1", "/repo/main_ancestor_sha", "repo.main_ancestor_sha", letters, limits::NAME_BYTES_MAX),
    ("heartbeat.v1", "/state/issue_number", "state.issue_number", number, NUMBER_MAX as usize),
    ("heartbeat.v1", "/state/attempt", "state.attempt", number, u32::MAX as usize),
    ("heartbeat.v1", "/state/progress/percent", "state.progress.percent", number, 100),
    ("heartbeat.v1", "/state/progress/step", "state.progress.step", letters, limits::NOTE_BYTES_MAX),
    ("heartbeat.v1", "/state/last_error_id", "state.last_error_id", letters, limits::ID_BYTES_MAX),
    ("task_progress.v1", "/note", "note", letters, limits::NOTE_BYTES_MAX),
    ("task_progress.v1", "/progress/percent", "progress.percent", number, 100),
    ("worker_error.v1", "/error/error_id", "error.error_id", letters, limits::ID_BYTES_MAX),
    ("worker_error.v1", "/error/error_type", "error.error_type", letters, limits::NAME_BYTES_MAX),
    ("worker_error.v1", "/error/retry_after_seconds", "error.retry_after_seconds", number, SECONDS_MAX as usize),
    ("engram_request.v1", "/engram_id", "engram_id", letters, limits::ID_BYTES_MAX),
    ("operator_command.v1", "/reason", "reason", letters, limits::NOTE_BYTES_MAX),
    ("operator_command.v1", "/seconds", "seconds", number, SECONDS_MAX as usize),
    ("budget_request.v1", "/request_id", "request_id", letters, limits::ID_BYTES_MAX),
    ("budget_result.v1", "/retry_after_seconds", "retry_after_seconds", number, SECONDS_MAX as usize),
    ("task_declined.v1", "/reason", "reason", letters, limits::NOTE_BYTES_MAX),
    ("task_result.v1", "/result/summary", "result.summary", letters, limits::NOTE_BYTES_MAX),
    ("task_result.v1", "/result/files_created", "result.files_created", list, limits::FILES_MAX),
    ("task_result.v1", "/result/learnings", "result.learnings", list, limits::LEARNINGS_PER_TASK_MAX),
    ("task_result.v1", "/quality/test_coverage", "quality.test_coverage", number, 100),
    ("task_assigned.v1", "/title", "title", letters, limits::TITLE_BYTES_MAX),
    ("agent_message.v1", "/to", "to", letters, limits::ID_BYTES_MAX),
];

#[test]
fn every_bound_holds_at_one_below_at_and_one_above() {
    for (name, pointer, field, make, bound) in BOUNDS {
        for (size, fits) in [(bound - 1, true), (*bound, true), (bound + 1, false)] {
            let mut payload = golden(name)["payload"].take();
            set(&mut payload, pointer, make(size));
            match read(name, &payload) {
                Ok(()) => assert!(fits, "{name} took {field} of {size}"),
                Err(malformed) => {
                    assert!(!fits, "{name} refused {field} of {size}: {malformed}");
                    assert_eq!(malformed.field, Some(format!("payload.{field}")));
                }
            }
        }
    }
}

#[test]
fn values_outside_their_meaning_are_named() {
    for (name, pointer, value, field) in [
        ("heartbeat.v1", "/state/attempt", json!(-1), "state.attempt"),
        (
            "heartbeat.v1",
            "/state/attempt",
            json!(1.5),
            "state.attempt",
        ),
        (
            "heartbeat.v1",
            "/state/issue_number",
            json!("21"),
            "state.issue_number",
        ),
        (
            "heartbeat.v1",
            "/state/progress/percent",
            json!(-0.1),
            "state.progress.percent",
        ),
        (
            "heartbeat.v1",
            "/state/progress",
            json!([1]),
            "state.progress",
        ),
        (
            "heartbeat.v1",
            "/state/last_update_at",
            json!("later"),
            "state.last_update_at",
        ),
        ("heartbeat.v1", "/state", json!(["CODE", 1, 1]), "state"),
        (
            "worker_error.v1",
            "/error/is_transient",
            json!("yes"),
            "error.is_transient",
        ),
        (
            "worker_error.v1",
            "/error/error_id",
            json!("a b"),
            "error.error_id",
        ),
        (
            "memory_event.v1",
            "/event_type",
            json!("unheard.v1"),
            "event_type",
        ),
        ("memory_event.v1", "/event", json!([1]), "event"),
        // agentbus.engram.batch_id, agentbus.engram.scope_enum, agentbus.engram.path
        (
            "engram_announce.v1",
            "/batch_id",
            json!("2026-02-11"),
            "batch_id",
        ),
        ("engram_announce.v1", "/scope", json!("mt"), "scope"),
        ("engram_announce.v1", "/path", json!("../x.json"), "path"),
        (
            "engram_announce.v1",
            "/engram_id",
            json!("../x"),
            "engram_id",
        ),
        ("engram_announce.v1", "/hash", json!(""), "hash"),
        (
            "engram_catalog_snapshot.v1",
            "/entries/0/path",
            json!("memory/x"),
            "entries[0].path",
        ),
        ("engram_catalog_snapshot.v1", "/part", json!(3), "part"),
        ("engram_catalog_snapshot.v1", "/parts", json!(0), "part"),
        // agentbus.sync.reason, agentbus.sync.action_enum
        ("sync_required.v1", "/reason", json!("bored"), "reason"),
        (
            "sync_required.v1",
            "/required_action",
            json!("reset"),
            "required_action",
        ),
        ("operator_command.v1", "/command", json!("dance"), "command"),
        ("budget_request.v1", "/kind", json!("request"), "kind"),
        ("budget_request.v1", "/priority", json!("now"), "priority"),
        ("budget_grant.v1", "/queued", json!(true), "grant_id"),
        ("budget_result.v1", "/status", json!("fine"), "status"),
        (
            "task_result.v1",
            "/quality/tests_passed",
            json!(121),
            "quality.tests_passed",
        ),
        ("task_result.v1", "/result", json!("done"), "result"),
        ("agent_message.v1", "/from", json!(""), "from"),
    ] {
        let mut payload = golden(name)["payload"].take();
        set(&mut payload, pointer, value.clone());
        assert_eq!(
            blamed(name, &payload),
            format!("payload.{field}"),
            "{name} {value}"
        );
    }
    let mut command = golden("operator_command.v1")["payload"].take();
    set(&mut command, "/command", json!("shutdown_worker"));
    take(&mut command, "/target");
    assert_eq!(blamed("operator_command.v1", &command), "payload.target");
}

#[test]
fn a_worker_says_where_it_runs_and_an_operator_need_not() {
    // agentbus.hello.operator_too
    let operator: Hello = Json::from(golden("protocol_hello.v1.operator")["payload"].take())
        .read()
        .expect("a hello");
    operator
        .check_for(Role::Operator)
        .expect("nothing is asked");
    assert_eq!(
        operator.check_for(Role::Worker).expect_err("asked").field,
        Some("payload.worker".to_owned())
    );
    let worker: Hello = Json::from(golden("protocol_hello.v1")["payload"].take())
        .read()
        .expect("a hello");
    worker.check_for(Role::Worker).expect("everything is there");
    assert!(worker.can(CAPABILITY_ASSIGN) && !worker.can("python"));
    assert_eq!(worker.skills().collect::<Vec<_>>(), ["rust"]);
    let mut without_repo = worker;
    without_repo.repo = None;
    assert_eq!(
        without_repo
            .check_for(Role::Worker)
            .expect_err("asked")
            .field,
        Some("payload.repo".to_owned())
    );
}

#[test]
fn the_document_s_own_example_is_a_heartbeat_of_a_first_attempt() {
    // agentbus.heartbeat.issue_attempt, agentbus.heartbeat.last_update_at
    let frame = golden("envelope.document");
    let beat: Heartbeat<'_> = serde_json::from_str(&frame["payload"].to_string())
        .map(Heartbeat::into_owned)
        .expect("a heartbeat");
    assert_eq!((beat.state.issue_number, beat.state.attempt), (21, 1));
    assert_eq!(beat.state.last_update_at, None);
    read("heartbeat.v1", &frame["payload"]).expect("it is taken");
}

#[test]
fn a_text_of_an_error_may_be_of_any_length() {
    // agentbus.error.optional_fields
    let long = limits::DETAILS_BYTES_MAX + 1;
    for pointer in [
        "/error/message",
        "/error/last_stdout_tail",
        "/error/last_stderr_tail",
    ] {
        let mut payload = golden("worker_error.v1")["payload"].take();
        set(&mut payload, pointer, letters(long));
        read("worker_error.v1", &payload).unwrap_or_else(|fault| panic!("{pointer}: {fault}"));
    }
}

#[test]
fn a_grant_is_given_or_waited_for() {
    for grant in [
        BudgetGrant::granted("r".to_owned(), "g".to_owned()),
        BudgetGrant::queued("r".to_owned(), Some(2)),
        BudgetGrant::queued("r".to_owned(), None),
    ] {
        let payload = serde_json::to_value(&grant).expect("JSON");
        read("budget_grant.v1", &payload).expect("a grant");
    }
    assert_eq!(
        blamed("budget_grant.v1", &json!({ "request_id": "r" })),
        "payload.grant_id"
    );
}

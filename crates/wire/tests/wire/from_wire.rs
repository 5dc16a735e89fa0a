//! What a message means as a verb; ids in path and body.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::query::Since;
use switchboard_core::{
    AgentId, GatePolicy, LeasePath, Meaning, Priority, Skills, TaskId, To, limits, verb,
};
use switchboard_wire::jetpack::from_wire::{self, Call, Context, Fetch, meaning};
use switchboard_wire::jetpack::{
    CreateTasksRequest, MessageQuery, Operation, PatchTaskRequest, Request,
};
use switchboard_wire::{Malformed, Query, parse};

use crate::golden::read;

pub fn golden(operation: Operation) -> Value {
    serde_json::from_slice(&read(&format!(
        "{}.request.full",
        operation.as_str().to_lowercase()
    )))
    .expect("JSON")
}

fn with_context<R>(act: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let mut made = 0;
    let mut fresh = |letters: &'static str| {
        made += 1;
        format!("{letters}_{made}")
    };
    let policy = Arc::new(GatePolicy::default());
    act(&mut Context {
        root: "/home/me/project",
        policy: &policy,
        fresh: &mut fresh,
    })
}

fn call_on(operation: Operation, path: Option<&str>, body: &Value) -> Result<Call, Malformed> {
    let bytes = serde_json::to_vec(body).expect("printable");
    let request = Request::parse(operation, &bytes)?;
    with_context(|context| Call::new(request, path, context))
}

pub fn call(operation: Operation, body: &Value) -> Result<Call, Malformed> {
    call_on(operation, None, body)
}

pub fn set(body: &mut Value, pointer: &str, value: Value) {
    let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
    let parent = body
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .expect("an object");
    parent.insert(member.to_owned(), value);
}

#[test]
fn the_id_may_stand_in_the_path_or_in_the_body_but_not_two_of_them() {
    for (operation, member, id) in [
        (Operation::Heartbeat, "agentId", "agent-001"),
        (Operation::Progress, "taskId", "task-1"),
        (Operation::Complete, "taskId", "task-1"),
        (Operation::Fail, "taskId", "task-1"),
    ] {
        let body = golden(operation);
        let mut bare = body.clone();
        bare.as_object_mut().expect("an object").remove(member);
        let both = call_on(operation, Some(id), &body).expect("the same in both");
        assert_eq!(call_on(operation, Some(id), &bare), Ok(both.clone()));
        assert_eq!(call_on(operation, None, &body), Ok(both));
        assert_eq!(
            call_on(operation, None, &bare),
            Err(Malformed::missing(member))
        );
        let other = call_on(operation, Some("other"), &body).expect_err("two ids");
        assert_eq!(other.field.as_deref(), Some(member));
    }
}

#[test]
fn every_operation_acts_as_the_agent_that_its_body_names() {
    for operation in Operation::ALL {
        let call = call(*operation, &golden(*operation)).expect("a call");
        let agent = if *operation == Operation::ReceiveMessages {
            "agent-002"
        } else {
            "agent-001"
        };
        assert_eq!(call.agent().as_str(), agent, "{operation}");
    }
}

#[test]
fn a_claim_keeps_its_filter_and_its_wait() {
    let Ok(Call::Claim { claim, wait_for }) = call(Operation::Claim, &golden(Operation::Claim))
    else {
        panic!()
    };
    assert_eq!(wait_for, Duration::from_secs(30));
    assert_eq!(claim.filter.skills, Some(Skills::new(["typescript"])));
    assert_eq!(claim.filter.max_minutes, Some(45));
    assert!(claim.filter.excluded.contains(&TaskId::from("task-9")));
    let empty =
        json!({ "agentId": "a", "filter": { "skills": [], "priorities": [], "types": [] } });
    let Ok(Call::Claim { claim, wait_for }) = call(Operation::Claim, &empty) else {
        panic!()
    };
    assert_eq!(
        (claim.filter, wait_for),
        (verb::Filter::default(), Duration::ZERO)
    );
}

#[test]
fn fractions_of_a_percent_are_rounded() {
    let Ok(Call::Progress(progress)) = call(Operation::Progress, &golden(Operation::Progress))
    else {
        panic!()
    };
    assert_eq!((progress.percent, progress.epoch), (34, Some(2)));
}

#[test]
fn a_completion_carries_its_figures_learnings_and_result() {
    let Ok(Call::Complete(complete)) = call(Operation::Complete, &golden(Operation::Complete))
    else {
        panic!()
    };
    let (snapshot, metrics) = complete.metrics.expect("metrics");
    assert_eq!(snapshot.as_str(), "qs_2");
    assert_eq!((metrics.tests_passing, metrics.tests_failing), (118, 2));
    assert_eq!(complete.learnings.len(), 1);
    let result: Value = serde_json::from_str(&complete.result).expect("JSON");
    assert_eq!(result, golden(Operation::Complete)["result"]);
}

#[test]
fn what_else_a_result_says_is_kept_up_to_a_bound() {
    let completed = |other: Value| {
        let mut body = golden(Operation::Complete);
        body["result"]["response"] = other;
        match call(Operation::Complete, &body) {
            Ok(Call::Complete(complete)) => Ok((body["result"].clone(), complete.result)),
            Ok(other) => panic!("{other:?}"),
            Err(malformed) => Err(malformed.field.unwrap_or_default()),
        }
    };
    for other in [json!({ "deep": [1, -2.5, null, "ü"] }), json!(null)] {
        let (said, kept) = completed(other).expect("fits");
        assert_eq!(serde_json::from_str::<Value>(&kept).expect("JSON"), said);
    }
    let text = |bytes: usize| json!("x".repeat(bytes - "response".len() - 2));
    for (bytes, fits) in [(-1, true), (0, true), (1, false)] {
        let bytes = limits::OTHER_BYTES_MAX.saturating_add_signed(bytes);
        let outcome = completed(text(bytes)).map(drop);
        let expected = if fits {
            Ok(())
        } else {
            Err("result".to_owned())
        };
        assert_eq!(outcome, expected, "{bytes}");
    }
}

#[test]
fn a_message_names_one_agent_several_or_nobody() {
    let several = |ids: &[&str]| To::agents(ids.iter().map(|id| AgentId::from(*id)));
    let bad = |field: &str| Err(field.to_owned());
    let table = [
        (json!(null), Ok(To::Everyone)),
        (json!("b"), Ok(To::One("b".into()))),
        (json!(["b"]), Ok(To::One("b".into()))),
        (json!(["b", "b"]), Ok(To::One("b".into()))),
        (json!(["b", "c"]), Ok(several(&["b", "c"]).expect("two"))),
        (json!([]), bad("message.to")),
        (json!(7), bad("message.to")),
        (json!({ "id": "b" }), bad("message.to")),
        (json!(""), bad("message.to")),
        (json!(["b", "c d"]), bad("message.to[1]")),
        (json!(["b", 7]), bad("message.to[1]")),
        (json!(["b", null]), bad("message.to[1]")),
    ];
    for (to, expected) in table {
        let message = json!({ "type": "custom", "to": to, "payload": 1 });
        let found = match call(
            Operation::SendMessage,
            &json!({ "agentId": "a", "message": message }),
        ) {
            Ok(Call::Send(send)) => Ok(send.to),
            Ok(other) => panic!("{other:?}"),
            Err(malformed) => Err(malformed.field.unwrap_or_default()),
        };
        assert_eq!(found, expected, "{to}");
    }
    for (word, expected) in [
        (json!("critical"), Some(Priority::Critical)),
        (json!(null), Some(Priority::Medium)),
        (json!("urgent"), None),
    ] {
        let message = json!({ "type": "custom", "priority": word });
        let body = json!({ "agentId": "a", "message": message });
        let found = match call(Operation::SendMessage, &body) {
            Ok(Call::Send(send)) => Some(send.priority),
            _ => None,
        };
        assert_eq!(found, expected, "{word}");
    }
}

#[test]
fn the_hub_understands_handoffs_and_lock_requests_and_no_other_payload() {
    let offer = |task: &str| Ok(Meaning::Offer(task.into()));
    let wants = |path: &str| Ok(Meaning::Wants(LeasePath::stored(path)));
    let (nothing, bad) = (Ok(Meaning::Nothing), |field: &str| Err(field.to_owned()));
    let (handoff, lock) = ("task.handoff", "file.lock_request");
    let table = [
        (handoff, true, r#"{"taskId":"t1","note":1}"#, offer("t1")),
        (handoff, true, "null", nothing.clone()),
        (handoff, true, "{}", nothing.clone()),
        (handoff, false, r#"{"taskId":"t1"}"#, offer("t1")),
        (handoff, true, r#"{"taskId":7}"#, nothing.clone()),
        (
            handoff,
            true,
            r#"{"taskId":""}"#,
            bad("message.payload.taskId"),
        ),
        (handoff, true, "[]", nothing.clone()),
        (handoff, true, r#""t1""#, nothing.clone()),
        (
            lock,
            false,
            r#"{"filePath":"./src//a.rs"}"#,
            wants("src/a.rs"),
        ),
        (
            lock,
            false,
            r#"{"filePath":"/home/me/project/a"}"#,
            wants("a"),
        ),
        (
            lock,
            false,
            r#"{"filePath":"/etc/a"}"#,
            bad("message.payload.filePath"),
        ),
        (lock, false, r#"{"filePath":7}"#, nothing.clone()),
        (lock, false, "{}", nothing.clone()),
        (lock, false, "null", nothing.clone()),
        (lock, false, r#""x""#, nothing.clone()),
        (lock, false, "7", nothing.clone()),
        (lock, true, "{}", nothing.clone()),
        (lock, true, r#"{"filePath":"a"}"#, nothing.clone()),
        ("custom", false, r#"["taskId"]"#, nothing.clone()),
        ("task.handoff_done", true, r#"{"taskId":7}"#, nothing),
    ];
    for (kind, has_recipient, payload, expected) in table {
        let found = meaning(kind, payload, has_recipient, "/home/me/project");
        let found = found.map_err(|malformed| malformed.field.unwrap_or_default());
        assert_eq!(found, expected, "{kind} {has_recipient} {payload}");
    }
    let send = |kind: &str, payload: Value| {
        let message = json!({ "type": kind, "to": "b", "payload": payload });
        let body = json!({ "agentId": "a", "message": message });
        match call(Operation::SendMessage, &body) {
            Ok(Call::Send(send)) => send,
            other => panic!("{other:?}"),
        }
    };
    let sent = send(handoff, json!({ "taskId": "t1" }));
    assert_eq!(sent.meaning, Meaning::Offer("t1".into()));
    assert_eq!(sent.corr_id.as_str(), sent.id.as_str());
    for kind in ["task.claimed", "agent.started", "my-tool.v2.done"] {
        assert_eq!(&*send(kind, json!(["a"])).payload, r#"["a"]"#, "{kind}");
    }
}

#[test]
fn expiry_is_clamped_to_the_longest_that_is_kept() {
    let body = json!({ "agentId": "a", "message": { "type": "custom", "expiresIn": i64::MAX } });
    let Ok(Call::Send(send)) = call(Operation::SendMessage, &body) else {
        panic!()
    };
    assert_eq!(send.expires_in, Some(limits::MESSAGE_EXPIRES_MAX));
}

#[test]
fn receiving_marks_messages_unless_a_point_is_named() {
    let fetch = |body: Value| match call(Operation::ReceiveMessages, &body) {
        Ok(Call::Receive { fetch, .. }) => fetch,
        other => panic!("{other:?}"),
    };
    let Fetch::Next(receive) = fetch(json!({ "agentId": "a", "limit": 100_000 })) else {
        panic!()
    };
    assert_eq!(receive.limit, limits::RECEIVE_MAX);
    for (since, point) in [
        (
            "2026-01-19T10:00:00.000Z",
            Since::Instant(switchboard_core::Timestamp(1_768_816_800_000)),
        ),
        ("msg_1", Since::Message("msg_1".into())),
    ] {
        let Fetch::Since(wanted) = fetch(json!({ "agentId": "a", "since": since })) else {
            panic!()
        };
        assert_eq!(
            (wanted.since, wanted.limit),
            (point, limits::RECEIVE_DEFAULT)
        );
    }
    let query =
        MessageQuery::from_query("agentId=a&types=custom,task.handoff&limit=3").expect("a query");
    let request = from_wire::receive_query(query).expect("a request");
    assert_eq!(request.types, ["custom", "task.handoff"]);
    assert_eq!(
        from_wire::receive_query(MessageQuery::default()),
        Err(Malformed::missing("agentId"))
    );
}

pub fn create(body: &Value) -> Result<verb::CreateTasks, Malformed> {
    let request = CreateTasksRequest::parse(&serde_json::to_vec(body).expect("printable"))?;
    with_context(|context| from_wire::create(request, context))
}

#[test]
fn a_new_task_gets_what_it_does_not_say() {
    let made = create(&json!({ "title": "T" }))
        .expect("a task")
        .tasks
        .remove(0);
    let mut expected = verb::NewTask::plain("tsk_1", "T");
    expected.about.max_retries = 2;
    assert_eq!(made, expected);
}

#[test]
fn a_patch_tells_absent_from_null() {
    let patch: PatchTaskRequest =
        parse(br#"{"description":null,"branch":"b","estimatedMinutes":null}"#).expect("a patch");
    let change = from_wire::change("t".into(), patch).expect("a change");
    assert_eq!(change.patch.description, Some(None));
    assert_eq!(change.patch.branch, Some(Some("b".to_owned())));
    assert_eq!(change.patch.estimated_minutes, Some(None));
    assert_eq!((change.patch.title, change.patch.audience), (None, None));
}

#[test]
fn tasks_are_named_by_id_or_number() {
    for (text, number) in [
        ("42", Some(42)),
        ("#42", Some(42)),
        ("tsk_42", None),
        ("#", None),
        ("#4x", None),
    ] {
        let named = from_wire::task_ref(text).expect(text);
        assert_eq!((named.id.as_str(), named.number), (text, number));
    }
    assert!(from_wire::task_ref("").is_err());
}

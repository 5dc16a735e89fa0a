//! Each required member missing, each member of a wrong type, each unknown word: refused, with the field's name.

use serde_json::{Value, json};
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::{BaselineRequest, CreateTasksRequest, Operation, Request};

use crate::golden::read;

fn full(operation: Operation) -> Value {
    serde_json::from_slice(&read(&format!(
        "{}.request.full",
        operation.as_str().to_lowercase()
    )))
    .expect("JSON")
}

fn refuse(operation: Operation, body: &Value) -> Malformed {
    let bytes = serde_json::to_vec(body).expect("printable");
    match Request::parse(operation, &bytes) {
        Err(malformed) => malformed,
        Ok(read) => panic!("{operation} took {body}: {read:?}"),
    }
}

/// `a.b[0]` as a JSON pointer.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace(['.', '['], "/").replace(']', ""))
}

fn remove(body: &mut Value, path: &str) {
    let (parent, member) = path
        .rsplit_once('.')
        .map_or((String::new(), path), |(parent, member)| {
            (pointer(parent), member)
        });
    let parent = body
        .pointer_mut(&parent)
        .and_then(Value::as_object_mut)
        .expect("a parent");
    parent
        .remove(member)
        .unwrap_or_else(|| panic!("{path} is not in the golden file"));
}

const REQUIRED: &[(Operation, &[&str])] = &[
    (
        Operation::Register,
        &[
            "agent",
            "agent.id",
            "agent.name",
            "agent.type",
            "agent.capabilities",
            "agent.capabilities.skills",
            "agent.capabilities.maxTaskMinutes",
            "agent.capabilities.canRunTests",
            "agent.capabilities.canRunBuild",
            "agent.capabilities.canAccessBrowser",
            "agent.machine.id",
            "agent.machine.hostname",
            "agent.machine.pid",
        ],
    ),
    (
        Operation::Heartbeat,
        &[
            "status",
            "currentTask.id",
            "metrics.memoryUsedMB",
            "metrics.tasksCompletedSession",
        ],
    ),
    (Operation::Claim, &["agentId"]),
    (
        Operation::Progress,
        &[
            "agentId",
            "progress",
            "progress.phase",
            "progress.percentComplete",
            "progress.description",
        ],
    ),
    (
        Operation::Complete,
        &[
            "agentId",
            "result",
            "result.filesCreated",
            "result.filesModified",
            "result.filesDeleted",
            "result.summary",
            "qualityMetrics.testsRan",
            "qualityMetrics.testsPassed",
            "qualityMetrics.lintErrors",
            "qualityMetrics.typeErrors",
            "qualityMetrics.buildSuccess",
        ],
    ),
    (
        Operation::Fail,
        &[
            "agentId",
            "failure",
            "failure.type",
            "failure.message",
            "failure.recoverable",
        ],
    ),
    (Operation::SendMessage, &["message", "message.type"]),
    (Operation::ReceiveMessages, &["agentId"]),
    (
        Operation::AcquireLease,
        &["agentId", "taskId", "filePath", "durationMs"],
    ),
    (Operation::ReleaseLease, &["agentId", "filePath"]),
];

#[test]
fn each_missing_required_member_is_named() {
    for (operation, paths) in REQUIRED {
        for path in *paths {
            let mut body = full(*operation);
            remove(&mut body, path);
            assert_eq!(
                refuse(*operation, &body),
                Malformed::missing(*path),
                "{operation} without {path}"
            );
        }
    }
}

/// Every member of every golden request, walked; each is replaced by a value of another kind.
#[test]
fn each_member_of_a_wrong_type_is_named() {
    let mut tried = 0;
    for operation in Operation::ALL {
        let good = full(*operation);
        let mut paths = Vec::new();
        walk(&good, String::new(), &mut paths);
        let own = |path: &str| {
            !["protocolVersion", "operation", "requestId"].contains(&path)
                && !path.starts_with("message.payload")
        };
        for path in paths.into_iter().filter(|path| own(path)) {
            let was = good.pointer(&pointer(&path)).expect("walked").clone();
            for wrong in wrong_for(&was) {
                // A message may go to several.
                if path == "message.to" && wrong.is_array() {
                    continue;
                }
                let mut body = good.clone();
                *body.pointer_mut(&pointer(&path)).expect("walked") = wrong.clone();
                let malformed = refuse(*operation, &body);
                assert_eq!(
                    malformed.field.as_deref(),
                    Some(path.as_str()),
                    "{operation} {path} = {wrong}: {malformed}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 200, "{tried}");
}

fn wrong_for(was: &Value) -> Vec<Value> {
    let others = [
        json!("text"),
        json!(7),
        json!(true),
        json!(["x"]),
        json!({ "x": 1 }),
    ];
    let kind = std::mem::discriminant(was);
    others
        .into_iter()
        .filter(|other| std::mem::discriminant(other) != kind)
        .collect()
}

fn walk(value: &Value, path: String, paths: &mut Vec<String>) {
    if !path.is_empty() {
        paths.push(path.clone());
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                walk(
                    member,
                    if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    },
                    paths,
                );
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, format!("{path}[{index}]"), paths);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn each_unknown_word_is_named_with_the_allowed_ones() {
    let cases = [
        (
            Operation::Register,
            "agent.type",
            "claude-code, codex, gemini, browser, custom",
        ),
        (Operation::Heartbeat, "status", "idle, busy, error"),
        (
            Operation::Heartbeat,
            "currentTask.phase",
            "analyzing, planning, implementing, testing, reviewing",
        ),
        (
            Operation::Claim,
            "filter.priorities[1]",
            "low, medium, high, critical",
        ),
        (
            Operation::Claim,
            "filter.types[0]",
            "code, test, browser_test, documentation, review, custom, skill_distribution",
        ),
        (
            Operation::Progress,
            "progress.phase",
            "analyzing, planning, implementing, testing, reviewing",
        ),
        (
            Operation::Fail,
            "failure.type",
            "task_error, task_timeout, dependency_error, quality_failure, resource_error, agent_crash",
        ),
    ];
    for (operation, path, allowed) in cases {
        let mut body = full(operation);
        *body
            .pointer_mut(&pointer(path))
            .expect("in the golden file") = json!("offline");
        let malformed = refuse(operation, &body);
        assert_eq!(malformed.field.as_deref(), Some(path));
        assert_eq!(
            malformed.message,
            format!("unknown value \"offline\"; allowed: {allowed}")
        );
    }
}

#[test]
fn an_unknown_or_missing_operation_is_named() {
    for (text, message) in [
        (r#"{"agentId":"a"}"#, "is required"),
        (
            r#"{"operation":"DANCE","agentId":"a"}"#,
            "REGISTER, HEARTBEAT, CLAIM",
        ),
        (r#"{"operation":"claim","agentId":"a"}"#, "allowed: "),
        (r#"{"operation":3}"#, "one of the words"),
    ] {
        let malformed = Request::parse_envelope(text.as_bytes()).expect_err(text);
        assert_eq!(malformed.field.as_deref(), Some("operation"), "{text}");
        assert!(malformed.message.contains(message), "{text}: {malformed}");
    }
}

#[test]
fn tasks_and_baselines_in_either_form_name_the_field() {
    for (text, field) in [
        ("{}", "title"),
        (r#"{"title":1}"#, "title"),
        (r#"{"tasks":1}"#, "tasks"),
        (r#"{"tasks":[{"title":"a"},{"id":"x"}]}"#, "tasks[1].title"),
        (r#"{"tasks":[["a"]]}"#, "tasks[0]"),
        (r#"{"title":"a","priority":"urgent"}"#, "priority"),
        (
            r#"{"title":"a","onDependencyFailure":"explode"}"#,
            "onDependencyFailure",
        ),
    ] {
        assert_eq!(
            CreateTasksRequest::parse(text.as_bytes())
                .expect_err(text)
                .field
                .as_deref(),
            Some(field),
            "{text}"
        );
    }
    for (text, field) in [("{}", "buildSuccess"), (r#"{"fromTask":1}"#, "fromTask")] {
        assert_eq!(
            BaselineRequest::parse(text.as_bytes())
                .expect_err(text)
                .field
                .as_deref(),
            Some(field),
            "{text}"
        );
    }
}

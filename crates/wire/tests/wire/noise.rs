//! Random bytes and random JSON: refused or read, never a panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_wire::Query;
use switchboard_wire::jetpack::{
    BaselineRequest, CreateTasksRequest, IncomingBatch, MessageQuery, Operation, PatchTaskRequest,
    Request, TaskQuery,
};
use switchboard_wire::{canonical, parse, signature};

use crate::golden::read;

fn read_everything(bytes: &[u8]) {
    for operation in Operation::ALL {
        let _ = Request::parse(*operation, bytes);
    }
    let _ = Request::parse_envelope(bytes);
    let _ = CreateTasksRequest::parse(bytes);
    let _ = BaselineRequest::parse(bytes);
    let _ = parse::<PatchTaskRequest>(bytes);
    let _ = parse::<IncomingBatch<'_>>(bytes);
    let _ = signature::body_to_sign(bytes);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "idle",
            "code",
            "CLAIM",
            "high",
            "2026-01-19T10:00:00.000Z"
        ])
        .prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "agent",
        "agentId",
        "id",
        "name",
        "type",
        "capabilities",
        "skills",
        "status",
        "filter",
        "progress",
        "result",
        "message",
        "payload",
        "failure",
        "operation",
        "tasks",
        "title",
        "filePath",
        "durationMs",
        "operations",
    ]);
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((names.clone().prop_map(str::to_owned), inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_everything(&bytes);
    }

    #[test]
    fn random_json_never_panics_and_its_canonical_form_is_stable(value in any_json()) {
        read_everything(value.to_string().as_bytes());
        let once = canonical(&value);
        let again: Value = serde_json::from_str(&once).unwrap();
        prop_assert_eq!(canonical(&again), once);
    }

    #[test]
    fn a_good_message_with_one_byte_changed_never_panics(
        operation in prop::sample::select(Operation::ALL.to_vec()), at in any::<prop::sample::Index>(), byte: u8,
    ) {
        let mut bytes = read(&format!("{}.request.full", operation.as_str().to_lowercase()));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        read_everything(&bytes);
    }

    #[test]
    fn random_queries_never_panic(text in ".{0,80}") {
        let _ = TaskQuery::from_query(&text);
        let _ = MessageQuery::from_query(&text);
    }
}

#[test]
fn depth_is_refused_cheaply_and_clearly() {
    for open in ["[", "{\"a\":"] {
        let bytes = format!("{{\"agentId\":\"a\",\"x\":{}", open.repeat(200_000));
        read_everything(bytes.as_bytes());
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

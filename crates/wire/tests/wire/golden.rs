//! Every message of the document and of `docs/http-api.md`: parse, print, compare.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_wire::jetpack::{self as j, Envelope, Operation, Request};
use switchboard_wire::parse;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/jetpack")
}

pub fn read(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(format!("{name}.json")))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Parses and prints; members of the envelope are kept beside the message's own.
fn round<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Value {
    let envelope: Envelope = parse(bytes).expect("an envelope");
    let message: T = parse(bytes).unwrap_or_else(|malformed| panic!("{malformed}"));
    envelope.seal(&message).expect("printable")
}

type Round = fn(&[u8]) -> Value;

/// What each golden file holds, by the part of its name before the last dot.
const KINDS: &[(&str, Round)] = &[
    ("register.request", round::<j::RegisterRequest>),
    ("register.response", round::<j::RegisterResponse>),
    ("heartbeat.request", round::<j::HeartbeatRequest>),
    ("heartbeat.response", round::<j::HeartbeatResponse>),
    ("claim.request", round::<j::ClaimRequest>),
    ("claim.response", round::<j::ClaimResponse>),
    ("progress.request", round::<j::ProgressRequest>),
    ("progress.response", round::<j::ProgressResponse>),
    ("complete.request", round::<j::CompleteRequest>),
    ("complete.response", round::<j::CompleteResponse>),
    ("fail.request", round::<j::FailRequest>),
    ("fail.response", round::<j::FailResponse>),
    ("send_message.request", round::<j::SendMessageRequest>),
    ("send_message.response", round::<j::SendMessageResponse>),
    (
        "receive_messages.request",
        round::<j::ReceiveMessagesRequest>,
    ),
    (
        "receive_messages.response",
        round::<j::ReceiveMessagesResponse>,
    ),
    ("acquire_lease.request", round::<j::AcquireLeaseRequest>),
    ("acquire_lease.response", round::<j::AcquireLeaseResponse>),
    ("release_lease.request", round::<j::ReleaseLeaseRequest>),
    ("release_lease.response", round::<j::ReleaseLeaseResponse>),
    ("authenticated.request", round::<j::ReleaseLeaseRequest>),
    ("error.response", round::<j::ErrorBody>),
    ("task.response", round::<j::TaskResponse>),
    ("task_details.response", round::<j::TaskDetails>),
    ("create_tasks.request", |bytes| {
        serde_json::to_value(j::CreateTasksRequest::parse(bytes).expect("tasks"))
            .expect("printable")
    }),
    ("patch_task.request", round::<j::PatchTaskRequest>),
    ("reject_task.request", round::<j::RejectTaskRequest>),
    ("release_task.request", round::<j::ReleaseTaskRequest>),
    ("why.response", round::<j::WhyResponse>),
    ("agent.response", round::<j::AgentResponse>),
    ("agents.response", round::<j::AgentPage>),
    ("command.request", round::<j::CommandRequest>),
    ("message.response", round::<j::MessageResponse>),
    ("ack.response", round::<j::AckResponse>),
    ("leases.response", round::<j::LeasePage>),
    ("check_lease.response", round::<j::CheckLeaseResponse>),
    ("baseline.request", |bytes| {
        serde_json::to_value(j::BaselineRequest::parse(bytes).expect("a baseline"))
            .expect("printable")
    }),
    ("baseline.response", round::<j::BaselineResponse>),
    ("snapshots.response", round::<j::SnapshotPage>),
    ("learnings.response", round::<j::LearningsResponse>),
    ("events.response", round::<j::EventPage>),
    ("status.response", round::<j::StatusResponse>),
    ("batch.request", round::<j::BatchRequest>),
    ("batch.response", round::<j::BatchResponse>),
    ("token.request", round::<j::NewTokenRequest>),
    ("token.response", round::<j::TokenResponse>),
    ("tokens.response", round::<j::TokensResponse>),
    ("key.response", round::<j::KeyResponse>),
    ("key_revoked.response", round::<j::KeyRevokedResponse>),
];

#[test]
fn every_golden_message_is_printed_as_it_was_read() {
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(folder()).expect("the folder of golden files") {
        let name = entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("a name");
        let name = name.strip_suffix(".json").expect("only JSON files");
        let kind = name.rsplit_once('.').expect("a kind and a case").0;
        let round = KINDS
            .iter()
            .find(|(known, _)| *known == kind)
            .unwrap_or_else(|| panic!("{name} has no type"))
            .1;
        let bytes = read(name);
        let expected: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(round(&bytes), expected, "{name}");
        seen.insert(kind.to_owned());
    }
    for (kind, _) in KINDS {
        assert!(seen.contains(*kind), "no golden file for {kind}");
    }
}

#[test]
fn every_operation_is_read_from_its_envelope() {
    for operation in Operation::ALL {
        let bytes = read(&format!(
            "{}.request.full",
            operation.as_str().to_lowercase()
        ));
        let (envelope, request) = Request::parse_envelope(&bytes)
            .unwrap_or_else(|malformed| panic!("{operation}: {malformed}"));
        assert_eq!(request.operation(), *operation);
        assert_eq!(envelope.version(None), j::Version::Supported);
        assert_eq!(envelope.expect(*operation), Ok(()));
        let sealed = envelope.seal(&request).expect("printable");
        assert_eq!(
            sealed,
            serde_json::from_slice::<Value>(&bytes).expect("JSON")
        );
    }
}

#[test]
fn payloads_and_results_are_kept_byte_for_byte() {
    let body =
        br#"{"agentId":"a","message":{"type":"custom","payload": {"b":1.50,  "a":[1e2],"b":2}}}"#;
    let request: j::SendMessageRequest = parse(body).expect("a message");
    assert_eq!(
        request.message.payload.get(),
        r#"{"b":1.50,  "a":[1e2],"b":2}"#
    );
    let absent: j::SendMessageRequest =
        parse(br#"{"agentId":"a","message":{"type":"custom"}}"#).expect("a message");
    assert!(absent.message.payload.is_null());
}

#[test]
fn unknown_members_are_tolerated_everywhere() {
    for operation in Operation::ALL {
        let mut value: Value = serde_json::from_slice(&read(&format!(
            "{}.request.full",
            operation.as_str().to_lowercase()
        )))
        .expect("JSON");
        sprinkle(&mut value);
        let bytes = serde_json::to_vec(&value).expect("printable");
        Request::parse_envelope(&bytes)
            .unwrap_or_else(|malformed| panic!("{operation}: {malformed}"));
    }
}

fn sprinkle(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(sprinkle);
            members.insert(
                "somethingNew".to_owned(),
                serde_json::json!([{ "deep": true }]),
            );
        }
        Value::Array(items) => items.iter_mut().for_each(sprinkle),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn versions_are_told_apart() {
    let envelope = |text: &str| parse::<Envelope>(text.as_bytes()).expect("an envelope");
    assert_eq!(envelope("{}").version(None), j::Version::Missing);
    assert_eq!(envelope("{}").version(Some("1.0")), j::Version::Supported);
    assert_eq!(
        envelope(r#"{"protocolVersion":"2.0"}"#).version(Some("1.0")),
        j::Version::Unsupported("2.0".to_owned())
    );
    let body = j::ErrorBody::unsupported_version("2.0");
    let expected: j::ErrorBody = parse(&read("error.response.version")).expect("an error");
    assert_eq!(body, expected);
}

//! The recorded requests of protocol 1.0 (`crates/wire/golden`) acted upon, over HTTP and in files.

use std::path::Path;

use serde_json::{Map, Value, json};
use switchboard_core::Timestamp;
use switchboard_wire::jetpack::Operation;

use super::http::{HubHere, Response, Transport, route};

/// A day after the instants in the recorded requests' own `since`, less what messages may be old.
const NOW: Timestamp = Timestamp(1_768_903_200_000);

/// How much a recorded request says.
#[derive(Clone, Copy)]
enum Form {
    Required,
    Full,
}

const TRANSPORTS: [Transport; 3] = [Transport::Paths, Transport::Envelopes, Transport::Files];
const FORMS: [Form; 2] = [Form::Required, Form::Full];

struct Play {
    hub: HubHere,
    transport: Transport,
    form: Form,
}

fn recorded(name: &str, form: Form) -> Map<String, Value> {
    let form = match form {
        Form::Required => "required",
        Form::Full => "full",
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/wire/golden/jetpack");
    let path = folder.join(format!("{name}.request.{form}.json"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("a recorded request is a JSON object")
}

impl Play {
    /// A hub with both agents of the recordings and a task that the first may claim.
    async fn new(transport: Transport, form: Form) -> Play {
        let hub = HubHere::start(NOW, |_| {}).await;
        let mut play = Play {
            hub,
            transport,
            form,
        };
        play.act("register", Operation::Register).await;
        let mut other = recorded("register", Form::Required);
        other["agent"]["id"] = "agent-002".into();
        let registered = play.hub.envelope(Operation::Register, other, None).await;
        assert_eq!(registered.status, 200, "{}", registered.body);
        let task = json!({ "id": "task-1", "title": "Log in", "priority": "high" });
        let made = play.hub.post("/api/v1/tasks", &task).await;
        assert_eq!(made.status, 201, "{}", made.body);
        if matches!(form, Form::Full) {
            play.reach_the_recorded_numbers().await;
        }
        play.act("claim", Operation::Claim).await;
        play
    }

    /// The full recordings speak of epoch 2 and fencing token 7.
    async fn reach_the_recorded_numbers(&mut self) {
        let required = json!({ "requiredSkills": ["typescript"] });
        let patch = required.as_object().cloned().expect("an object");
        let changed = self
            .hub
            .on_path(route("changeTask"), Some("task-1"), patch, None)
            .await;
        assert_eq!(changed.status, 200, "{}", changed.body);
        let claim = recorded("claim", Form::Required);
        self.hub.envelope(Operation::Claim, claim, None).await;
        self.hub
            .post("/api/v1/tasks/task-1/release", &json!({}))
            .await;
        for file in 1..7 {
            let mut lease = recorded("acquire_lease", Form::Required);
            lease["filePath"] = format!("other/{file}").into();
            self.hub
                .envelope(Operation::AcquireLease, lease, None)
                .await;
        }
    }

    /// Sends a recorded request as it is; it has to succeed.
    async fn act(&mut self, name: &str, operation: Operation) -> Value {
        let given = recorded(name, self.form);
        let response = match self.transport {
            Transport::Envelopes => self.hub.envelope(operation, given, None).await,
            Transport::Paths => self.on_path(name, given).await,
            Transport::Files => {
                let body = self.hub.in_file(operation, given, None).await;
                assert_eq!(body["success"], true, "{name}: {body}");
                return body;
            }
        };
        assert_eq!(response.status, 200, "{name}: {}", response.body);
        assert_eq!(response.body["success"], true, "{name}: {}", response.body);
        response.body
    }

    async fn on_path(&mut self, name: &str, mut given: Map<String, Value>) -> Response {
        let (named, id) = match name {
            "heartbeat" => ("heartbeat", "agentId"),
            "progress" => ("progress", "taskId"),
            "complete" => ("complete", "taskId"),
            "fail" => ("fail", "taskId"),
            "send_message" => ("sendMessage", ""),
            "receive_messages" => ("receiveMessages", ""),
            "acquire_lease" => ("acquireLease", ""),
            "release_lease" => ("releaseLease", ""),
            other => (other, ""),
        };
        let id = given.get(id).and_then(Value::as_str).map(str::to_owned);
        if name == "receive_messages" {
            // A query has no envelope around it.
            given.remove("protocolVersion");
            given.remove("operation");
        }
        self.hub
            .on_path(route(named), id.as_deref(), given, None)
            .await
    }
}

async fn everything_up_to_completion(transport: Transport, form: Form) {
    let mut play = Play::new(transport, form).await;
    play.act("heartbeat", Operation::Heartbeat).await;
    let went_on = play.act("progress", Operation::Progress).await;
    assert_eq!(went_on["continue"], true);
    let leased = play.act("acquire_lease", Operation::AcquireLease).await;
    assert_eq!(leased["lease"]["filePath"], "src/login.ts");
    let released = play.act("release_lease", Operation::ReleaseLease).await;
    assert_eq!(released["released"], true);
    let sent = play.act("send_message", Operation::SendMessage).await;
    assert_eq!(sent["recipients"], 1);
    let received = play
        .act("receive_messages", Operation::ReceiveMessages)
        .await;
    assert_eq!(received["messages"][0]["id"], sent["messageId"]);
    let done = play.act("complete", Operation::Complete).await;
    assert_eq!(
        (&done["qualityGatePassed"], &done["nextAction"]),
        (&json!(true), &json!("proceed"))
    );
    let task = play.hub.get("/api/v1/tasks/task-1").await;
    assert_eq!(task.body["task"]["status"], "completed");
    play.hub.stop().await;
}

async fn failure(transport: Transport, form: Form) {
    let mut play = Play::new(transport, form).await;
    let failed = play.act("fail", Operation::Fail).await;
    let (retry, status) = match form {
        Form::Required => (json!(false), json!("failed")),
        Form::Full => (json!(true), json!("pending_retry")),
    };
    assert_eq!((&failed["willRetry"], &failed["status"]), (&retry, &status));
    play.hub.stop().await;
}

/// jetpack.version.backward_compatible
#[tokio::test]
async fn recorded_requests_of_1_0_act_as_they_did() {
    for transport in TRANSPORTS {
        for form in FORMS {
            everything_up_to_completion(transport, form).await;
            failure(transport, form).await;
        }
    }
}

/// jetpack.version.unsupported_rejected, jetpack.version.in_requests
#[tokio::test]
async fn every_operation_is_refused_in_an_unknown_version_and_the_supported_ones_are_named() {
    let mut hub = HubHere::start(NOW, |_| {}).await;
    let operations = [
        ("register", Operation::Register),
        ("heartbeat", Operation::Heartbeat),
        ("claim", Operation::Claim),
        ("progress", Operation::Progress),
        ("complete", Operation::Complete),
        ("fail", Operation::Fail),
        ("send_message", Operation::SendMessage),
        ("receive_messages", Operation::ReceiveMessages),
        ("acquire_lease", Operation::AcquireLease),
        ("release_lease", Operation::ReleaseLease),
    ];
    for (name, operation) in operations {
        let mut given = recorded(name, Form::Required);
        given.insert("operation".to_owned(), operation.as_str().into());
        given.insert("protocolVersion".to_owned(), "2.0".into());
        let refused = hub.post("/api/v1/protocol", &Value::Object(given)).await;
        assert_eq!(refused.status, 400, "{name}: {}", refused.body);
        assert_eq!(refused.body["error"], "invalid_operation", "{name}");
        assert_eq!(refused.body["supported"], json!(["1.0"]), "{name}");
    }
    let mut unversioned = recorded("register", Form::Required);
    unversioned.insert("operation".to_owned(), "REGISTER".into());
    let accepted = hub
        .post("/api/v1/protocol", &Value::Object(unversioned))
        .await;
    assert_eq!(accepted.status, 200, "{}", accepted.body);
    assert!(accepted.headers.contains_key("warning"));
    hub.stop().await;
}

//! Credentials of the bus where several hubs share a ledger on PostgreSQL.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_test_cluster::Cluster;
use switchboard_tests::{API, Client, Project, Request, with_parameter};
use switchboard_wire::IsoTime;
use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::message::Credential;
use switchboard_wire::signature::MasterKey;

use super::peer::Peer;

#[test]
fn what_ends_at_one_coordinator_ends_the_streams_at_another() {
    let Some(server) = Cluster::shared("credentials of the bus on PostgreSQL") else {
        return;
    };
    for parameter in [None, Some("notify=off")] {
        let database = server.create_database();
        let url = match parameter {
            Some(parameter) => with_parameter(&database.url, parameter),
            None => database.url.clone(),
        };
        ends_there(&url);
    }
}

fn ends_there(url: &str) {
    let project = || {
        let mut project = Project::on(url).with_bus();
        project.give_flags(&["--auth", "hmac"]);
        project
    };
    let (first, second) = (project(), project());
    let (here, there) = (first.start(), second.start());
    let mut admin = Admin::of(&first, here.client());
    let token = admin.call("POST", "tokens", &json!({"name": "t", "scope": "operator"}));
    let key = admin.call("POST", "agents/a1/keys", &json!({}));

    let mut operator = Peer::dial(there.bus(), "operator", "o1").expect("the bus listens");
    greet(
        &mut operator,
        Role::Operator,
        "o1",
        &token["token"]["secret"],
    );
    let path = format!(
        "tokens/{}",
        token["token"]["id"].as_str().expect("it has one")
    );
    admin.call("DELETE", &path, &json!({}));
    is_put_out(&mut operator, "revoked");

    let mut worker = Peer::dial(there.bus(), "worker", "a1").expect("the bus listens");
    greet(&mut worker, Role::Worker, "a1", &key["key"]);
    admin.call("POST", "agents/a1/keys", &json!({}));
    is_put_out(&mut worker, "replaced");
    here.stop();
    there.stop();
}

/// The steward, by the key file of a project.
struct Admin {
    client: Client,
    token: String,
}

impl Admin {
    fn of(project: &Project, client: Client) -> Admin {
        let text = std::fs::read_to_string(project.data_dir().join("key"));
        let key = MasterKey::from_hex(&text.expect("there is a key file"));
        let token = key.expect("it has a key").steward_token();
        Admin { client, token }
    }

    #[track_caller]
    fn call(&mut self, method: &'static str, path: &str, body: &Value) -> Value {
        let request = Request::new(method, format!("{API}/{path}"))
            .body(body.to_string())
            .header("Authorization", format!("Bearer {}", self.token));
        let answer = self.client.send(&request).expect("it is answered");
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
        answer.json()
    }
}

#[track_caller]
fn greet(peer: &mut Peer, role: Role, id: &str, secret: &Value) {
    let credential = secret.as_str().and_then(Credential::from_text);
    let credential = credential.expect("it was shown");
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.expect("it is past 1970").as_millis();
    let now = IsoTime(i64::try_from(now).expect("it is not so late"));
    let auth = credential.sign(role, id, now, format!("{id}-{now}"));
    let hello = json!({
        "protocol_version": "0.1", "capabilities": [], "worker": {"worker_id": id}, "repo": {}, "auth": auth,
    });
    peer.say("protocol_hello.v1", hello)
        .expect("it can be said");
    peer.hear("protocol_welcome.v1");
}

#[track_caller]
fn is_put_out(peer: &mut Peer, why: &str) {
    let told = peer.hear("protocol_error.v1");
    let message = told["message"].as_str().unwrap_or_default();
    assert!(message.contains(why), "{told}");
    assert_eq!(peer.next().expect("it is closed in good order"), None);
}

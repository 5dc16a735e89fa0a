//! External agents with the real binary: killed in the middle, followed by the page alone, written in another language.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_client::ExternalAgent;
use switchboard_client::runtime::{AgentScope, ContextTokenRequest};
use switchboard_test_cluster::{Cluster, Missing};
use switchboard_tests::{Client, Project, Request, page, switchboard, until};
use switchboard_wire::runtime::Jwk;
use switchboard_wire::runtime::jose::hash;
use switchboard_wire::runtime::proof::{Signer, agent_exchange};
use switchboard_wire::signature::to_hex;

const INVOKE: &str = "/ansible/agent/invoke";

fn b64(bytes: &[u8]) -> String {
    Jwk::of_hex(&to_hex(bytes)).expect("hexadecimal").x
}

fn now_seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

struct Far {
    signer: Signer,
    jwk: Value,
    access: String,
    session: String,
}

impl Far {
    /// Invited and admitted.
    fn admitted(client: &mut Client, scopes: &[&str]) -> Far {
        let signer = Signer::from_hex(&"07".repeat(32)).expect("a seed");
        let jwk = Jwk::of_hex(&signer.public_key()).expect("a key");
        let jwk = serde_json::to_value(jwk).expect("JSON");
        let body = json!({ "agentId": "far", "scopes": scopes });
        let made = client.post("/ansible/agent/invites", &body).expect(201);
        let invite = made["inviteToken"].as_str().expect("an invite");
        let signed = signer.sign(&agent_exchange(invite, "far", "n"));
        let body = json!({
            "inviteToken": invite, "agentId": "far", "nonce": "n", "clientPubKey": jwk,
            "clientProof": signed,
        });
        let tokens = client
            .post("/ansible/agent/auth/exchange", &body)
            .expect(200);
        let text = |name: &str| tokens[name].as_str().expect(name).to_owned();
        Far {
            access: text("accessToken"),
            session: text("sessionId"),
            signer,
            jwk,
        }
    }

    /// One call, with its own proof: the same bytes each time that it is sent.
    fn invoke(
        &self,
        hub: std::net::SocketAddr,
        serial: u32,
        operation: &str,
        args: &Value,
    ) -> Request {
        let header = json!({ "typ": "dpop+jwt", "alg": "EdDSA", "jwk": self.jwk });
        let claims = json!({
            "jti": format!("jti-{serial}"), "htm": "POST", "htu": format!("http://{hub}{INVOKE}"),
            "iat": now_seconds(), "ath": hash(&self.access),
        });
        let part = |value: &Value| b64(value.to_string().as_bytes());
        let said = format!("{}.{}", part(&header), part(&claims));
        let signature = Jwk::of_hex(&self.signer.sign(&said))
            .expect("hexadecimal")
            .x;
        let body = json!({ "operation": operation, "args": args, "nonce": format!("n-{serial}") });
        Request::post(INVOKE, &body)
            .header("authorization", format!("DPoP {}", self.access))
            .header("dpop", format!("{said}.{signature}"))
    }
}

#[test]
fn a_proof_counts_once_though_the_hub_is_killed() {
    let project = Project::new();
    let mut hub = project.start();
    let project = project.at(hub.addr());
    let mut client = hub.client();
    client.register("near");
    let far = Far::admitted(&mut client, &["ansible.message.send"]);
    let (mut again, mut replayed) = (0, 0);
    for round in 0..12_u32 {
        let args = json!({ "toAgents": ["near"], "body": format!("message {round}") });
        let request = far.invoke(hub.addr(), round, "ansible_send_message", &args);
        let mut calling = hub.client();
        calling.begin(&request).expect("it is sent");
        // Killed before, in and after the commit, as it comes.
        std::thread::sleep(Duration::from_micros(u64::from(round) * 700));
        hub.kill();
        hub = project.start();
        let answer = hub.client().send(&request).expect("it is answered");
        match answer.status {
            200 => again += 1,
            409 => {
                answer.expect_error(409, "replay_detected");
                replayed += 1;
            }
            other => panic!("{other}: {}", answer.text()),
        }
        hub.client()
            .send(&request)
            .expect("it is answered")
            .expect_error(409, "replay_detected");
    }
    assert_eq!(again + replayed, 12);
    let mail = hub
        .client()
        .get("/api/v1/messages?agentId=near&limit=500")
        .expect(200);
    let mut said: Vec<&str> = mail["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|message| message["payload"]["body"].as_str())
        .collect();
    said.sort_unstable();
    let count = said.len();
    said.dedup();
    assert_eq!((said.len(), count), (12, 12), "each once: {said:?}");
    let query = format!("/runtime/v1/audit?sessionId={}", far.session);
    let told = hub.client().get(&query).expect(200);
    let told = told["entries"].as_array().expect("a list").iter();
    let sent = told.filter(|entry| entry["operation"] == "ansible_send_message");
    assert_eq!(
        sent.filter(|entry| entry["outcome"] == "allowed").count(),
        12
    );
}

#[test]
fn of_two_coordinators_on_postgresql_one_takes_a_proof() {
    let Some(server) = Cluster::shared("external agents") else {
        return;
    };
    let database = server.create_database();
    let projects = [Project::on(&database.url), Project::on(&database.url)];
    let hubs = projects.each_ref().map(Project::start);
    let far = Far::admitted(&mut hubs[0].client(), &["ansible.status.read"]);
    for round in 0..20 {
        // The very same bytes: both are called by the name of the first.
        let called = hubs[0].addr();
        let bytes = far
            .invoke(called, round, "ansible_status", &json!({}))
            .bytes(called);
        let mut clients = hubs.each_ref().map(|hub| hub.client());
        for client in &mut clients {
            client.connect().expect("it listens");
        }
        let mut statuses = std::thread::scope(|scope| {
            let calls = clients.each_mut().map(|client| {
                let bytes = &bytes;
                scope.spawn(move || {
                    client.write(bytes).expect("it is sent");
                    client.finish().expect("it is answered").status
                })
            });
            calls.map(|call| call.join().expect("it does not panic"))
        });
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "round {round}");
    }
    // What is revoked at one ends at the other.
    let revoke = json!({ "sessionId": far.session });
    hubs[1]
        .client()
        .post("/ansible/agent/revoke", &revoke)
        .expect(200);
    let after = far.invoke(hubs[0].addr(), 99, "ansible_status", &json!({}));
    let after = hubs[0].client().send(&after).expect("it is answered");
    after.expect_error(401, "invalid_access_token");
}

#[tokio::test]
async fn the_client_crate_is_admitted_works_and_goes_on() {
    let project = Project::new();
    let hub = project.start();
    hub.client().create("far");
    let client =
        switchboard_client::Client::new(&format!("http://{}", hub.addr())).expect("it is set up");
    let scopes = "task.claim,task.update,task.complete";
    let made = run(
        &project,
        &["agent", "invite", "crate", "--scope", scopes, "--json"],
    );
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let (invite, seed) = (
        made["inviteToken"].as_str().expect("an invite"),
        "09".repeat(32),
    );
    let mut agent = ExternalAgent::admit(&client, "crate", &seed, invite)
        .await
        .expect("it is admitted");
    agent.refresh().await.expect("it goes on");
    let claimed = agent
        .invoke("ansible_claim_task", &json!({ "taskId": "far" }))
        .await;
    assert!(
        claimed
            .expect("it is claimed")
            .result
            .get()
            .contains("\"assignedAgent\":\"crate\"")
    );
    let request = ContextTokenRequest {
        context_id: "far".to_owned(),
        scopes: vec![AgentScope::TaskUpdate],
        ttl_seconds: Some(60),
    };
    let context = agent
        .context(&request)
        .await
        .expect("it is made")
        .context_token;
    let update = json!({ "taskId": "far", "progress": 50 });
    let updated = agent
        .invoke_in(("far", &context), "ansible_update_task", &update)
        .await;
    updated.expect("it is told");
    let agent = ExternalAgent::resume(&client, &seed, agent.tokens).expect("a key");
    let done = json!({ "taskId": "far", "resultSummary": "done by the crate" });
    agent
        .invoke("ansible_complete_task", &done)
        .await
        .expect("it is completed");
    assert_eq!(hub.client().task("far")["status"], "completed");
}

fn run(project: &Project, arguments: &[&str]) -> String {
    let mut command = Command::new(switchboard());
    let ended = command.args(arguments).current_dir(project.root()).output();
    let ended = ended.expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {said}");
    String::from_utf8(ended.stdout).expect("it is text")
}

#[test]
fn curl_and_openssl_claim_as_the_page_shows() {
    let has = |program: &str, argument: &str| {
        let mut command = Command::new(program);
        let tried = command
            .arg(argument)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    };
    if !has("curl", "--version") || !has("openssl", "version") || !has("jq", "--version") {
        return Missing::Curl.skip("the walkthrough of an external agent");
    }
    let project = Project::new();
    let hub = project.start();
    hub.client().create("afar");
    let shown = page::shown("docs/runtime.md", "sh", "external");
    let at = "hub=http://127.0.0.1:7373";
    assert_eq!(shown.matches(at).count(), 1, "{shown}");
    let shown = shown.replace(at, &format!("hub=http://{}", hub.addr()));
    let folder = switchboard().parent().expect("a folder").to_owned();
    let path = std::env::var("PATH").expect("a path");
    let ended = Command::new("sh")
        .args(["-ec", &shown])
        .current_dir(project.root())
        .env("PATH", format!("{}:{path}", folder.display()))
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    let answer: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(
        answer["result"]["task"]["assignedAgent"], "reviewer",
        "{answer}"
    );
    let sessions = run(&project, &["agent", "sessions", "reviewer"]);
    assert!(sessions.contains("task.claim"), "{sessions}");
    let audit = run(&project, &["audit", "--agent", "reviewer"]);
    assert!(
        audit.contains("exchange") && audit.contains("ansible_claim_task"),
        "{audit}"
    );
    let revoked = run(&project, &["agent", "revoke", "reviewer"]);
    assert!(revoked.contains("has ended"), "{revoked}");
    until("the task goes back", || {
        (hub.client().task("afar")["status"] == "ready").then_some(())
    });
}

/// Python with `cryptography`: where `scripts/test` puts it, or the system's.
fn python() -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/external/bin/python3");
    [ours, PathBuf::from("python3")].into_iter().find(|python| {
        let mut tried = Command::new(python);
        let tried = tried
            .args(["-c", "import cryptography"])
            .stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    })
}

#[test]
fn a_client_in_python_does_the_whole_cycle() {
    let Some(python) = python() else {
        return Missing::Cryptography.skip("an external agent in Python");
    };
    let project = Project::new();
    let hub = project.start();
    hub.client().create("far");
    let scopes = "task.read,task.claim,task.update,task.complete";
    let made = run(
        &project,
        &["agent", "invite", "snake", "--scope", scopes, "--json"],
    );
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/external.py");
    let ended = Command::new(python)
        .arg(program)
        .args([&format!("http://{}", hub.addr()), "snake"])
        .args([made["inviteToken"].as_str().expect("an invite"), "far"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    let seen: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{said}"));
    let expected = json!({
        "exchange": [200, null], "exchange again": [409, "invite_used"], "refresh": [200, null],
        "stolen": [401, "invalid_proof"], "claim": [200, null], "replayed": [409, "replay_detected"],
        "context": [200, null], "update": [200, null], "beyond": [403, "scope_denied"],
        "complete": [200, null], "denied": [403, "scope_denied"],
        "refresh again": [401, "invalid_refresh_token"], "after": [401, "invalid_access_token"],
    });
    assert_eq!(seen, expected);
    let task = hub.client().task("far");
    assert_eq!(task["result"]["summary"], "done in Python");
}

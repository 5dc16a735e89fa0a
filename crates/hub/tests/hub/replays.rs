//! A signed request counts once, also one that was refused: whichever door, coordinator or start its copy comes to.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_hub::Running;
use switchboard_hub::config::{AuthMode, Config};
use switchboard_wire::signature::AgentKey;

use crate::files_kit::{Door, claims, envelope, refused, registers};
use crate::harness::{Answer, Client, TestHub, config, registration, start_as};
use crate::signer::{Signer, bearer, key, make_token, send, steward};
use crate::world::{Ledger, START, eventually};

const PROTOCOL: &str = "/api/v1/protocol";

fn signs(config: &mut Config) {
    config.auth = AuthMode::Hmac;
}

fn by<'a>(key: &'a AgentKey, nonce: &'a str) -> Signer<'a> {
    Signer {
        nonce,
        ..Signer::new("a1", key)
    }
}

/// Signs by the clock of a [`Ledger`].
fn by_the_ledger<'a>(key: &'a AgentKey, nonce: &'a str) -> Signer<'a> {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Signer {
        offset_ms: START.0 - i64::try_from(wall.as_millis()).unwrap(),
        ..by(key, nonce)
    }
}

async fn say(client: Client, body: &str) -> Answer {
    client.send("POST", PROTOCOL, &[], body.to_owned()).await
}

fn beats() -> Value {
    envelope("HEARTBEAT", json!({ "agentId": "a1", "status": "idle" }))
}

#[tokio::test]
async fn what_was_refused_here_is_not_accepted_there_nor_from_a_file() {
    let ledger = Ledger::new();
    let (here, _) = ledger.coordinator_as(signs).await;
    let (there, _) = ledger.coordinator_as(signs).await;
    let (door, token) = (Door::of(&there), steward(&here).await);
    let key = key(&here, &token, "a1").await;
    let by = |nonce| by_the_ledger(&key, nonce);
    // In the body, in the headers, in a batch, in a file: a1 is not registered.
    let in_body = by("body").sealed(beats());
    let path = "/api/v1/tasks/claim";
    let claim = json!({ "agentId": "a1" }).to_string();
    let in_headers = by("headers").headers("POST", path, &claim);
    let batch = json!({ "operations": [claims("a1"), registers("a2")] }).to_string();
    let over_batch = by("batch").headers("POST", "/api/v1/batch", &batch);
    let in_file = by("file").sealed(claims("a1"));
    say(here.client, &in_body)
        .await
        .refused(404, "agent_not_registered");
    send(here.client, "POST", path, &in_headers, &claim)
        .await
        .refused(404, "agent_not_registered");
    let results = async |hub: &TestHub| {
        let answer = send(hub.client, "POST", "/api/v1/batch", &over_batch, &batch).await;
        let results = answer.expect(200)["results"].clone();
        [0, 1].map(|part| results[part]["status"].as_u64().unwrap())
    };
    assert_eq!(results(&here).await, [404, 403]);
    door.put("refused", &in_file);
    let answer = door.answer("refused").await;
    refused(&answer, "agent_not_registered");
    // Now all of it would be fine.
    say(there.client, &by("register").sealed(registers("a1")))
        .await
        .expect(200);
    let task = json!({ "title": "T" });
    bearer(there.client, "POST", "/api/v1/tasks", &token, task)
        .await
        .expect(201);
    for copy in [&in_body, &in_file] {
        for hub in [&there, &here] {
            say(hub.client, copy).await.refused(401, "unauthenticated");
        }
    }
    send(there.client, "POST", path, &in_headers, &claim)
        .await
        .refused(401, "unauthenticated");
    // Who may act as whom does not change.
    assert_eq!(results(&there).await, [401, 403]);
    // Found again where it lies, as after a crash, it gets the answer that it had.
    door.put_back("refused").await;
    assert_eq!(door.answer("refused").await, answer);
    door.put("another", &in_file);
    refused(&door.answer("another").await, "unauthenticated");
    door.put("copy", &in_body);
    refused(&door.answer("copy").await, "unauthenticated");
    door.rejected("copy.json").await;
    let task = bearer(here.client, "GET", "/api/v1/tasks", &token, json!({})).await;
    assert_eq!(task.expect(200)["tasks"][0]["status"], "ready");
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn what_was_refused_is_not_accepted_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let start = async || {
        let mut config = config(home.path());
        signs(&mut config);
        let running = Running::start(config).await.unwrap();
        let client = Client { addr: running.addr };
        (running, client)
    };
    let (running, client) = start().await;
    let token = make_token(&running, "steward").await;
    let made = bearer(client, "POST", "/api/v1/agents/a1/keys", &token, json!({})).await;
    let key = AgentKey::from_text(made.expect(201)["key"].as_str().unwrap()).unwrap();
    let signer = Signer::new("a1", &key);
    let claim = signer.sealed(claims("a1"));
    say(client, &claim)
        .await
        .refused(404, "agent_not_registered");
    running.shutdown().await;
    let (running, client) = start().await;
    let body = registration("a1", &[]);
    signer
        .call(client, "POST", "/api/v1/agents/register", &body)
        .await
        .expect(200);
    say(client, &claim).await.refused(401, "unauthenticated");
    running.shutdown().await;
}

#[tokio::test]
async fn what_the_hub_could_not_do_may_be_said_again_as_it_is() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator_as(signs).await;
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    let register = by_the_ledger(&key, "1").sealed(registers("a1"));
    let path = "/api/v1/tasks";
    let read = by_the_ledger(&key, "2").headers("GET", path, "");
    let parts = format!(r#"{{"operations":[{}]}}"#, register);
    let batch = async || {
        let answer = hub.client.send("POST", "/api/v1/batch", &[], parts.clone());
        answer.await.expect(200)["results"][0]["status"].clone()
    };
    world.0.writer_away.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let answer = say(hub.client, &register).await;
        answer.refused(503, "db_unavailable");
        assert_eq!(batch().await, 503);
    }
    world.0.readers_away.store(true, Ordering::SeqCst);
    let answer = send(hub.client, "GET", path, &read, "").await;
    answer.refused(503, "db_unavailable");
    world.is_away(false);
    assert_eq!(batch().await, 200);
    say(hub.client, &register)
        .await
        .refused(401, "unauthenticated");
    send(hub.client, "GET", path, &read, "").await.expect(200);
    send(hub.client, "GET", path, &read, "")
        .await
        .refused(401, "unauthenticated");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_came_too_soon_may_be_said_again_as_it_is() {
    let hub = start_as(|config| {
        signs(config);
        config.limits.enabled = true;
        config.limits.heartbeat_per_minute = 60;
    })
    .await;
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    say(hub.client, &by(&key, "register").sealed(registers("a1")))
        .await
        .expect(200);
    let mut number = 0;
    let (beat, too_soon) = loop {
        number += 1;
        let beat = by(&key, &number.to_string()).sealed(beats());
        let answer = say(hub.client, &beat).await;
        if answer.status != 200 {
            break (beat, answer);
        }
    };
    too_soon.refused(429, "rate_limited");
    eventually(async || {
        let answer = say(hub.client, &beat).await;
        if answer.status == 429 {
            return false;
        }
        answer.expect(200);
        true
    })
    .await;
    say(hub.client, &beat).await.refused(401, "unauthenticated");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_signed_body_that_readers_may_read_differently_is_refused() {
    let hub = start_as(signs).await;
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    say(hub.client, &Signer::new("a1", &key).sealed(registers("a1")))
        .await
        .expect(200);
    let payload = |number: &str| {
        let body = json!({ "agentId": "a1", "message": { "to": "a1", "type": "custom", "payload": { "n": 7 } } });
        let body = by(&key, number).sealed(envelope("SEND_MESSAGE", body));
        body.replace(r#""n":7"#, number)
    };
    say(hub.client, &payload(r#""n":7"#)).await.expect(200);
    for (text, field) in [
        (r#""n":8,"n":7"#, "message.payload"),
        (r#""n":9007199254740993"#, "message.payload.n"),
    ] {
        let wrong = say(hub.client, &payload(text)).await;
        let wrong = wrong.refused(400, "invalid_operation");
        assert_eq!(wrong["field"], field, "{wrong}");
    }
    hub.running.shutdown().await;
}

//! Several hubs on one ledger: what happens on one is noticed on the others.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_core::AgentId;
use switchboard_core::agent::Doing;
use switchboard_core::verb::{Heartbeat, MarkSilent, Serve};
use switchboard_hub::config::{AuthMode, Config};
use switchboard_hub::data_dir::DataDir;
use switchboard_wire::signature::MasterKey;
use tokio::task::JoinHandle;

use crate::events::Stream;
use crate::harness::{Answer, Client, SOON, TestHub, registration, result};
use crate::signer::{Signer, key, make_token, send};
use crate::world::{Ledger, eventually};

const SERVE: Serve = Serve { starting: false };

/// Starts a call that waits, and returns once it does: its look, a sign of life, is on the ledger.
pub async fn waiting(
    ledger: &Ledger,
    hub: &TestHub,
    agent: &str,
    call: impl Future<Output = Answer> + Send + 'static,
) -> JoinHandle<Answer> {
    let before = seen_at(hub, agent).await;
    ledger.clock.advance(Duration::from_secs(1));
    let waits = tokio::spawn(call);
    eventually(async || seen_at(hub, agent).await > before).await;
    waits
}

async fn seen_at(hub: &TestHub, agent: &str) -> i64 {
    let id = AgentId::from(agent);
    let found = hub.running.hub.read(move |reader| reader.agent(&id)).await;
    found.unwrap().unwrap().seen_at.0
}

pub async fn claim(client: Client, agent: &'static str, seconds: u32) -> Answer {
    let body = json!({ "agentId": agent, "wait": seconds });
    client.post("/api/v1/tasks/claim", body).await
}

pub async fn tell(client: Client, from: &str, to: &str) {
    let body = json!({ "agentId": from, "message": { "to": to, "type": "custom" } });
    client.post("/api/v1/messages", body).await.expect(200);
}

pub async fn done(waits: JoinHandle<Answer>) -> Value {
    let answer = tokio::time::timeout(SOON, waits).await;
    answer.expect("it was woken").unwrap().expect(200)
}

#[tokio::test]
async fn a_claim_that_waits_here_gets_the_task_that_is_made_there() {
    let ledger = Ledger::new();
    let (here, world) = ledger.coordinator().await;
    let (there, other) = ledger.coordinator().await;
    here.client.register("a1", &[]).await;
    let waits = waiting(&ledger, &here, "a1", claim(here.client, "a1", 60)).await;
    let first = there.client.task("first").await;
    assert_eq!(done(waits).await["task"]["id"], first);

    // Also one that is released by a completion there.
    let made = json!({ "title": "second", "dependencies": [first] });
    let second = there.client.post("/api/v1/tasks", made).await.expect(201);
    there.client.register("a2", &[]).await;
    let waits = waiting(&ledger, &here, "a2", claim(here.client, "a2", 60)).await;
    let complete = json!({ "agentId": "a1", "taskId": first, "result": result("done") });
    let path = format!("/api/v1/tasks/{first}/complete");
    there.client.post(&path, complete).await.expect(200);
    assert_eq!(done(waits).await["task"]["id"], second["task"]["id"]);

    let latest = here.running.hub.read(|reader| reader.head()).await;
    let latest = latest.unwrap().seq;
    for hub in [&here, &there] {
        eventually(async || *hub.running.hub.latest().borrow() == latest).await;
    }
    let told = world.0.announced.load(Ordering::SeqCst);
    let told = told.max(other.0.announced.load(Ordering::SeqCst));
    assert_eq!(told, latest, "whoever wrote last told it");
    for hub in [here, there] {
        tokio::time::timeout(SOON, hub.running.shutdown())
            .await
            .expect("it stops in time");
    }
    for world in [world, other] {
        assert!(world.0.tail_ended.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn a_message_sent_there_is_heard_here_by_who_takes_it_and_by_who_only_reads() {
    let ledger = Ledger::new();
    let (here, _) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    there.client.register("a1", &[]).await;
    there.client.register("b1", &[]).await;
    for path in [
        "/api/v1/messages?agentId=a1&wait=60",
        "/api/v1/messages?agentId=a1&since=2033-05-18T00:00:00Z&wait=60",
    ] {
        let client = here.client;
        let call = async move { client.get(path).await };
        let waits = waiting(&ledger, &here, "a1", call).await;
        tell(there.client, "b1", "a1").await;
        let heard = done(waits).await;
        assert_eq!(heard["messages"][0]["from"], "b1", "{heard}");
        // So that the next one waits again.
        here.client.get("/api/v1/messages?agentId=a1").await;
    }
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn a_stream_here_tells_what_happens_there() {
    let ledger = Ledger::new();
    let (here, _) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    let mut stream = Stream::open(&here, "/api/v1/events?types=task_created", None).await;
    for number in 0..3 {
        let id = there.client.task(&number.to_string()).await;
        assert_eq!(stream.next().await.unwrap().2["task"], id);
    }
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn what_was_not_heard_while_no_word_came_is_heard_afterwards() {
    let ledger = Ledger::new();
    let (here, world) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    here.client.register("a1", &[]).await;
    let waits = waiting(&ledger, &here, "a1", claim(here.client, "a1", 60)).await;
    world.0.tail_away.store(true, Ordering::SeqCst);
    world.sees(1, |flags| &flags.refused_waits).await;
    let id = there.client.task("T").await;
    world.sees(2, |flags| &flags.refused_waits).await;
    assert!(!waits.is_finished());
    world.0.tail_away.store(false, Ordering::SeqCst);
    assert_eq!(done(waits).await["task"]["id"], id);
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn a_sign_of_life_given_here_counts_there() {
    let ledger = Ledger::new();
    let (here, _) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    here.client.register("lively", &[]).await;
    here.client.register("quiet", &[]).await;
    // Served all the time: otherwise silence would not count.
    for _ in 0..29 {
        ledger.clock.advance(Duration::from_secs(4));
        there.running.hub.run(SERVE).await.unwrap();
    }
    ledger.clock.advance(Duration::from_secs(2));
    let beat = Heartbeat {
        agent: "lively".into(),
        doing: Doing::Idle,
        task: None,
        metrics: None,
    };
    here.running.hub.run(beat).await.unwrap();
    ledger.clock.advance(Duration::from_secs(3));
    there.running.hub.run(MarkSilent).await.unwrap();
    let shown = there.client.get("/api/v1/agents").await.expect(200);
    let status = |id: &str| {
        let agents = shown["agents"].as_array().unwrap();
        let found = agents.iter().find(|agent| agent["id"] == id).unwrap();
        found["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (status("lively"), status("quiet")),
        ("idle".into(), "offline".into())
    );
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn a_key_made_here_signs_there_and_a_signature_counts_once_in_all() {
    let ledger = Ledger::new();
    let signed = || ledger.coordinator_as(|config| config.auth = AuthMode::Hmac);
    let (here, _) = signed().await;
    let (there, _) = signed().await;
    let steward = make_token(&here.running, "steward").await;
    let agent_key = key(&here, &steward, "a1").await;
    let signer = Signer {
        offset_ms: ahead_ms(&ledger),
        ..Signer::new("a1", &agent_key)
    };
    let register = "/api/v1/agents/register";
    let body = registration("a1", &[]);
    let answer = signer.call(there.client, "POST", register, &body).await;
    answer.expect(200);
    let body = json!({ "title": "once" }).to_string();
    let headers = signer.headers("POST", "/api/v1/tasks", &body);
    let make = |hub: &TestHub| {
        let (client, headers, body) = (hub.client, headers.clone(), body.clone());
        async move { send(client, "POST", "/api/v1/tasks", &headers, &body).await }
    };
    make(&here).await.expect(201);
    make(&there).await.refused(401, "unauthenticated");
    let of_ledger = ledger.key.lock().unwrap().unwrap();
    for hub in [here, there] {
        hub.running.shutdown().await;
        // Whoever can read it is the steward on either machine.
        let kept = DataDir::open(&hub.home.path().join(".switchboard")).unwrap();
        assert_eq!(kept.keys().own().unwrap(), Some(of_ledger));
    }
}

#[tokio::test]
async fn a_key_that_was_kept_before_becomes_the_ledgers_if_it_has_none() {
    let ledger = Ledger::new();
    let kept = [7; 32];
    let keep = |config: &mut Config, key: [u8; 32]| {
        DataDir::open(&config.data_dir)
            .unwrap()
            .keys()
            .keep_own(&key)
            .unwrap();
    };
    let (first, _) = ledger.coordinator_as(|config| keep(config, kept)).await;
    assert_eq!(*ledger.key.lock().unwrap(), Some(kept));
    let (second, _) = ledger.coordinator_as(|config| keep(config, [8; 32])).await;
    assert_eq!(*ledger.key.lock().unwrap(), Some(kept));
    let shown = format!("Bearer {}", MasterKey::new(kept).steward_token());
    for hub in [first, second] {
        let headers = [("authorization", shown.as_str())];
        let answer = hub.client.send("GET", "/api/v1/tokens", &headers, "").await;
        answer.expect(200);
        hub.running.shutdown().await;
    }
}

/// How far the ledger's clock is ahead of the machine's.
pub fn ahead_ms(ledger: &Ledger) -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    ledger.clock.now().0 - i64::try_from(wall.as_millis()).unwrap()
}

#[tokio::test]
async fn a_signature_is_of_the_ledgers_time_whatever_the_machine_says() {
    let ledger = Ledger::new();
    let (hub, _) = ledger
        .coordinator_as(|config| config.auth = AuthMode::Hmac)
        .await;
    let steward = make_token(&hub.running, "steward").await;
    let agent_key = key(&hub, &steward, "a1").await;
    let ask = async |offset_ms: i64, nonce: &str| {
        let signer = Signer {
            offset_ms,
            nonce,
            ..Signer::new("a1", &agent_key)
        };
        let body = registration("a1", &[]);
        signer
            .call(hub.client, "POST", "/api/v1/agents/register", &body)
            .await
    };
    ask(0, "n1").await.refused(401, "unauthenticated");
    ask(ahead_ms(&ledger), "n2").await.expect(200);
    // Time went on; what was signed then is too old by now.
    let before = ahead_ms(&ledger);
    ledger.clock.advance(Duration::from_secs(301));
    hub.running.hub.run(SERVE).await.unwrap();
    ask(before, "n3").await.refused(401, "unauthenticated");
    ask(ahead_ms(&ledger), "n4")
        .await
        .refused(409, "agent_already_registered");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_coordinator_that_joins_does_not_forgive_silence() {
    let ledger = Ledger::new();
    let (here, _) = ledger.coordinator().await;
    here.client.register("quiet", &[]).await;
    for turn in 0..31 {
        ledger.clock.advance(Duration::from_secs(4));
        here.running.hub.run(SERVE).await.unwrap();
        if turn == 15 {
            let (joins, _) = ledger.coordinator().await;
            joins.running.shutdown().await;
        }
    }
    here.running.hub.run(MarkSilent).await.unwrap();
    let shown = here.client.get("/api/v1/agents/quiet").await.expect(200);
    assert_eq!(shown["agent"]["status"], "offline");
    here.running.shutdown().await;
}

/// A task that `a` has failed and that is ready again; `b` is there and idle.
async fn failed_by_a(client: Client) -> String {
    client.register("a", &[]).await;
    client.register("b", &[]).await;
    let id = client.task("Break it").await;
    client.claim("a").await;
    let failure = json!({ "type": "task_error", "message": "no", "recoverable": true });
    let body = json!({ "agentId": "a", "failure": failure });
    let path = format!("/api/v1/tasks/{id}");
    client.post(&format!("{path}/fail"), body).await.expect(200);
    client
        .post(&format!("{path}/retry"), json!({}))
        .await
        .expect(200);
    id
}

#[tokio::test]
async fn a_claim_that_waits_gets_what_it_failed_once_others_had_their_time() {
    let ledger = Ledger::new();
    let (hub, _) = ledger.coordinator().await;
    let id = failed_by_a(hub.client).await;
    // It looks again by the machine's clock: so little of the time is left.
    ledger.clock.advance(Duration::from_millis(28_900));
    let none = hub.client.claim("a").await;
    assert_eq!(none["reason"], "no_matching_tasks", "{none}");
    assert!(none["othersFirstUntil"].is_string(), "{none}");
    let waits = waiting(&ledger, &hub, "a", claim(hub.client, "a", 60)).await;
    ledger.clock.advance(Duration::from_millis(100));
    assert_eq!(done(waits).await["task"]["id"], id);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_claim_that_waits_gets_what_it_failed_once_the_others_are_busy() {
    for is_elsewhere in [false, true] {
        let ledger = Ledger::new();
        let (here, _) = ledger.coordinator().await;
        let (there, _) = ledger.coordinator().await;
        let id = failed_by_a(here.client).await;
        let waits = waiting(&ledger, &here, "a", claim(here.client, "a", 60)).await;
        // Only b may have it, and from then on b is busy.
        let client = if is_elsewhere {
            there.client
        } else {
            here.client
        };
        let body = json!({ "title": "Something else", "audience": ["b"], "priority": "high" });
        client.post("/api/v1/tasks", body).await.expect(201);
        assert_eq!(client.claim("b").await["success"], true);
        assert_eq!(done(waits).await["task"]["id"], id);
        here.running.shutdown().await;
        there.running.shutdown().await;
    }
}

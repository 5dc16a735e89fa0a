//! Requests as files: the same as over HTTP, once, and in order.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use switchboard_hub::config::AuthMode;

use crate::files_kit::{Door, claims, envelope, refused, registers};
use crate::harness::{Client, TestHub, registration, result, start, start_as, start_signed};
use crate::signer::{Signer, bearer, key, steward};
use crate::world::{Ledger, eventually};

/// How a script asks: through which door.
enum By {
    Http(Client),
    Files(Door),
}

impl By {
    async fn ask(&self, step: usize, operation: &str, body: Value) -> Value {
        match self {
            By::Http(client) => {
                let answer = client.post("/api/v1/protocol", envelope(operation, body));
                answer.await.json()
            }
            By::Files(door) => door.ask(&format!("step-{step}"), operation, body).await,
        }
    }
}

/// All ten operations, some of them refused.
fn script() -> Vec<(&'static str, Value)> {
    let lease = |agent: &str| json!({ "agentId": agent, "taskId": null, "filePath": "src/a.rs", "durationMs": 60000 });
    let progress = json!({ "phase": "testing", "percentComplete": 40, "description": "on it" });
    let message =
        json!({ "id": "m1", "to": "a2", "type": "info.discovery", "payload": { "x": 1 } });
    let failure = json!({ "type": "task_error", "message": "no", "recoverable": true });
    vec![
        ("REGISTER", registration("a1", &["rust"])),
        ("REGISTER", registration("a2", &[])),
        ("HEARTBEAT", json!({ "agentId": "a1", "status": "idle" })),
        (
            "HEARTBEAT",
            json!({ "agentId": "nobody", "status": "idle" }),
        ),
        ("CLAIM", json!({ "agentId": "a1" })),
        (
            "PROGRESS",
            json!({ "agentId": "a1", "taskId": "t1", "epoch": 1, "progress": progress }),
        ),
        ("ACQUIRE_LEASE", lease("a1")),
        ("ACQUIRE_LEASE", lease("a2")),
        (
            "SEND_MESSAGE",
            json!({ "agentId": "a1", "message": message }),
        ),
        ("RECEIVE_MESSAGES", json!({ "agentId": "a2" })),
        (
            "RECEIVE_MESSAGES",
            json!({ "agentId": "a2", "since": "2020-01-01T00:00:00Z" }),
        ),
        (
            "RELEASE_LEASE",
            json!({ "agentId": "a2", "filePath": "src/a.rs" }),
        ),
        (
            "RELEASE_LEASE",
            json!({ "agentId": "a1", "filePath": "src/a.rs" }),
        ),
        (
            "COMPLETE",
            json!({ "agentId": "a2", "taskId": "t1", "result": result("not mine") }),
        ),
        (
            "COMPLETE",
            json!({ "agentId": "a1", "taskId": "t1", "epoch": 1, "result": result("done") }),
        ),
        ("CLAIM", json!({ "agentId": "a2" })),
        (
            "FAIL",
            json!({ "agentId": "a2", "taskId": "t2", "epoch": 1, "failure": failure }),
        ),
        ("CLAIM", json!({ "agentId": "a2" })),
    ]
}

/// Instants differ each time.
fn scrub(value: &mut Value) {
    match value {
        Value::String(text) if text.len() == 24 && text.ends_with('Z') => "…".clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(scrub),
        Value::Object(members) => members.values_mut().for_each(scrub),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

async fn played(hub: &TestHub, by: By) -> Vec<Value> {
    for id in ["t1", "t2"] {
        let task = json!({ "id": id, "title": id });
        hub.client.post("/api/v1/tasks", task).await.expect(201);
    }
    let mut seen = Vec::new();
    for (step, (operation, body)) in script().into_iter().enumerate() {
        seen.push(by.ask(step, operation, body).await);
    }
    for path in ["tasks", "agents", "leases", "messages/m1", "events?after=0"] {
        seen.push(hub.client.get(&format!("/api/v1/{path}")).await.expect(200));
    }
    seen.iter_mut().for_each(scrub);
    seen
}

#[tokio::test]
async fn all_ten_operations_come_to_the_same_as_over_http() {
    let (over_http, over_files) = (start().await, start().await);
    let expected = played(&over_http, By::Http(over_http.client)).await;
    let door = Door::of(&over_files);
    let found = played(&over_files, By::Files(Door::of(&over_files))).await;
    let asked = script();
    for (step, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert_eq!(found, expected, "step {step}: {:?}", asked.get(step));
    }
    for step in 0..asked.len() {
        door.lies("done", &format!("step-{step}")).await;
    }
    assert_eq!((door.count("requests"), door.count("rejected")), (0, 0));
    over_http.running.shutdown().await;
    over_files.running.shutdown().await;
}

#[tokio::test]
async fn a_file_that_is_seen_twice_acts_once_and_a_later_one_of_its_name_is_new() {
    let hub = start().await;
    let door = Door::of(&hub);
    hub.client.register("a1", &[]).await;
    for title in ["one", "two", "three"] {
        hub.client.task(title).await;
    }
    door.put("a1-claim", claims("a1").to_string());
    let first = door.answer("a1-claim").await;
    assert_eq!(first["task"]["title"], "one");
    door.put_back("a1-claim").await;
    assert_eq!(door.answer("a1-claim").await, first);
    door.lies("done", "a1-claim").await;
    // The same words under the same name, but another file.
    door.put("a1-claim", claims("a1").to_string());
    assert_eq!(door.answer("a1-claim").await["task"]["title"], "two");
    let status = hub.client.get("/api/v1/status").await.expect(200);
    assert_eq!(status["tasks"]["claimed"], 2);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn messages_that_were_handed_out_are_handed_out_again_to_the_same_file() {
    let hub = start().await;
    let door = Door::of(&hub);
    for agent in ["a1", "a2"] {
        hub.client.register(agent, &[]).await;
    }
    let body = json!({ "agentId": "a1", "message": { "to": "a2", "type": "custom" } });
    door.ask("send", "SEND_MESSAGE", body).await;
    let got = door
        .ask("get", "RECEIVE_MESSAGES", json!({ "agentId": "a2" }))
        .await;
    assert_eq!(got["messages"][0]["from"], "a1");
    door.put_back("get").await;
    assert_eq!(door.answer("get").await, got);
    let next = door
        .ask("next", "RECEIVE_MESSAGES", json!({ "agentId": "a2" }))
        .await;
    assert_eq!(next["messages"], json!([]));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_request_id_is_the_key_through_either_door() {
    let hub = start().await;
    let door = Door::of(&hub);
    hub.client.register("a1", &[]).await;
    for title in ["one", "two"] {
        hub.client.task(title).await;
    }
    let mut claim = claims("a1");
    claim["requestId"] = "r1".into();
    let first = hub
        .client
        .post("/api/v1/protocol", claim.clone())
        .await
        .expect(200);
    for stem in ["x", "y"] {
        door.put(stem, claim.to_string());
        assert_eq!(door.answer(stem).await, first);
    }
    claim["wait"] = 1.into();
    door.put("z", claim.to_string());
    refused(&door.answer("z").await, "idempotency_key_reused");
    door.lies("done", "z").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_a_hub_had_taken_when_it_ended_is_answered_at_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let door = Door::in_project(home.path());
    for dir in ["requests", "taken"] {
        fs::create_dir_all(door.path.join(dir)).unwrap();
    }
    fs::write(door.file("taken", "n.json"), registers("a1").to_string()).unwrap();
    door.put("n", claims("a1").to_string());
    let project = home.path().to_owned();
    let hub = start_as(move |config| config.files.dir = project.join(".jetpack/protocol")).await;
    // First the one that was taken, then the one that came after it under the same name, whose answer stays.
    let answer = door.file("responses", "n-response.json");
    eventually(async || {
        let answer = fs::read_to_string(&answer).unwrap_or_default();
        answer.contains("no_matching_tasks")
    })
    .await;
    hub.client.get("/api/v1/agents/a1").await.expect(200);
    eventually(async || door.count("taken") == 0).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn one_agents_files_are_taken_in_the_order_of_their_writing() {
    const COUNT: u64 = 300;
    let home = tempfile::tempdir().unwrap();
    let door = Door::in_project(home.path());
    fs::create_dir_all(door.path.join("requests")).unwrap();
    let began = SystemTime::now() - Duration::from_secs(3600);
    let at = |number: u64| began + Duration::from_millis(number);
    door.put_at("z", &registers("a1"), at(0));
    door.put_at("y", &registers("a2"), at(0));
    for number in 1..=COUNT {
        // The other way round than their names.
        let message = json!({ "to": "a2", "type": "custom", "payload": number });
        let body = envelope(
            "SEND_MESSAGE",
            json!({ "agentId": "a1", "message": message }),
        );
        door.put_at(&format!("m{:03}", COUNT - number), &body, at(number));
    }
    let project = home.path().to_owned();
    let hub = start_as(move |config| config.files.dir = project.join(".jetpack/protocol")).await;
    door.lies("done", "m000").await;
    let path = "/api/v1/messages?agentId=a2&limit=500";
    let got = hub.client.get(path).await.expect(200);
    let order: Vec<u64> = got["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["payload"].as_u64().unwrap())
        .collect();
    assert_eq!(order, (1..=COUNT).collect::<Vec<_>>());
    hub.running.shutdown().await;
}

#[tokio::test]
async fn claims_that_wait_hold_up_nobody_and_are_answered_when_a_task_comes() {
    const WAITING: usize = 150;
    let hub = start().await;
    let door = Door::of(&hub);
    let claim = |agent: &str| envelope("CLAIM", json!({ "agentId": agent, "wait": 60 }));
    for number in 0..WAITING {
        let agent = format!("a{number}");
        hub.client.register(&agent, &[]).await;
        door.put(&format!("{agent}-claim"), claim(&agent).to_string());
    }
    let beat = json!({ "agentId": "a0", "status": "idle" });
    let beat = door.ask("a0-heartbeat", "HEARTBEAT", beat).await;
    assert_eq!(beat["success"], true, "{beat}");
    assert_eq!(door.count("responses"), 0);
    let tasks: Vec<Value> = (0..WAITING)
        .map(|number| json!({ "title": number.to_string() }))
        .collect();
    hub.client
        .post("/api/v1/tasks", json!({ "tasks": tasks }))
        .await
        .expect(201);
    for number in 0..WAITING {
        let claimed = door.answer(&format!("a{number}-claim")).await;
        assert_eq!(claimed["task"]["assignedAgent"], format!("a{number}"));
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_claim_that_waits_when_the_hub_stops_stays_in_its_place() {
    let hub = start().await;
    let door = Door::of(&hub);
    hub.client.register("a1", &[]).await;
    let claim = envelope("CLAIM", json!({ "agentId": "a1", "wait": 60 }));
    door.put("a1-claim", claim.to_string());
    // Start, registration, and the two steps of the claim: now it waits.
    eventually(async || hub.running.hub.stats().verbs >= 5).await;
    hub.running.shutdown().await;
    assert!(door.file("requests", "a1-claim.json").exists());
    assert_eq!((door.count("responses"), door.count("rejected")), (0, 0));
}

#[tokio::test]
async fn while_the_ledger_is_away_requests_stay_and_afterwards_act_once() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator().await;
    let door = Door::of(&hub);
    hub.client.register("a1", &[]).await;
    for title in ["one", "two"] {
        hub.client.task(title).await;
    }
    world.is_away(true);
    door.put("kept", claims("a1").to_string());
    door.put("changed", claims("a1").to_string());
    world.sees(6, |flags| &flags.refused_batches).await;
    for stem in ["kept", "changed"] {
        assert!(door.file("requests", format!("{stem}.json")).exists());
    }
    assert_eq!((door.count("responses"), door.count("rejected")), (0, 0));
    let beat = envelope("HEARTBEAT", json!({ "agentId": "a1", "status": "idle" }));
    door.put("changed", beat.to_string());
    world.is_away(false);
    assert_eq!(door.answer("kept").await["task"]["title"], "one");
    assert_eq!(door.answer("changed").await["success"], true);
    let status = hub.client.get("/api/v1/status").await.expect(200);
    assert_eq!(status["tasks"]["claimed"], 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_commit_in_doubt_is_made_sure_of_under_the_same_key() {
    for written in [true, false] {
        let ledger = Ledger::new();
        let (hub, world) = ledger.coordinator().await;
        let door = Door::of(&hub);
        hub.client.register("a1", &[]).await;
        for title in ["one", "two"] {
            hub.client.task(title).await;
        }
        *world.0.in_doubt.lock().unwrap() = Some(written);
        door.put("claim", claims("a1").to_string());
        assert_eq!(door.answer("claim").await["task"]["title"], "one");
        assert!(world.0.in_doubt.lock().unwrap().is_none());
        let status = hub.client.get("/api/v1/status").await.expect(200);
        assert_eq!(status["tasks"]["claimed"], 1, "written: {written}");
        hub.running.shutdown().await;
    }
}

#[tokio::test]
async fn requests_are_counted_against_their_agents_allowance() {
    let hub = start_as(|config| {
        config.limits.enabled = true;
        config.limits.claim_per_minute = 2;
    })
    .await;
    let door = Door::of(&hub);
    hub.client.register("a1", &[]).await;
    for stem in ["one", "two"] {
        door.put(stem, claims("a1").to_string());
        assert_eq!(door.answer(stem).await["reason"], "no_matching_tasks");
    }
    door.put("three", claims("a1").to_string());
    refused(&door.answer("three").await, "rate_limited");
    door.lies("done", "three").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_signed_request_acts_and_its_own_file_gets_its_answer_again() {
    let hub = start_signed().await;
    let door = Door::of(&hub);
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    let task = json!({ "title": "T" });
    for _ in 0..2 {
        bearer(hub.client, "POST", "/api/v1/tasks", &token, task.clone())
            .await
            .expect(201);
    }
    let sealed = |nonce: &'static str, body: Value| {
        Signer {
            nonce,
            ..Signer::new("a1", &key)
        }
        .sealed(body)
    };
    door.put("register", sealed("1", registers("a1")));
    assert_eq!(door.answer("register").await["success"], true);
    let since = json!({ "agentId": "a1", "since": "2020-01-01T00:00:00Z" });
    for (stem, body) in [
        ("claim", claims("a1")),
        (
            "get",
            envelope("RECEIVE_MESSAGES", json!({ "agentId": "a1" })),
        ),
        ("since", envelope("RECEIVE_MESSAGES", since)),
    ] {
        door.put(stem, sealed(stem, body));
        let first = door.answer(stem).await;
        assert_eq!(first["success"], true, "{first}");
        door.put_back(stem).await;
        assert_eq!(door.answer(stem).await, first);
        door.lies("done", stem).await;
        // A copy is another file, and its signature was used.
        fs::copy(
            door.file("done", format!("{stem}.json")),
            door.file("requests", ".copy"),
        )
        .unwrap();
        let copy = format!("copy-of-{stem}");
        fs::rename(
            door.file("requests", ".copy"),
            door.file("requests", format!("{copy}.json")),
        )
        .unwrap();
        refused(&door.answer(&copy).await, "unauthenticated");
        door.rejected(&format!("{copy}.json")).await;
    }
    let status = bearer(hub.client, "GET", "/api/v1/status", &token, json!({}))
        .await
        .expect(200);
    assert_eq!(status["tasks"]["claimed"], 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_is_not_signed_as_it_must_is_rejected_and_acts_not() {
    let hub = start_signed().await;
    let door = Door::of(&hub);
    let token = steward(&hub).await;
    let (own, other) = (key(&hub, &token, "a1").await, key(&hub, &token, "a2").await);
    let late = Signer {
        offset_ms: -10 * 60 * 1000,
        ..Signer::new("a1", &own)
    };
    for (stem, body) in [
        ("unsigned", registers("a1").to_string()),
        (
            "anothers",
            Signer::new("a1", &other).sealed(registers("a1")),
        ),
        ("late", late.sealed(registers("a1"))),
    ] {
        door.put(stem, body);
        refused(&door.answer(stem).await, "unauthenticated");
        let reason = door.rejected(&format!("{stem}.json")).await;
        assert!(reason.contains("sign"), "{reason}");
    }
    // Known, but not the one that it speaks for.
    door.put("posing", Signer::new("a2", &other).sealed(registers("a1")));
    refused(&door.answer("posing").await, "not_you");
    door.lies("done", "posing").await;
    let agents = bearer(hub.client, "GET", "/api/v1/status", &token, json!({}))
        .await
        .expect(200);
    assert_eq!(agents["agents"]["idle"], 0, "{agents}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_signed_request_is_tried_again_until_the_ledger_is_back() {
    let ledger = Ledger::new();
    let (hub, world) = ledger
        .coordinator_as(|config| config.auth = AuthMode::Hmac)
        .await;
    let door = Door::of(&hub);
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    // The ledger's day is not the machine's.
    let now = SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let offset_ms = crate::world::START.0 - i64::try_from(now.as_millis()).unwrap();
    let signer = Signer {
        offset_ms,
        ..Signer::new("a1", &key)
    };
    world.0.writer_away.store(true, Ordering::SeqCst);
    door.put("register", signer.sealed(registers("a1")));
    world.sees(3, |flags| &flags.refused_batches).await;
    assert!(door.file("requests", "register.json").exists());
    world.is_away(false);
    assert_eq!(door.answer("register").await["agentId"], "a1");
    hub.running.shutdown().await;
}

//! The ledger goes away and comes back: who calls is told, who waits stays.

use std::sync::atomic::Ordering;

use serde_json::json;
use switchboard_hub::config::AuthMode;

use crate::coordinators::{claim, done, tell, waiting};
use crate::events::Stream;
use crate::harness::TestHub;
use crate::signer::{bearer, make_token};
use crate::world::{Ledger, eventually};

async fn is_ready(hub: &TestHub) -> bool {
    let answer = hub.client.get("/readyz").await;
    if answer.status == 200 {
        return true;
    }
    answer.refused(503, "db_unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
    false
}

#[tokio::test]
async fn while_the_ledger_is_away_callers_are_told_and_afterwards_served() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    assert!(is_ready(&hub).await);
    world.is_away(true);
    for answer in [
        client.post("/api/v1/tasks", json!({ "title": "T" })).await,
        client.get("/api/v1/tasks").await,
        claim(client, "a1", 60).await,
        client.get("/api/v1/messages?agentId=a1&wait=60").await,
    ] {
        let body = answer.refused(503, "db_unavailable");
        let said = body["message"].as_str().unwrap();
        assert!(said.contains("the test took it away"), "{said}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert!(!is_ready(&hub).await);
    assert_eq!(client.get("/healthz").await.status, 200);
    let figures = client.get("/metrics").await.text;
    assert!(figures.contains("switchboard_ledger_writes 0"), "{figures}");
    world.is_away(false);
    assert!(is_ready(&hub).await);
    client.task("T").await;
    let figures = client.get("/metrics").await.text;
    assert!(figures.contains("switchboard_ledger_writes 1"), "{figures}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_hub_whose_commit_waits_for_long_is_not_ready_until_one_passes() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator().await;
    world.0.commits_wait.store(true, Ordering::SeqCst);
    let client = hub.client;
    let call = tokio::spawn(async move { client.task("T").await });
    eventually(async || !is_ready(&hub).await).await;
    let said = client.get("/readyz").await.text;
    assert!(said.contains("a commit has been running for"), "{said}");
    world.0.commits_wait.store(false, Ordering::SeqCst);
    call.await.unwrap();
    assert!(is_ready(&hub).await);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_ledger_that_can_only_be_read_is_not_ready() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator().await;
    world.0.writer_away.store(true, Ordering::SeqCst);
    let answer = hub
        .client
        .post("/api/v1/tasks", json!({ "title": "T" }))
        .await;
    answer.refused(503, "db_unavailable");
    assert!(!is_ready(&hub).await);
    hub.client.get("/api/v1/tasks").await.expect(200);
    world.0.writer_away.store(false, Ordering::SeqCst);
    assert!(is_ready(&hub).await);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_claim_that_waits_outlasts_an_outage() {
    let ledger = Ledger::new();
    let (here, world) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    here.client.register("a1", &[]).await;
    let waits = waiting(&ledger, &here, "a1", claim(here.client, "a1", 60)).await;
    world.0.writer_away.store(true, Ordering::SeqCst);
    // It is woken by a task, looks, and cannot.
    let id = there.client.task("T").await;
    eventually(async || world.0.lanes_asked_for.load(Ordering::SeqCst) > 0).await;
    world.saw(2, |flags| &flags.refused_batches).await;
    assert!(!waits.is_finished());
    world.0.writer_away.store(false, Ordering::SeqCst);
    assert_eq!(done(waits).await["task"]["id"], id);
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn whoever_waits_for_messages_outlasts_an_outage() {
    let ledger = Ledger::new();
    let (here, world) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    for agent in ["a1", "b1"] {
        here.client.register(agent, &[]).await;
    }
    let client = here.client;
    let reads = "/api/v1/messages?agentId=a1&since=2033-05-18T00:00:00Z&wait=60";
    let reads = async move { client.get(reads).await };
    let reads = waiting(&ledger, &here, "a1", reads).await;
    let takes = async move { client.get("/api/v1/messages?agentId=a1&wait=60").await };
    let takes = waiting(&ledger, &here, "a1", takes).await;
    world.0.writer_away.store(true, Ordering::SeqCst);
    world.0.readers_away.store(true, Ordering::SeqCst);
    tell(there.client, "b1", "a1").await;
    world.saw(2, |flags| &flags.refused_reads).await;
    world.saw(2, |flags| &flags.refused_batches).await;
    assert!(!reads.is_finished() && !takes.is_finished());
    world.is_away(false);
    for waits in [reads, takes] {
        assert_eq!(done(waits).await["messages"][0]["from"], "b1");
    }
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn at_the_end_of_its_time_a_waiting_call_hears_that_the_ledger_is_away() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator().await;
    hub.client.register("a1", &[]).await;
    let waits = waiting(&ledger, &hub, "a1", claim(hub.client, "a1", 1)).await;
    world.is_away(true);
    waits.await.unwrap().refused(503, "db_unavailable");
    world.is_away(false);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_change_in_doubt_is_made_once_when_it_is_repeated_with_its_key() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator().await;
    for (key, written) in [("k1", true), ("k2", false)] {
        let make = || {
            let headers = [("idempotency-key", key)];
            let body = json!({ "title": key });
            async move {
                hub.client
                    .with("POST", "/api/v1/tasks", &headers, body)
                    .await
            }
        };
        *world.0.in_doubt.lock().unwrap() = Some(written);
        let answer = make().await;
        let said = answer.refused(503, "db_unavailable")["message"].to_string();
        assert!(
            said.contains("the outcome is unknown") && said.contains("Idempotency-Key"),
            "{said}"
        );
        assert_eq!(answer.header("retry-after"), Some("1"));
        let again = make().await;
        again.expect(201);
        let replayed = again.header("idempotent-replay").is_some();
        assert_eq!(replayed, written, "{key}");
    }
    let tasks = hub.client.get("/api/v1/tasks").await.expect(200);
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 2);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_task_in_doubt_that_was_written_wakes_who_waits_for_it() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator().await;
    hub.client.register("a1", &[]).await;
    let waits = waiting(&ledger, &hub, "a1", claim(hub.client, "a1", 60)).await;
    let mut stream = Stream::open(&hub, "/api/v1/events?types=task_created", None).await;
    *world.0.in_doubt.lock().unwrap() = Some(true);
    hub.client
        .post("/api/v1/tasks", json!({ "title": "T" }))
        .await;
    let got = done(waits).await;
    assert_eq!(got["task"]["title"], "T");
    assert_eq!(stream.next().await.unwrap().2["task"], got["task"]["id"]);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_when_the_ledger_is_back() {
    let ledger = Ledger::new();
    let (here, world) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    let mut stream = Stream::open(&here, "/api/v1/events?types=task_created", None).await;
    let before = there.client.task("before").await;
    assert_eq!(stream.next().await.unwrap().2["task"], before);
    world.is_away(true);
    let between = there.client.task("between").await;
    world.sees(2, |flags| &flags.refused_reads).await;
    world.is_away(false);
    let after = there.client.task("after").await;
    for id in [between, after] {
        assert_eq!(stream.next().await.unwrap().2["task"], id);
    }
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn a_stream_tells_nothing_while_nobody_can_say_whether_its_token_holds() {
    let ledger = Ledger::new();
    let signed = || ledger.coordinator_as(|config| config.auth = AuthMode::Hmac);
    let (here, world) = signed().await;
    let (there, _) = signed().await;
    let steward = make_token(&there.running, "steward").await;
    let viewer = format!("Bearer {}", make_token(&there.running, "viewer").await);
    make_token(&there.running, "node").await;
    let path = "/api/v1/events?types=task_created,token_revoked";
    let mut stream = Stream::open_with(&here, path, &[("authorization", &viewer)]).await;
    world.0.tokens_away.store(true, Ordering::SeqCst);
    // That a token ended makes the stream ask for its own.
    let end = |id: &'static str| {
        let (client, steward) = (there.client, steward.clone());
        async move {
            let path = format!("/api/v1/tokens/{id}");
            bearer(client, "DELETE", &path, &steward, json!({}))
                .await
                .expect(200)
        }
    };
    end("tok_node").await;
    world.sees(2, |flags| &flags.refused_reads).await;
    let body = json!({ "title": "T" });
    let made = bearer(there.client, "POST", "/api/v1/tasks", &steward, body).await;
    let made = made.expect(201);
    world.0.tokens_away.store(false, Ordering::SeqCst);
    assert_eq!(stream.next().await.unwrap().1, "token_revoked");
    assert_eq!(stream.next().await.unwrap().2["task"], made["task"]["id"]);

    world.0.tokens_away.store(true, Ordering::SeqCst);
    end("tok_viewer").await;
    world.sees(2, |flags| &flags.refused_reads).await;
    world.0.tokens_away.store(false, Ordering::SeqCst);
    assert_eq!(
        stream.next().await,
        None,
        "its own token is the one that ended"
    );
    here.running.shutdown().await;
    there.running.shutdown().await;
}

//! Who is alive: silence on the bus, probes, and agents that are there through several doors.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::verb::MarkSilent;

use super::kit::{ASSIGN, Peer, bus_as, entry, make, shown, until_agent};
use crate::harness::{TestHub, start};
use crate::world::{Ledger, eventually};

const TTL: Duration = Duration::from_secs(1);

/// The task, once its holder is found silent. The caretaker looks every few seconds; nobody waits for it here.
async fn until_silent(hub: &TestHub, task: &str) -> Value {
    eventually(async || {
        hub.running.hub.run(MarkSilent).await.unwrap();
        shown(hub.client, task).await["status"] == "ready"
    })
    .await;
    shown(hub.client, task).await
}

#[tokio::test]
async fn a_silent_worker_is_asked_once_then_cut_off_and_its_task_is_another_s() {
    // agentbus.heartbeat.ttl, agentbus.accept.ttl_from_messages
    let hub = bus_as(|config| config.bus.heartbeat_ttl = TTL).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let probe = worker.expect("worker_probe.v1").await;
    assert!(probe["reason"].is_string());
    worker.ended().await;
    assert_eq!(worker.came("worker_probe.v1"), 0, "once is enough");
    let task = until_silent(&hub, &id).await;
    assert_eq!(
        (&task["retryCount"], &task["previousAgents"]),
        (&json!(1), &json!(["w1"]))
    );
    until_agent(client, "w1", "offline").await;
    // It is finished over another door.
    client.register("a1", &[]).await;
    let claimed = client.claim("a1").await;
    assert_eq!(claimed["task"]["id"], *id);
    let done = json!({ "agentId": "a1", "result": crate::harness::result("x") });
    client
        .post(&format!("/api/v1/tasks/{id}/complete"), done)
        .await
        .expect(200);
    // Back from the dead, it holds nothing and may work again.
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    worker.beat("DONE", number).await;
    let (_, next) = make(client, json!({ "title": "U" })).await;
    worker.take_on(next).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn any_sound_frame_is_a_sign_of_life_and_an_unsound_one_is_not() {
    // agentbus.heartbeat.ttl
    let hub = bus_as(|config| config.bus.heartbeat_ttl = TTL).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    for _ in 0..2 {
        worker.expect("worker_probe.v1").await;
        worker.beat("CODE", number).await;
    }
    worker.fence().await;
    let task = shown(client, &id).await;
    assert_eq!(
        (&task["status"], &task["retryCount"]),
        (&json!("in_progress"), &json!(0))
    );
    worker.expect("worker_probe.v1").await;
    worker
        .send("heartbeat.v1", json!({ "state": "fine" }))
        .await;
    worker.ended().await;
    assert_eq!(worker.came("protocol_error.v1"), 1);
    until_silent(&hub, &id).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_that_vanishes_without_a_word_is_found_out_by_its_silence() {
    let hub = bus_as(|config| config.bus.heartbeat_ttl = TTL).await;
    let client = hub.client;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    // The socket stays open and nobody is behind it any more.
    until_silent(&hub, &id).await;
    watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["connected"] == false)
        .await;
    let mut other = Peer::worker(&hub, "w2", ASSIGN).await;
    other.take_on(number).await;
    drop(worker);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn who_goes_is_shown_as_gone_and_who_comes_back_as_there() {
    let hub = bus_as(|_| {}).await;
    let worker = Peer::worker(&hub, "w1", &[]).await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let is = |shown: bool| move |snapshot: &Value| entry(snapshot, "w1")["connected"] == shown;
    watcher.snapshot(is(true)).await;
    drop(worker);
    watcher.snapshot(is(false)).await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    watcher.snapshot(is(true)).await;
    worker.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn heartbeats_on_the_bus_keep_an_agent_alive_that_registered_over_http() {
    let ledger = Ledger::new();
    let (hub, _world) = ledger
        .coordinator_as(|config| {
            config.bus.enabled = true;
            config.bus.memory.enabled = false;
        })
        .await;
    let client = hub.client;
    client.register("both", &[]).await;
    client.register("http", &[]).await;
    let mut worker = Peer::worker(&hub, "both", &[]).await;
    // In steps, as time passes for a hub that serves; the stages change, so that the ledger hears of each.
    for stage in ["CODE", "VALIDATE"].into_iter().cycle().take(30) {
        ledger.clock.advance(Duration::from_secs(5));
        worker.beat(stage, 0).await;
        worker.fence().await;
    }
    hub.running.hub.run(MarkSilent).await.unwrap();
    until_agent(client, "http", "offline").await;
    let shown = client.get("/api/v1/agents/both").await.expect(200);
    assert_eq!(shown["agent"]["status"], "idle", "{shown}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_hub_without_a_bus_has_none() {
    let hub = start().await;
    assert_eq!(hub.running.bus_addr(), None);
    eventually(async || hub.client.get("/healthz").await.status == 200).await;
    hub.running.shutdown().await;
}

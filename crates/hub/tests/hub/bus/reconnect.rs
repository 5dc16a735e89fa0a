//! The same worker on another connection: it goes on where it was.

use std::time::Duration;

use serde_json::{Value, json};

use super::kit::{ASSIGN, Peer, bus, bus_as, flagged, hello, make, shown};
use crate::world::eventually;

#[tokio::test]
async fn who_comes_back_keeps_its_task_and_its_epoch() {
    // agentbus.reconnect.continuation, agentbus.reconnect.hello_again
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    worker.beat("VALIDATE", number).await;
    worker.fence().await;
    drop(worker);
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let offer = worker.take_on(number).await;
    assert_eq!(
        (&offer["epoch"], &offer["resumed"]),
        (&json!(1), &json!(true))
    );
    let phase = &shown(client, &id).await["progress"]["phase"];
    assert_eq!(phase, "testing", "it goes on where it was");
    worker.beat("CODE", number).await;
    worker.fence().await;
    let task = shown(client, &id).await;
    assert_eq!(
        (&task["status"], &task["epoch"]),
        (&json!("in_progress"), &json!(1))
    );
    let agents = client.get("/api/v1/agents").await.expect(200)["agents"].take();
    assert_eq!(
        agents.as_array().map(Vec::len),
        Some(1),
        "no second worker appears"
    );
    worker.beat("DONE", number).await;
    worker.fence().await;
    assert_eq!(shown(client, &id).await["status"], "completed");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_result_made_during_a_cut_counts() {
    // agentbus.reconnect.continuation
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    drop(worker);
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let result =
        json!({ "issue_number": number, "epoch": 1, "result": { "summary": "done meanwhile" } });
    worker.send("task_result.v1", result).await;
    assert_eq!(worker.expect("task_result_ack.v1").await["accepted"], true);
    assert_eq!(shown(client, &id).await["status"], "completed");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_a_worker_accepted_and_says_nothing_of_after_a_hello_goes_to_others_unspent() {
    // agentbus.reconnect.continuation
    let moment = Duration::from_secs(1);
    let hub = bus_as(|config| config.bus.accept_within = moment).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    drop(worker);
    // Whoever names it keeps it.
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    assert_eq!(worker.expect("task_assigned.v1").await["resumed"], true);
    worker.beat("CODE", number).await;
    worker.fence().await;
    tokio::time::sleep(moment * 2).await;
    worker.fence().await;
    assert_eq!(worker.came("task_revoked.v1"), 0);
    drop(worker);
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let revoked = worker.expect("task_revoked.v1").await;
    assert_eq!(revoked["epoch"], 1);
    let task = shown(client, &id).await;
    assert_eq!(
        (&task["status"], &task["retryCount"]),
        (&json!("ready"), &json!(0))
    );
    let mut other = Peer::worker(&hub, "w2", ASSIGN).await;
    let taken = other.take_on(number).await;
    assert_eq!(
        (&taken["epoch"], &taken["resumed"]),
        (&json!(2), &Value::Null)
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_that_says_twice_that_it_is_idle_loses_what_it_accepted_unspent() {
    let every = Duration::from_secs(1);
    let hub = bus_as(|config| config.bus.heartbeat_interval = every).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    // Idle once, then at it, then idle once: that is not twice.
    for number in [0, number, 0] {
        worker.beat("CODE", number).await;
        worker.fence().await;
        assert_eq!(worker.came("task_revoked.v1"), 0);
    }
    tokio::time::sleep(every).await;
    worker.beat("START", 0).await;
    let revoked = worker.expect("task_revoked.v1").await;
    assert!(
        revoked["reason"].as_str().unwrap().contains("idle"),
        "{revoked}"
    );
    let task = shown(client, &id).await;
    assert_eq!(
        (&task["status"], &task["retryCount"]),
        (&json!("ready"), &json!(0))
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_was_offered_and_not_accepted_is_offered_again_under_the_same_epoch() {
    // agentbus.reconnect.continuation
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (_, number) = make(client, json!({ "title": "T" })).await;
    for _ in 0..3 {
        let offer = worker.expect("task_assigned.v1").await;
        assert_eq!(
            (&offer["issue_number"], &offer["epoch"]),
            (&json!(number), &json!(1))
        );
        drop(worker);
        worker = Peer::worker(&hub, "w1", ASSIGN).await;
    }
    let offer = worker.take_on(number).await;
    assert_eq!((&offer["epoch"], &offer["attempt"]), (&json!(1), &json!(1)));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn of_two_live_connections_the_newer_one_has_the_worker() {
    // agentbus.reconnect.continuation
    let hub = bus().await;
    let client = hub.client;
    let mut older = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    older.take_on(number).await;
    let mut newer = Peer::worker(&hub, "w1", ASSIGN).await;
    older.refused("replaced").await;
    older.ended().await;
    assert_eq!(newer.expect("task_assigned.v1").await["resumed"], true);
    newer.beat("DONE", number).await;
    newer.fence().await;
    assert_eq!(shown(client, &id).await["status"], "completed");
    // The end of the older one takes nothing away from the newer one.
    let (_, next) = make(client, json!({ "title": "U" })).await;
    newer.take_on(next).await;

    let mut older = Peer::operator(&hub, "o1").await;
    let mut newer = Peer::operator(&hub, "o1").await;
    older.refused("replaced").await;
    older.ended().await;
    newer.fence().await;
    // A worker and an operator of the same name are two.
    let mut worker = Peer::worker(&hub, "o1", &[]).await;
    worker.fence().await;
    newer.fence().await;
    assert_eq!(flagged(client, "replaced").await, 2);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_that_reconnects_over_and_over_while_work_comes_in_misses_none() {
    let hub = bus().await;
    let client = hub.client;
    for round in 0..10 {
        // Made while the worker is on its way from one connection to the next.
        let (mut older, (id, number)) = tokio::join!(
            Peer::worker(&hub, "w1", ASSIGN),
            make(client, json!({ "title": "T" }))
        );
        let mut newer = Peer::worker(&hub, "w1", ASSIGN).await;
        let offer = newer.take_on(number).await;
        assert_eq!(offer["epoch"], 1, "round {round}");
        newer.beat("DONE", number).await;
        newer.fence().await;
        assert_eq!(shown(client, &id).await["status"], "completed");
        older.ended().await;
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_hello_counts_once() {
    // agentbus.version.hello_first, agentbus.envelope.seq_monotonic
    let hub = bus().await;
    let mut worker = Peer::open(&hub).await;
    (worker.role, worker.id) = ("worker", "w1".to_owned());
    let first = worker
        .frame("protocol_hello.v1", &hello("w1", ASSIGN))
        .to_string();
    worker.line(&first).await;
    worker.expect("protocol_welcome.v1").await;
    // The same bytes again, and a hello under a number of its own.
    worker.line(&first).await;
    let error = worker.refused("bad_seq").await;
    assert_eq!(error["ref_seq"], 1);
    let seq = worker.send("protocol_hello.v1", hello("w1", ASSIGN)).await;
    let error = worker.refused("bad_envelope").await;
    assert_eq!(error["ref_seq"], seq);
    worker.fence().await;
    assert_eq!(worker.came("protocol_welcome.v1"), 0);
    eventually(async || flagged(hub.client, "hello_again").await == 1).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_that_was_signed_off_elsewhere_is_told_and_may_say_hello_again() {
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    client.delete("/api/v1/agents/w1").await.expect(200);
    let error = worker.refused("role_forbidden").await;
    assert!(error["message"].as_str().unwrap().contains("sender.id"));
    worker.ended().await;
    assert_eq!(shown(client, &id).await["status"], "ready");
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let again = worker.take_on(number).await;
    assert_eq!(again["epoch"], 2);
    hub.running.shutdown().await;
}

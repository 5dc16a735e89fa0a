//! A worker that goes for good says so once.

use serde_json::json;

use super::kit::{ASSIGN, Peer, bus, make, shown, until_agent};

#[tokio::test]
async fn whoever_leaves_gives_its_task_back_unspent_and_is_offered_nothing_more() {
    let hub = bus().await;
    let client = hub.client;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let (next, _) = make(client, json!({ "title": "U" })).await;
    let said = json!({ "reason": "stopped by a signal" });
    worker.send("worker_leaving.v1", said).await;
    // The end of the connection says that it is done.
    worker.ended().await;
    assert_eq!(worker.came("task_assigned.v1"), 0);
    assert_eq!(worker.came("task_revoked.v1"), 0, "its own doing");
    assert_eq!(worker.came("protocol_error.v1"), 0);
    let told = watcher.expect("worker_leaving.v1").await;
    assert_eq!(told["reason"], "stopped by a signal");
    let task = shown(client, &id).await;
    assert_eq!(
        (&task["status"], &task["retryCount"]),
        (&json!("ready"), &json!(0))
    );
    assert_eq!(task["previousAgents"], json!([]));
    assert_eq!(shown(client, &next).await["epoch"], 0);
    until_agent(client, "w1", "offline").await;

    let mut other = Peer::worker(&hub, "w2", ASSIGN).await;
    let taken = other.take_on(number).await;
    assert_eq!((&taken["epoch"], &taken["attempt"]), (&json!(2), &json!(1)));
    let mut again = Peer::worker(&hub, "w1", ASSIGN).await;
    assert_eq!(again.expect("task_assigned.v1").await["task_id"], *next);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_offer_that_was_not_answered_goes_back_with_who_leaves() {
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, _) = make(client, json!({ "title": "T" })).await;
    worker.expect("task_assigned.v1").await;
    worker.send("worker_leaving.v1", json!({})).await;
    worker.ended().await;
    assert_eq!(shown(client, &id).await["status"], "ready");
    hub.running.shutdown().await;
}

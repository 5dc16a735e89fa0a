//! Results: answered each time they are said, and the same way.

use serde_json::{Value, json};

use super::kit::{ASSIGN, Peer, bus, bus_as, make, shown};

fn result(number: u64, epoch: u64, summary: &str) -> Value {
    json!({ "issue_number": number, "epoch": epoch, "result": { "summary": summary }, "corr_id": "c-1" })
}

/// Says a result and tells how it was answered.
async fn say(worker: &mut Peer, result: &Value) -> (bool, Option<String>) {
    worker.send("task_result.v1", result.clone()).await;
    let ack = worker.expect("task_result_ack.v1").await;
    for member in ["issue_number", "epoch", "corr_id"] {
        assert_eq!(ack[member], result[member], "{ack}");
    }
    let reason = ack["reason"].as_str().map(str::to_owned);
    (ack["accepted"].as_bool().unwrap(), reason)
}

#[tokio::test]
async fn a_result_is_taken_once_and_answered_alike_on_every_connection() {
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let done = result(number, 1, "it works");
    for round in 0..3 {
        assert_eq!(say(&mut worker, &done).await, (true, None), "{round}");
        drop(worker);
        worker = Peer::worker(&hub, "w1", ASSIGN).await;
    }
    // Another one under the same claim changes nothing.
    let (accepted, reason) = say(&mut worker, &result(number, 1, "it does not")).await;
    assert!(!accepted && reason.is_some());
    assert_eq!(shown(client, &id).await["result"]["summary"], "it works");
    let events = client.get("/api/v1/events?types=task_completed").await;
    let events = events.expect(200)["events"].take();
    assert_eq!(events.as_array().unwrap().len(), 1);
    worker.fence().await;
    assert_eq!(worker.came("protocol_error.v1"), 0);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_heartbeat_that_said_it_first_does_not_make_the_result_wrong() {
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (_, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    worker.beat("DONE", number).await;
    let (accepted, _) = say(&mut worker, &result(number, 1, "it works")).await;
    assert!(accepted);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_hears_of_a_gate_that_it_did_not_pass_however_it_said_that_it_is_done() {
    let hub = bus_as(|config| config.quality.require_metrics = true).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    for by_heartbeat in [true, false] {
        let (id, number) = make(client, json!({ "title": "T" })).await;
        worker.take_on(number).await;
        match by_heartbeat {
            true => drop(worker.beat("DONE", number).await),
            false => drop(
                worker
                    .send("task_result.v1", result(number, 1, "done"))
                    .await,
            ),
        }
        let ack = worker.expect("task_result_ack.v1").await;
        assert_eq!(
            (&ack["issue_number"], &ack["epoch"], &ack["accepted"]),
            (&json!(number), &json!(1), &json!(true))
        );
        let reason = ack["reason"].as_str().expect("it is told why");
        assert!(reason.contains("review by a person"), "{reason}");
        assert_eq!(shown(client, &id).await["status"], "needs_review");
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_that_lost_its_task_is_told_so_in_words() {
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let path = format!("/api/v1/tasks/{id}/release");
    client.post(&path, json!({})).await.expect(200);
    worker.expect("task_revoked.v1").await;
    let mut other = Peer::worker(&hub, "w2", ASSIGN).await;
    other.take_on(number).await;
    for _ in 0..2 {
        let answer = say(&mut worker, &result(number, 1, "late")).await;
        assert_eq!(answer, (false, Some("now held by w2".to_owned())));
        let revoked = worker.expect("task_revoked.v1").await;
        assert_eq!(
            (&revoked["epoch"], &revoked["reason"]),
            (&json!(1), &json!("now held by w2"))
        );
    }
    assert_eq!(shown(client, &id).await["status"], "in_progress");
    let (accepted, reason) = say(&mut worker, &result(4711, 1, "nothing")).await;
    assert_eq!(
        (accepted, reason.as_deref()),
        (false, Some("there is no task #4711"))
    );
    hub.running.shutdown().await;
}

//! What operators order, each with its confirmation.

use serde_json::{Value, json};
use switchboard_hub::Running;

use super::kit::{ASSIGN, Peer, bus, make, shown, until_agent};
use crate::harness::{Client, TestHub, config};
use crate::world::eventually;

async fn order(operator: &mut Peer, command: Value) -> Value {
    let seq = operator.send("operator_command.v1", command).await;
    let ack = operator.expect("operator_ack.v1").await;
    assert_eq!(ack["ref_seq"], seq);
    ack
}

async fn obeyed(operator: &mut Peer, command: Value) {
    let ack = order(operator, command).await;
    assert_eq!(ack["ok"], true, "{ack}");
    assert!(ack["message"].as_str().is_some_and(|text| !text.is_empty()));
}

#[tokio::test]
async fn while_paused_no_work_is_handed_out_and_what_runs_goes_on() {
    let hub = bus().await;
    let client = hub.client;
    let mut operator = Peer::operator(&hub, "o1").await;
    let mut busy = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    busy.take_on(number).await;
    let mut idle = Peer::worker(&hub, "w2", ASSIGN).await;
    obeyed(
        &mut operator,
        json!({ "command": "pause", "reason": "deploy" }),
    )
    .await;
    let snapshot = operator
        .snapshot(|snapshot| snapshot["director"]["state"] == "COOLDOWN")
        .await;
    assert_eq!(snapshot["director"]["paused"], true);
    let reason = snapshot["director"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("o1") && reason.contains("deploy"),
        "{reason}"
    );
    let (waiting, next) = make(client, json!({ "title": "U" })).await;
    busy.beat("DONE", number).await;
    busy.fence().await;
    idle.fence().await;
    assert_eq!(
        shown(client, &id).await["status"],
        "completed",
        "what runs goes on"
    );
    assert_eq!(shown(client, &waiting).await["status"], "ready");
    assert_eq!(
        busy.came("task_assigned.v1") + idle.came("task_assigned.v1"),
        0
    );
    obeyed(&mut operator, json!({ "command": "resume" })).await;
    let mut first = tokio::select! {
        assigned = busy.expect("task_assigned.v1") => assigned,
        assigned = idle.expect("task_assigned.v1") => assigned,
    };
    assert_eq!(first["issue_number"].take(), next);
    operator
        .snapshot(|snapshot| snapshot["director"]["paused"] == false)
        .await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_cooldown_ends_by_itself() {
    let hub = bus().await;
    let mut operator = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    obeyed(
        &mut operator,
        json!({ "command": "cooldown", "seconds": 2, "reason": "limits" }),
    )
    .await;
    let (_, number) = make(hub.client, json!({ "title": "T" })).await;
    worker.fence().await;
    assert_eq!(worker.came("task_assigned.v1"), 0);
    worker.take_on(number).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_gets_no_more_work_and_is_gone_when_it_goes() {
    let hub = bus().await;
    let client = hub.client;
    let mut operator = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    obeyed(
        &mut operator,
        json!({ "command": "shutdown_worker", "target": "w1", "reason": "old" }),
    )
    .await;
    let told = worker.expect("operator_command.v1").await;
    assert_eq!(told["command"], "shutdown_worker");
    assert_eq!(
        (&told["target"], &told["reason"]),
        (&json!("w1"), &json!("old"))
    );
    worker.beat("DONE", number).await;
    let (next, _) = make(client, json!({ "title": "U" })).await;
    worker.fence().await;
    assert_eq!(shown(client, &id).await["status"], "completed");
    assert_eq!(
        (
            worker.came("task_assigned.v1"),
            worker.came("operator_command.v1")
        ),
        (0, 0)
    );
    drop(worker);
    until_agent(client, "w1", "offline").await;
    assert_eq!(shown(client, &next).await["status"], "ready");
    // It may come back, as somebody new.
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    worker.expect("task_assigned.v1").await;

    let ack = order(
        &mut operator,
        json!({ "command": "shutdown_worker", "target": "w9", "reason": "" }),
    )
    .await;
    assert_eq!(ack["ok"], false);
    let said = ack["message"].as_str().unwrap();
    assert!(said.contains("nobody is registered as w9"), "{said}");
    operator
        .send(
            "operator_command.v1",
            json!({ "command": "shutdown_worker" }),
        )
        .await;
    operator.refused("bad_envelope").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_release_is_shown_in_snapshots_and_told_to_workers() {
    // agentbus.snapshot.release
    let hub = bus().await;
    let mut operator = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let release =
        json!({ "release_id": "r7", "release_branch": "release/7", "release_pr_number": 70 });
    obeyed(
        &mut operator,
        json!({ "command": "release", "reason": "", "release": release }),
    )
    .await;
    let snapshot = operator
        .snapshot(|snapshot| snapshot["release"]["release_id"] == "r7")
        .await;
    assert_eq!(snapshot["release"], release);
    let published = json!({ "tag": "v8", "main_sha": "a".repeat(40), "image_tag": "worker:8" });
    let seq = operator
        .send("release_published.v1", published.clone())
        .await;
    let ack = operator.expect("operator_ack.v1").await;
    assert_eq!((&ack["ref_seq"], &ack["ok"]), (&json!(seq), &json!(true)));
    assert_eq!(worker.expect("release_published.v1").await, published);
    let snapshot = operator
        .snapshot(|snapshot| snapshot["release"]["release_id"] == "v8")
        .await;
    assert_eq!(snapshot["release"]["release_branch"], "main");
    assert!(snapshot["release"].get("release_pr_number").is_none());
    operator
        .send("operator_command.v1", json!({ "command": "dance" }))
        .await;
    operator.refused("bad_envelope").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_pause_lasts_beyond_the_hub_that_heard_of_it() {
    let home = tempfile::tempdir().unwrap();
    let begin = async || {
        let mut config = config(home.path());
        config.bus.enabled = true;
        config.bus.memory.enabled = false;
        let mut running = None;
        // A child process that another test is just starting may hold the directory's lock for a moment.
        eventually(async || {
            running = Running::start(config.clone()).await.ok();
            running.is_some()
        })
        .await;
        let running = running.unwrap();
        let client = Client { addr: running.addr };
        TestHub {
            running,
            client,
            home: tempfile::tempdir().unwrap(),
        }
    };
    let hub = begin().await;
    let mut operator = Peer::operator(&hub, "o1").await;
    obeyed(
        &mut operator,
        json!({ "command": "pause", "reason": "overnight" }),
    )
    .await;
    let (id, number) = make(hub.client, json!({ "title": "T" })).await;
    hub.running.shutdown().await;
    operator.ended().await;

    let hub = begin().await;
    let mut operator = Peer::operator(&hub, "o2").await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    operator
        .snapshot(|snapshot| snapshot["director"]["state"] == "COOLDOWN")
        .await;
    worker.fence().await;
    assert_eq!(worker.came("task_assigned.v1"), 0);
    assert_eq!(shown(hub.client, &id).await["status"], "ready");
    obeyed(
        &mut operator,
        json!({ "command": "resume", "reason": "morning" }),
    )
    .await;
    worker.take_on(number).await;
    hub.running.shutdown().await;
}

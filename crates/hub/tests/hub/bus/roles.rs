//! Who may say what: roles.

use serde_json::{Value, json};

use super::kit::{ASSIGN, Peer, bus, entry, hello, make, shown};

/// One sound payload of each message that only the director sends, or only operators.
fn not_for_workers() -> Vec<(&'static str, Value)> {
    vec![
        (
            "operator_command.v1",
            json!({ "command": "pause", "reason": "" }),
        ),
        (
            "release_published.v1",
            json!({ "tag": "v1", "main_sha": "a", "image_tag": "i" }),
        ),
        (
            "operator_ack.v1",
            json!({ "ref_seq": 1, "ok": true, "message": "" }),
        ),
        (
            "protocol_welcome.v1",
            json!({ "protocol_version": "0.1", "director": { "run_id": "r" } }),
        ),
        (
            "task_assigned.v1",
            json!({ "issue_number": 1, "task_id": "t", "epoch": 1, "attempt": 1, "title": "", "description": "", "files": [] }),
        ),
        (
            "task_revoked.v1",
            json!({ "issue_number": 1, "epoch": 1, "reason": "" }),
        ),
        (
            "project_state_snapshot.v1",
            json!({ "workers": [], "queue": { "eligible_issue_numbers": [], "claimed_issue_numbers": [] } }),
        ),
        (
            "worker_probe.v1",
            json!({ "reason": "", "answer_within_seconds": 1 }),
        ),
    ]
}

#[tokio::test]
async fn a_worker_cannot_speak_as_operator_or_director() {
    // agentbus.envelope.sender_role, agentbus.overview.director_listens
    let hub = bus().await;
    let mut other = Peer::worker(&hub, "w2", ASSIGN).await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    for (message_type, payload) in not_for_workers() {
        let seq = worker.send(message_type, payload).await;
        let error = worker.refused("role_forbidden").await;
        assert_eq!(error["ref_seq"], seq, "{message_type}");
    }
    for role in ["operator", "director"] {
        worker.role = role;
        worker
            .send(
                "operator_command.v1",
                json!({ "command": "pause", "reason": "" }),
            )
            .await;
        worker.refused("role_forbidden").await;
    }
    worker.role = "worker";
    worker.id = "w2".to_owned();
    worker.beat("CODE", 0).await;
    worker.refused("bad_envelope").await;
    worker.id = "w1".to_owned();
    // Nothing of it took effect.
    let (_, number) = make(hub.client, json!({ "title": "T", "audience": ["w1"] })).await;
    worker.take_on(number).await;
    other.fence().await;
    assert!(other.passed.is_empty(), "{:?}", other.passed);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_operator_cannot_speak_as_a_worker() {
    // agentbus.envelope.sender_role
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(hub.client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let mut operator = Peer::operator(&hub, "w1").await;
    operator.beat("DONE", number).await;
    operator.refused("role_forbidden").await;
    let result = json!({ "issue_number": number, "epoch": 1, "result": { "summary": "" } });
    operator.send("task_result.v1", result).await;
    operator.refused("role_forbidden").await;
    let mail = json!({ "message_id": "m", "from": "w1", "type": "custom", "body": {}, "ack_required": false });
    operator.send("agent_message.v1", mail).await;
    operator.refused("role_forbidden").await;
    operator.role = "worker";
    operator.beat("DONE", number).await;
    operator.refused("role_forbidden").await;
    operator.role = "operator";
    operator.fence().await;
    assert_eq!(shown(hub.client, &id).await["status"], "in_progress");
    worker.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn nobody_comes_in_as_director_or_under_a_name_of_the_hub() {
    let hub = bus().await;
    let mut peer = Peer::open(&hub).await;
    peer.greet("director", "d1", hello("d1", &[])).await;
    peer.refused("role_forbidden").await;
    peer.ended().await;
    let mut peer = Peer::open(&hub).await;
    peer.greet("worker", "steward", hello("steward", &[])).await;
    peer.refused("role_forbidden").await;
    peer.ended().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_a_sender_says_about_the_time_orders_nothing() {
    // agentbus.heartbeat.last_update_at, agentbus.envelope.sent_at
    let hub = bus().await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(hub.client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    // The last one that comes is the last one, whatever it says.
    for (at, stage) in [
        ("2099-12-31T23:59:59Z", "CODE"),
        ("1970-01-01T00:00:00Z", "VALIDATE"),
    ] {
        let state =
            json!({ "stage": stage, "issue_number": number, "attempt": 1, "last_update_at": at });
        let mut frame = worker.frame("heartbeat.v1", &json!({ "state": state }));
        frame["sent_at"] = json!(at);
        worker.line(&frame.to_string()).await;
    }
    worker.fence().await;
    let snapshot = watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["stage"] == "VALIDATE")
        .await;
    let shown_as = entry(&snapshot, "w1");
    assert_eq!(shown_as["last_update_at"], "1970-01-01T00:00:00Z");
    let age = shown_as["last_heartbeat_age_seconds"].as_f64().unwrap();
    assert!((0.0..60.0).contains(&age), "by the director's clock: {age}");
    assert_eq!(shown(hub.client, &id).await["progress"]["phase"], "testing");
    for wrong in [
        "yesterday",
        "2026-02-12T00:00:00+01:00",
        "2026-02-30T00:00:00Z",
        "",
    ] {
        let mut frame = worker.frame("heartbeat.v1", &json!({}));
        frame["sent_at"] = json!(wrong);
        worker.line(&frame.to_string()).await;
        worker.refused("bad_envelope").await;
    }
    hub.running.shutdown().await;
}

//! What snapshots show of whom, how often they come, and frames that are passed on beside them.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::verb::MarkSilent;
use tokio::time::Instant;

use super::kit::{ASSIGN, Peer, SENT_AT, bus, bus_as, entry, error, make};
use crate::world::Ledger;

/// What a worker says of itself, of an entry.
const STATE: [&str; 7] = [
    "stage",
    "issue_number",
    "attempt",
    "progress",
    "repo",
    "last_error_id",
    "last_update_at",
];

#[tokio::test]
async fn a_worker_is_shown_as_it_last_said_and_what_it_holds_beside_it() {
    // agentbus.snapshot.workers
    let hub = bus().await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (_, number) = make(hub.client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let repo = json!({ "branch_name": "b", "base_branch": "main" });
    let said = |stage: &str, number: u64, attempt: u32| {
        json!({
            "stage": stage, "issue_number": number, "attempt": attempt, "repo": repo, "last_error_id": "e-1",
            "progress": { "step": "writing", "percent": 12.5 }, "last_update_at": SENT_AT,
        })
    };
    for (state, holds, external) in [
        (said("CODE", number, 7), json!([number]), Value::Null),
        (
            said("VALIDATE", 21, 2),
            json!([number]),
            json!("external #21"),
        ),
        (said("RETRY_WAIT", 0, 3), json!([number]), Value::Null),
        (said("DONE", number, 4), Value::Null, Value::Null),
    ] {
        worker.send("heartbeat.v1", json!({ "state": state })).await;
        worker.fence().await;
        let is_shown = |snapshot: &Value| {
            let shown = entry(snapshot, "w1");
            STATE.iter().all(|member| shown[*member] == state[*member])
                && shown["holds"] == holds
                && shown["external"] == external
        };
        watcher.snapshot(is_shown).await;
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_document_s_own_heartbeat_is_taken_and_dated_by_its_receipt() {
    // agentbus.heartbeat.issue_attempt, agentbus.heartbeat.last_update_at
    let hub = bus().await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let state = json!({ "stage": "CODE", "issue_number": 21 });
    worker.send("heartbeat.v1", json!({ "state": state })).await;
    let shown = watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["issue_number"] == 21)
        .await;
    let shown = entry(&shown, "w1");
    assert_eq!(shown["attempt"], 1);
    let at = shown["last_update_at"].as_str().expect("it is dated");
    assert!(at > SENT_AT, "{at}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn who_is_away_for_ten_timeouts_is_no_longer_shown() {
    let ledger = Ledger::new();
    let (hub, _world) = ledger
        .coordinator_as(|config| {
            config.bus.enabled = true;
            config.bus.memory.enabled = false;
            config.bus.heartbeat_ttl = Duration::from_secs(90);
        })
        .await;
    hub.client.register("away", &[]).await;
    hub.client.register("here", &[]).await;
    // In steps, as time passes for a hub that serves.
    let pass = async |seconds: u64| {
        for _ in 0..seconds / 10 {
            ledger.clock.advance(Duration::from_secs(10));
            let beat = json!({ "agentId": "here", "status": "idle" });
            let path = "/api/v1/agents/here/heartbeat";
            hub.client.post(path, beat).await.expect(200);
            hub.running.hub.run(MarkSilent).await.unwrap();
        }
    };
    pass(890).await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let snapshot = watcher.expect("project_state_snapshot.v1").await;
    assert_eq!(entry(&snapshot, "away")["connected"], false);
    pass(20).await;
    let mut watcher = Peer::operator(&hub, "o2").await;
    let snapshot = watcher.expect("project_state_snapshot.v1").await;
    assert_eq!(entry(&snapshot, "away"), &Value::Null);
    assert_eq!(entry(&snapshot, "here")["worker_id"], "here");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn snapshots_come_at_most_once_a_second_however_often_they_are_asked_for() {
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let began = Instant::now();
    let mut watcher = Peer::operator(&hub, "o1").await;
    for number in 0..20 {
        worker.beat("CODE", number).await;
        worker.fence().await;
        let asked = json!({ "command": "snapshot", "reason": "" });
        watcher.send("operator_command.v1", asked).await;
        let ack = watcher.expect("operator_ack.v1").await;
        assert_eq!(ack["ok"], true, "{ack}");
    }
    let came = watcher.came("project_state_snapshot.v1") as u64;
    assert!(came <= 1 + began.elapsed().as_secs(), "{came}");
    // The last one was promised.
    watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["issue_number"] == 19)
        .await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_frame_that_is_passed_on_fits_a_line_whatever_its_number_and_its_secrets() {
    // agentbus.limits.max_message_size
    const BYTES: usize = 4096;
    let hub = bus_as(|config| config.bus.max_message_bytes = BYTES).await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    for _ in 0..10 {
        watcher.fence().await;
    }
    for text in ["x", "password=hunter22 "] {
        let mut worker = Peer::worker(&hub, "w1", &[]).await;
        let mut report = error("e-1", 0, (true, true, false));
        report["error"]["message"] = json!("");
        let empty = worker.frame("worker_error.v1", &report).to_string().len();
        worker.seq -= 1;
        let mut message = text.repeat(BYTES);
        message.truncate(BYTES - empty);
        report["error"]["message"] = json!(message);
        let frame = worker.frame("worker_error.v1", &report).to_string();
        assert_eq!(frame.len(), BYTES);
        worker.line(&frame).await;
        worker.fence().await;
        let passed = watcher.expect("worker_error.v1").await;
        assert!(watcher.line_bytes <= BYTES, "{}", watcher.line_bytes);
        assert_eq!(passed["error"]["error_id"], "e-1");
        assert_eq!(passed["cut"], true, "{text}");
    }
    hub.running.shutdown().await;
}

//! The memory of the swarm over the bus: noted, announced, asked for.

use serde_json::{Value, json};
use switchboard_hub::config::Config;

use super::kit::{Peer, SENT_AT, bus_as, entry};

/// A hub that makes an engram of very little.
async fn remembering() -> crate::harness::TestHub {
    bus_as(|config: &mut Config| {
        config.bus.memory.enabled = true;
        config.bus.memory.buffer_max_bytes = 2048;
        config.bus.memory.compact_when_over_bytes = 2048;
        config.bus.memory.engram_max_bytes = 4096;
    })
    .await
}

/// A worker reports, until its hub has compacted it.
async fn report(worker: &mut Peer) -> Value {
    for n in 0..64 {
        let event = json!({
            "event_type": "task_progress.v1",
            "event": { "payload": { "note": format!("finding {n}: the parser needs a second look, {}", "x".repeat(64)) } },
        });
        worker.send("memory_event.v1", event).await;
    }
    worker.expect("engram_announce.v1").await
}

#[tokio::test]
async fn what_workers_want_remembered_becomes_an_engram_that_all_are_told_of_and_may_fetch() {
    // agentbus.memory_event.fields, agentbus.engram.announced, agentbus.engram.batch_id, agentbus.engram.path,
    // agentbus.engram.id_hash, agentbus.types.memory
    let hub = remembering().await;
    let mut other = Peer::worker(&hub, "other", &[]).await;
    let mut operator = Peer::operator(&hub, "desk").await;
    let mut worker = Peer::worker(&hub, "notes", &[]).await;
    let announced = report(&mut worker).await;
    let id = announced["engram_id"].as_str().unwrap().to_owned();
    let batch = announced["batch_id"].as_str().unwrap();
    assert_eq!(announced["scope"], "st");
    let path = format!("memory/st/{batch}/engram_{id}.json");
    assert_eq!(announced["path"], *path);
    for peer in [&mut other, &mut operator] {
        let told = peer.expect("engram_announce.v1").await;
        assert_eq!(told["engram_id"], *id, "everybody hears of it");
    }
    other
        .send("engram_request.v1", json!({ "engram_id": id }))
        .await;
    let content = other.expect("engram_content.v1").await;
    assert_eq!(content["hash"], announced["hash"]);
    let text = content["content"].as_str().unwrap();
    assert!(text.contains("the parser needs a second look"), "{text}");
    let on_disk = std::fs::read_to_string(hub.running.data_dir().join(&path)).unwrap();
    assert_eq!(on_disk, text, "the file has the same bytes");
    let parsed: Value = serde_json::from_str(text).unwrap();
    assert_eq!(parsed["hash"], announced["hash"]);
    // What nobody knows is said to be missing.
    other
        .send("engram_request.v1", json!({ "engram_id": "e_none" }))
        .await;
    let missing = other.expect("engram_content.v1").await;
    assert_eq!(
        (&missing["parts"], &missing["hash"]),
        (&json!(0), &Value::Null)
    );
    // An event of no known type is refused, with the field to blame.
    let unknown = json!({ "event_type": "weather.v1", "event": {} });
    worker.send("memory_event.v1", unknown).await;
    let told = worker.refused("bad_envelope").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("event_type"), "{message}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_catalog_is_sent_whole_or_as_what_changed_since_the_one_that_is_known() {
    // agentbus.types.catalog_delta_optional, agentbus.catalog.identity, agentbus.catalog.entries
    let hub = remembering().await;
    let mut worker = Peer::worker(&hub, "notes", &[]).await;
    worker.send("catalog_refresh_request.v1", json!({})).await;
    let before = worker.expect("engram_catalog_snapshot.v1").await;
    assert_eq!(before["entries"], json!([]));
    let announced = report(&mut worker).await;
    let have =
        json!({ "have_version": before["catalog_version"], "have_hash": before["catalog_hash"] });
    worker.send("catalog_refresh_request.v1", have).await;
    let delta = worker.expect("engram_catalog_delta.v1").await;
    assert_eq!(delta["from_hash"], before["catalog_hash"]);
    let added = delta["added"].as_array().unwrap();
    assert!(
        added
            .iter()
            .any(|entry| entry["engram_id"] == announced["engram_id"])
    );
    // Without a word about what it has, or with one that nobody knows, the whole of it comes: deltas are never needed.
    for have in [
        json!({}),
        json!({ "have_version": "x", "have_hash": "sha256:x" }),
    ] {
        worker.send("catalog_refresh_request.v1", have).await;
        let whole = worker.expect("engram_catalog_snapshot.v1").await;
        assert_eq!(whole["catalog_path"], "memory/catalog.json");
        let entry = &whole["entries"][0];
        for field in ["engram_id", "scope", "version", "path", "hash"] {
            assert!(entry[field].is_string(), "{field}: {entry}");
        }
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_a_heartbeat_tells_of_its_branch_is_shown_to_operators() {
    // agentbus.heartbeat.repo
    let hub = bus_as(|_| {}).await;
    let mut worker = Peer::worker(&hub, "builder", &[]).await;
    let repo = json!({
        "branch_name": "feature", "base_branch": "main", "main_ancestor_sha": "0".repeat(40),
        "catalog_hash_seen": "sha256:0",
    });
    let state = json!({
        "stage": "CODE", "issue_number": 0, "attempt": 1, "last_update_at": SENT_AT, "repo": repo,
    });
    worker.send("heartbeat.v1", json!({ "state": state })).await;
    let mut operator = Peer::operator(&hub, "desk").await;
    let snapshot = operator
        .snapshot(|snapshot| entry(snapshot, "builder")["repo"].is_object())
        .await;
    assert_eq!(entry(&snapshot, "builder")["repo"], repo);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_budget_is_granted_queued_and_granted_when_it_is_free_again() {
    let hub = bus_as(|config: &mut Config| {
        config.bus.model.max_concurrent_requests = 1;
        config.bus.model.min_between_requests = std::time::Duration::from_millis(1);
    })
    .await;
    let mut first = Peer::worker(&hub, "first", &[]).await;
    let mut second = Peer::worker(&hub, "second", &[]).await;
    let ask = |request: &str| json!({ "request_id": request, "resource": "model", "kind": "request", "priority": "current_read" });
    first.send("budget_request.v1", ask("r1")).await;
    let granted = first.expect("budget_grant.v1").await;
    assert_eq!(granted["request_id"], "r1");
    let grant = granted["grant_id"].as_str().unwrap().to_owned();
    second.send("budget_request.v1", ask("r2")).await;
    let queued = second.expect("budget_grant.v1").await;
    assert_eq!(
        (&queued["queued"], &queued["position"]),
        (&json!(true), &json!(1))
    );
    let result = json!({ "grant_id": grant, "status": "ok" });
    first.send("budget_result.v1", result).await;
    let later = second.expect("budget_grant.v1").await;
    assert_eq!(later["request_id"], "r2");
    assert!(later["grant_id"].is_string(), "{later}");
    hub.running.shutdown().await;
}

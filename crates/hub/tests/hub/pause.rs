//! Work that is paused is paused for every door: HTTP, a long poll, SQL; on every coordinator, and after a restart.

use serde_json::json;
use switchboard_hub::Running;

use crate::by_hand::Mixed;
use crate::coordinators::{claim, done, waiting};
use crate::harness::{Client, config, registration, start_signed};
use crate::signer::{bearer, make_token};
use crate::world::Ledger;

const CLAIM: &str = "UPDATE tasks SET status = 'claimed', assigned_agent = 'a' WHERE status IN ('ready', 'pending')";

#[tokio::test]
async fn a_claim_that_waits_is_answered_once_work_is_resumed_elsewhere() {
    let ledger = Ledger::new();
    let (here, _) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    here.client.register("a", &[]).await;
    let id = here.client.task("T").await;
    let body = json!({ "why": "a release" });
    let paused = there.client.post("/api/v1/pause", body).await.expect(200);
    let held = json!({ "by": "steward", "why": "a release", "until": null });
    assert_eq!(paused["paused"], held);
    let none = here.client.claim("a").await;
    assert_eq!(none["reason"], "no_matching_tasks", "{none}");
    assert_eq!(none["paused"], held);
    let status = here.client.get("/api/v1/status").await.expect(200);
    assert_eq!(status["paused"], held);
    let waits = waiting(&ledger, &here, "a", claim(here.client, "a", 60)).await;
    let resumed = there
        .client
        .post("/api/v1/resume", json!({}))
        .await
        .expect(200);
    assert!(resumed["paused"].is_null(), "{resumed}");
    assert_eq!(done(waits).await["task"]["id"], id);
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn a_pause_with_an_end_is_checked_and_shown() {
    let hub = crate::harness::start().await;
    for (body, field) in [
        (json!({ "forSeconds": 0 }), "forSeconds"),
        (json!({ "forSeconds": 30 * 24 * 3600 + 1 }), "forSeconds"),
        (json!({ "until": "2001-01-01T00:00:00Z" }), "until"),
        (
            json!({ "until": "2999-01-01T00:00:00Z", "forSeconds": 1 }),
            "forSeconds",
        ),
    ] {
        let answer = hub.client.post("/api/v1/pause", body).await;
        let refused = answer.refused(400, "invalid_operation");
        assert_eq!(refused["field"], field, "{refused}");
    }
    let body = json!({ "forSeconds": 600 });
    let paused = hub.client.post("/api/v1/pause", body).await.expect(200);
    assert!(paused["paused"]["until"].is_string(), "{paused}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn only_a_steward_pauses() {
    let hub = start_signed().await;
    let token = make_token(&hub.running, "viewer").await;
    for path in ["/api/v1/pause", "/api/v1/resume"] {
        let answer = bearer(hub.client, "POST", path, &token, json!({})).await;
        answer.refused(403, "forbidden");
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_pause_holds_over_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let running = Running::start(config(home.path())).await.unwrap();
    let client = Client { addr: running.addr };
    client.register("a", &[]).await;
    client.task("T").await;
    client.post("/api/v1/pause", json!({})).await.expect(200);
    running.shutdown().await;
    let running = Running::start(config(home.path())).await.unwrap();
    let client = Client { addr: running.addr };
    let body = registration("b", &[]);
    client
        .post("/api/v1/agents/register", body)
        .await
        .expect(200);
    assert_eq!(client.claim("b").await["paused"]["by"], "steward");
    running.shutdown().await;
}

#[tokio::test]
async fn a_claim_by_sql_changes_no_row_and_is_no_error() {
    let mixed = Mixed::start().await;
    let client = mixed.hub.client;
    client.register("a", &[]).await;
    let id = client.task("T").await;
    for body in [json!({}), json!({ "forSeconds": 600 })] {
        client.post("/api/v1/pause", body).await.expect(200);
        let changed = mixed.hand.execute(CLAIM, []).unwrap();
        assert_eq!(changed, 0, "nothing to claim");
        client.post("/api/v1/resume", json!({})).await.expect(200);
    }
    assert_eq!(mixed.hand.execute(CLAIM, []).unwrap(), 1);
    mixed.taken_in().await;
    let shown = client.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(shown["task"]["assignedAgent"], "a");
    mixed.hub.running.shutdown().await;
}

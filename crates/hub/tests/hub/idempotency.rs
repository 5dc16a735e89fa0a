//! The same key with the same body acts once.

use serde_json::json;

use crate::harness::{result, start};

#[tokio::test]
async fn a_repeated_claim_gets_the_same_task_and_says_that_it_is_a_replay() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    for title in ["one", "two"] {
        client.task(title).await;
    }
    let body = json!({ "agentId": "a1" });
    let key = [("idempotency-key", "k1")];
    let first = client
        .with("POST", "/api/v1/tasks/claim", &key, body.clone())
        .await;
    assert_eq!(first.header("idempotent-replay"), None);
    let again = client
        .with("POST", "/api/v1/tasks/claim", &key, body.clone())
        .await;
    assert_eq!(again.header("idempotent-replay"), Some("true"));
    assert_eq!(again.expect(200), first.expect(200));
    let other = client
        .with(
            "POST",
            "/api/v1/tasks/claim",
            &key,
            json!({ "agentId": "a1", "wait": 1 }),
        )
        .await;
    other.refused(409, "idempotency_key_reused");
    let fresh = client
        .with(
            "POST",
            "/api/v1/tasks/claim",
            &[("idempotency-key", "k2")],
            body,
        )
        .await;
    assert_eq!(fresh.expect(200)["task"]["title"], "two");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_request_id_in_the_body_counts_as_the_key() {
    let hub = start().await;
    let body = json!({ "title": "T", "requestId": "r1" });
    let first = hub
        .client
        .post("/api/v1/tasks", body.clone())
        .await
        .expect(201);
    let again = hub.client.post("/api/v1/tasks", body).await;
    assert_eq!(again.expect(201), first);
    assert_eq!(again.header("idempotent-replay"), Some("true"));
    let tasks = hub.client.get("/api/v1/tasks").await.expect(200);
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn agents_do_not_share_keys_and_a_refused_call_may_be_tried_again() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    client.register("a2", &[]).await;
    let key = [("idempotency-key", "same")];
    let id = client.task("T").await;
    let body = |agent: &str| json!({ "agentId": agent, "result": result("x") });
    let path = format!("/api/v1/tasks/{id}/complete");
    client
        .with("POST", &path, &key, body("a1"))
        .await
        .refused(409, "task_already_claimed");
    client.claim("a1").await;
    client
        .with("POST", &path, &key, body("a1"))
        .await
        .expect(200);
    client
        .with("POST", &path, &key, body("a2"))
        .await
        .refused(409, "task_already_claimed");
    client
        .with(
            "POST",
            &path,
            &[("idempotency-key", "with space")],
            body("a1"),
        )
        .await
        .refused(400, "invalid_operation");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_batch_that_is_sent_twice_acts_once() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    for number in 0..3 {
        client.task(&number.to_string()).await;
    }
    let claim = json!({ "operation": "CLAIM", "agentId": "a1" });
    let named = json!({ "operation": "CLAIM", "agentId": "a1", "requestId": "own" });
    let batch = json!({ "operations": [claim, named] });
    let key = [("idempotency-key", "batch")];
    let first = client
        .with("POST", "/api/v1/batch", &key, batch.clone())
        .await
        .expect(200);
    let again = client
        .with("POST", "/api/v1/batch", &key, batch)
        .await
        .expect(200);
    assert_eq!(first, again);
    // The part with a key of its own is known wherever it comes again.
    let moved =
        json!({ "operations": [{ "operation": "CLAIM", "agentId": "a1", "requestId": "own" }] });
    let moved = client.post("/api/v1/batch", moved).await.expect(200);
    assert_eq!(moved["results"][0], first["results"][1]);
    let status = client.get("/api/v1/status").await.expect(200);
    assert_eq!(status["tasks"]["claimed"], 2);
    assert_eq!(status["idempotency"]["rows"], 2);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_secret_is_shown_again_for_the_same_key_and_is_never_kept() {
    let hub = start().await;
    let client = hub.client;
    let key = [("idempotency-key", "k")];
    for (path, body) in [
        ("/api/v1/agents/a1/keys", json!({})),
        (
            "/api/v1/tokens",
            json!({ "name": "me", "scope": "steward" }),
        ),
    ] {
        let first = client.with("POST", path, &key, body.clone()).await;
        let again = client.with("POST", path, &key, body).await;
        assert_eq!(first.expect(201), again.expect(201));
        assert_eq!(again.header("idempotent-replay"), Some("true"));
    }
    let listed = client.get("/api/v1/tokens").await.expect(200);
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 1);
    assert_eq!(listed["tokens"][0].get("secret"), None);
    hub.running.shutdown().await;
}

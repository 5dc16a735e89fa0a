//! Rate limits: by agent and class, on every way in, not for people.

use serde_json::json;

use crate::harness::{start, start_as};

#[tokio::test]
async fn an_agent_is_limited_by_class_wherever_it_calls() {
    let hub = start_as(|config| {
        config.limits.enabled = true;
        config.limits.claim_per_minute = 3;
        config.limits.heartbeat_per_minute = 2;
    })
    .await;
    let client = hub.client;
    client.register("a1", &[]).await;
    client.register("a2", &[]).await;
    let claim = json!({ "agentId": "a1" });
    let named = json!({ "operation": "CLAIM", "agentId": "a1" });
    client
        .post("/api/v1/tasks/claim", claim.clone())
        .await
        .expect(200);
    client
        .post("/api/v1/protocol", named.clone())
        .await
        .expect(200);
    let batch = client
        .post("/api/v1/batch", json!({ "operations": [named, named] }))
        .await
        .expect(200);
    assert_eq!(batch["results"][0]["status"], 200);
    assert_eq!(batch["results"][1]["status"], 429);
    let refused = client.post("/api/v1/tasks/claim", claim).await;
    refused.refused(429, "rate_limited");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&wait), "{wait}");
    // Another class and another agent have allowances of their own.
    client
        .post("/api/v1/agents/a1/heartbeat", json!({ "status": "idle" }))
        .await
        .expect(200);
    client
        .post("/api/v1/tasks/claim", json!({ "agentId": "a2" }))
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn people_are_not_limited() {
    let hub = start_as(|config| {
        config.limits.enabled = true;
        config.limits.other_per_minute = 1;
        config.limits.register_per_minute = 1;
    })
    .await;
    for number in 0..20 {
        hub.client.task("T").await;
        hub.client.get("/api/v1/tasks").await.expect(200);
        // From loopback, where all agents share one address.
        hub.client.register(&format!("a{number}"), &[]).await;
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_switch_turns_all_limits_off() {
    let hub = start().await;
    hub.client.register("a1", &[]).await;
    for _ in 0..100 {
        hub.client
            .post("/api/v1/agents/a1/heartbeat", json!({ "status": "idle" }))
            .await
            .expect(200);
    }
    hub.running.shutdown().await;
}

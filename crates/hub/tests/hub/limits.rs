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
async fn what_an_agent_publishes_has_an_allowance_of_its_own() {
    let hub = start_as(|config| {
        config.limits.enabled = true;
        config.limits.publish_per_minute = 2;
        config.limits.other_per_minute = 2;
    })
    .await;
    let client = hub.client;
    client.register("a1", &[]).await;
    client.register("a2", &[]).await;
    let publish = async |from: &str| {
        let body = json!({
            "kind": "message", "sourceAgentId": from, "payload": { "toAgents": ["a1"], "body": "b" },
        });
        client.post("/runtime/v1/events", body).await
    };
    for _ in 0..2 {
        publish("a1").await.expect(201);
    }
    let refused = publish("a1").await;
    let told = refused.refused(429, "rate_limited");
    let why = told["message"].as_str().unwrap();
    assert!(why.contains("limits.publish_per_minute"), "{why}");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    let outbox = client.get("/runtime/v1/outbox").await.expect(200);
    let events = outbox["events"].as_array().unwrap().iter();
    let messages = events.filter(|event| event["kind"] == "message");
    assert_eq!(messages.count(), 2, "nothing more was published");
    publish("a2").await.expect(201);
    for _ in 0..2 {
        let said = json!({ "agentId": "a1", "message": { "to": "a2", "type": "custom" } });
        client.post("/api/v1/messages", said).await.expect(200);
    }
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

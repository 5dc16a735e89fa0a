//! The ten operations, on their own paths, in envelopes and in batches.

use serde_json::{Value, json};

use crate::harness::{SOON, registration, result, start};

#[tokio::test]
async fn a_task_goes_from_creation_to_completion() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &["rust"]).await;
    let id = client.task("Write it").await;

    let claimed = client.claim("a1").await;
    assert_eq!(claimed["success"], true);
    assert_eq!(claimed["task"]["id"], id);
    assert_eq!(claimed["task"]["status"], "claimed");
    assert_eq!(claimed["task"]["epoch"], 1);

    let progress = json!({ "agentId": "a1", "epoch": 1, "progress": {
        "phase": "testing", "percentComplete": 40, "description": "on it" } });
    let answer = client
        .post(&format!("/api/v1/tasks/{id}/progress"), progress)
        .await
        .expect(200);
    assert_eq!(answer, json!({ "success": true, "continue": true }));

    let body = json!({ "agentId": "a1", "taskId": id, "epoch": 1, "result": result("done") });
    let answer = client
        .post(&format!("/api/v1/tasks/{id}/complete"), body)
        .await
        .expect(200);
    assert_eq!(
        answer,
        json!({ "success": true, "qualityGatePassed": true, "nextAction": "proceed", "status": "completed" })
    );

    let shown = client.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(shown["task"]["status"], "completed");
    assert_eq!(shown["attempts"][0]["outcome"], "completed");
    let none = client.claim("a1").await;
    assert_eq!(
        none,
        json!({ "success": false, "reason": "no_matching_tasks" })
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_failure_is_answered_with_its_retry() {
    let hub = start().await;
    hub.client.register("a1", &[]).await;
    let id = hub.client.task("Break it").await;
    hub.client.claim("a1").await;
    let body = json!({ "agentId": "a1", "failure": { "type": "task_error", "message": "no", "recoverable": true } });
    let answer = hub
        .client
        .post(&format!("/api/v1/tasks/{id}/fail"), body)
        .await
        .expect(200);
    assert_eq!(
        answer,
        json!({ "success": true, "willRetry": true, "retryAfter": 60000, "status": "pending_retry" })
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_waiting_claim_is_woken_by_a_new_task() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    for path in ["/api/v1/tasks/claim?wait=60", "/api/v1/tasks/claim"] {
        let waiting = tokio::spawn(async move {
            client
                .post(path, json!({ "agentId": "a1", "wait": 60 }))
                .await
                .expect(200)
        });
        let id = client.task("Later").await;
        let claimed = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
        assert_eq!(claimed["task"]["id"], id);
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn messages_are_sent_received_once_and_acknowledged() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    client.register("a2", &[]).await;
    let body = json!({ "agentId": "a1", "message": {
        "to": "a2", "type": "info.discovery", "payload": { "x": [1, 2.50] }, "ackRequired": true } });
    let sent = client.post("/api/v1/messages", body).await.expect(200);
    assert_eq!(sent["recipients"], 1);
    let id = sent["messageId"].as_str().unwrap().to_owned();

    let got = client
        .get("/api/v1/messages?agentId=a2&wait=5")
        .await
        .expect(200);
    assert_eq!(got["messages"][0]["id"], id);
    assert_eq!(got["messages"][0]["payload"], json!({ "x": [1, 2.50] }));
    let again = client.get("/api/v1/messages?agentId=a2").await.expect(200);
    assert_eq!(again["messages"], json!([]));
    let since = client
        .get("/api/v1/messages?agentId=a2&since=2020-01-01T00:00:00Z")
        .await
        .expect(200);
    assert_eq!(since["messages"][0]["id"], id);

    let acked = client
        .post(
            &format!("/api/v1/messages/{id}/ack"),
            json!({ "agentId": "a2" }),
        )
        .await
        .expect(200);
    assert!(acked["acknowledgedAt"].is_string());
    let shown = client
        .get(&format!("/api/v1/messages/{id}"))
        .await
        .expect(200);
    assert_eq!(shown["deliveries"][0]["state"], "acknowledged");
    let all = client
        .get("/api/v1/messages?all=true&from=a1")
        .await
        .expect(200);
    assert_eq!(all["messages"].as_array().unwrap().len(), 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_person_sends_without_registering() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    for (id, mut body) in [("m1", json!({ "agentId": "steward" })), ("m2", json!({}))] {
        body["message"] = json!({ "id": id, "type": "custom", "payload": { "text": "hello" } });
        let sent = client.post("/api/v1/messages", body).await.expect(200);
        assert_eq!(sent["recipients"], 1);
        let shown = client.get(&format!("/api/v1/messages/{id}")).await;
        assert_eq!(shown.expect(200)["message"]["from"], "steward");
    }
    let all = client
        .get("/api/v1/messages?all=true&from=steward")
        .await
        .expect(200);
    assert_eq!(all["messages"].as_array().unwrap().len(), 2);
    let got = client.get("/api/v1/messages?agentId=a1").await.expect(200);
    assert_eq!(got["messages"][0]["from"], "steward");
    let refused = client
        .post("/api/v1/agents/register", registration("steward", &[]))
        .await
        .refused(400, "invalid_operation");
    assert_eq!(refused["field"], "agent.id");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_reader_of_older_messages_is_woken_by_a_new_one() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    client.register("a2", &[]).await;
    let waiting = tokio::spawn(async move {
        client
            .get("/api/v1/messages?agentId=a2&since=2020-01-01T00:00:00Z&wait=60")
            .await
            .expect(200)
    });
    let body = json!({ "agentId": "a1", "message": { "to": "a2", "type": "custom" } });
    client.post("/api/v1/messages", body).await.expect(200);
    let got = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert_eq!(got["messages"].as_array().unwrap().len(), 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn leases_are_granted_refused_kept_and_given_back() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    client.register("a2", &[]).await;
    let lease = |agent: &str| json!({ "agentId": agent, "taskId": null, "filePath": "./src//a.rs", "durationMs": 60000 });
    let granted = client
        .post("/api/v1/leases/acquire", lease("a1"))
        .await
        .expect(200);
    assert_eq!(granted["lease"]["filePath"], "src/a.rs");
    let token = granted["lease"]["fencingToken"].as_u64().unwrap();
    let held = client
        .post("/api/v1/leases/acquire", lease("a2"))
        .await
        .expect(200);
    assert_eq!(
        (held["success"].as_bool(), held["heldBy"].as_str()),
        (Some(false), Some("a1"))
    );

    let check = client
        .get("/api/v1/leases/check?filePath=src/a.rs&agentId=a2")
        .await
        .expect(200);
    assert_eq!(
        (check["free"].as_bool(), check["heldBy"].as_str()),
        (Some(false), Some("a1"))
    );
    let mine = client
        .get("/api/v1/leases/check?filePath=src/a.rs&agentId=a1")
        .await
        .expect(200);
    assert_eq!(mine["free"], true);
    let extend = json!({ "agentId": "a1", "filePath": "src/a.rs", "durationMs": 1000, "fencingToken": token });
    client
        .post("/api/v1/leases/extend", extend)
        .await
        .expect(200);
    let listed = client.get("/api/v1/leases?under=src").await.expect(200);
    assert_eq!(listed["leases"][0]["agentId"], "a1");

    let release = |agent: &str| json!({ "agentId": agent, "filePath": "src/a.rs" });
    client
        .post("/api/v1/leases/release", release("a2"))
        .await
        .refused(403, "lease_not_yours");
    let released = client
        .post("/api/v1/leases/release", release("a1"))
        .await
        .expect(200);
    assert_eq!(released, json!({ "success": true, "released": true }));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_envelope_takes_any_operation() {
    let hub = start().await;
    let client = hub.client;
    let mut register = registration("a1", &[]);
    register["operation"] = "REGISTER".into();
    client.post("/api/v1/protocol", register).await.expect(200);
    let id = client.task("T").await;
    let claim = json!({ "operation": "CLAIM", "agentId": "a1" });
    let claimed = client.post("/api/v1/protocol", claim).await.expect(200);
    assert_eq!(claimed["task"]["id"], id);
    let unknown = client
        .post("/api/v1/protocol", json!({ "operation": "DANCE" }))
        .await;
    assert_eq!(
        unknown.refused(400, "invalid_operation")["field"],
        "operation"
    );
    client
        .post("/api/v1/protocol", json!({}))
        .await
        .refused(400, "invalid_operation");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_batch_acts_in_order_and_each_part_is_answered_by_itself() {
    let hub = start().await;
    let client = hub.client;
    let mut register = registration("a1", &[]);
    register["operation"] = "REGISTER".into();
    let tasks: Vec<Value> = (0..40)
        .map(|n| json!({ "id": format!("t{n}"), "title": "T" }))
        .collect();
    client
        .post("/api/v1/tasks", json!({ "tasks": tasks }))
        .await
        .expect(201);
    let mut operations = vec![register];
    for number in 0..40 {
        operations.push(json!({ "operation": "CLAIM", "agentId": "a1", "wait": 60 }));
        let done = json!({ "operation": "COMPLETE", "agentId": "a1", "taskId": format!("t{number}"), "result": result("x") });
        operations.push(done);
    }
    operations.push(json!({ "operation": "CLAIM", "agentId": "a1", "wait": 60 }));
    operations.push(json!({ "operation": "HEARTBEAT", "agentId": "nobody", "status": "idle" }));
    operations.push(json!({ "operation": "NOTHING" }));
    operations.push(json!({ "operation": "SEND_MESSAGE", "agentId": "a1", "message": { "to": "a1", "type": "custom" } }));
    operations.push(json!({ "operation": "RECEIVE_MESSAGES", "agentId": "a1", "since": "2020-01-01T00:00:00Z" }));
    let answer = client
        .post("/api/v1/batch", json!({ "operations": operations }))
        .await
        .expect(200);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), operations.len());
    for number in 0..40 {
        let (claimed, done) = (&results[1 + 2 * number], &results[2 + 2 * number]);
        assert_eq!(claimed["body"]["task"]["id"], format!("t{number}"));
        assert_eq!(done["body"]["status"], "completed", "{done}");
    }
    let rest: Vec<u64> = results[81..]
        .iter()
        .map(|result| result["status"].as_u64().unwrap())
        .collect();
    assert_eq!(rest, [200, 404, 400, 200, 200]);
    assert_eq!(results[81]["body"]["success"], false);
    assert_eq!(
        results[85]["body"]["messages"].as_array().unwrap().len(),
        1,
        "a read sees the changes before it"
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_batch_takes_512_operations_and_not_one_more() {
    let hub = start().await;
    for (count, status) in [(0, 200), (511, 200), (512, 200), (513, 400)] {
        let operations =
            vec![json!({ "operation": "HEARTBEAT", "agentId": "x", "status": "idle" }); count];
        let answer = hub
            .client
            .post("/api/v1/batch", json!({ "operations": operations }))
            .await;
        let body = answer.expect(status);
        if status == 200 {
            assert_eq!(body["results"].as_array().unwrap().len(), count);
        } else {
            assert_eq!(body["field"], "operations");
        }
    }
    hub.running.shutdown().await;
}

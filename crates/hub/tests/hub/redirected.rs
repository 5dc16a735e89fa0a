//! A signature in a body covers no path: whoever catches one cannot make it mean something else.

use serde_json::{Value, json};

use crate::harness::{Answer, TestHub, registration, result, start_signed};
use crate::signer::{Signer, bearer, key, steward};

/// A hub where `a1` is registered and holds a task; the steward's token, the agent's key, the task's id.
async fn working() -> (
    TestHub,
    String,
    switchboard_wire::signature::AgentKey,
    String,
) {
    let hub = start_signed().await;
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    let signer = Signer::new("a1", &key);
    let mut register = registration("a1", &[]);
    register["operation"] = "REGISTER".into();
    post(&hub, "/api/v1/agents/register", signer.sealed(register))
        .await
        .expect(200);
    let made = json!({ "title": "T" });
    bearer(hub.client, "POST", "/api/v1/tasks", &token, made)
        .await
        .expect(201);
    let claim = signer.sealed(json!({ "operation": "CLAIM" }));
    let claimed = post(&hub, "/api/v1/tasks/claim", claim).await.expect(200);
    let task = claimed["task"]["id"].as_str().unwrap().to_owned();
    (hub, token, key, task)
}

async fn post(hub: &TestHub, path: &str, body: String) -> Answer {
    hub.client.send("POST", path, &[], body).await
}

#[tokio::test]
async fn a_body_signed_for_an_operation_steers_nothing_else() {
    let (hub, token, key, task) = working().await;
    let signer = Signer::new("a1", &key);
    let beat = json!({ "operation": "HEARTBEAT", "status": "idle" });
    let calls = [
        ("DELETE", "/api/v1/agents/a1".to_owned(), beat.clone()),
        ("POST", format!("/api/v1/tasks/{task}/release"), beat),
        (
            "POST",
            "/api/v1/leases/extend".to_owned(),
            json!({ "operation": "ACQUIRE_LEASE", "taskId": null, "filePath": "a.rs", "durationMs": 1000 }),
        ),
        (
            "POST",
            "/api/v1/tasks".to_owned(),
            json!({ "operation": "CLAIM", "title": "T" }),
        ),
        (
            "POST",
            "/api/v1/messages/m1/ack".to_owned(),
            json!({ "operation": "CLAIM" }),
        ),
    ];
    for (method, path, body) in calls {
        let body = signer.sealed(body);
        hub.client
            .send(method, &path, &[], body)
            .await
            .refused(401, "unauthenticated");
    }
    // Signed as a whole in its body, a batch names no operation; each of its parts does.
    let parts =
        json!({ "operations": [{ "operation": "HEARTBEAT", "agentId": "a1", "status": "idle" }] });
    let answer = post(&hub, "/api/v1/batch", signer.sealed(parts)).await;
    assert_eq!(answer.expect(200)["results"][0]["status"], 401);
    let path = format!("/api/v1/tasks/{task}");
    let shown = bearer(hub.client, "GET", &path, &token, json!({})).await;
    assert_eq!(shown.expect(200)["task"]["assignedAgent"], "a1");
    // The headers cover the path, and so count there.
    signer
        .call(hub.client, "DELETE", "/api/v1/agents/a1", &json!({}))
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_signed_body_says_itself_which_operation_on_which_task_it_asks_for() {
    let (hub, _, key, task) = working().await;
    let signer = Signer::new("a1", &key);
    let failure = json!({ "type": "task_error", "message": "m", "recoverable": true });
    let progress = json!({ "phase": "implementing", "percentComplete": 10, "description": "d" });
    let path = |operation: &str| format!("/api/v1/tasks/{task}/{operation}");
    let both = |operation: &str, own: Value| {
        let mut body = json!({ "operation": operation, "taskId": task, "progress": progress,
            "result": result("r"), "failure": failure });
        for (name, value) in own.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let refused = [
        // Meant for another operation, or for none.
        (path("complete"), both("FAIL", json!({})), "operation"),
        (path("fail"), both("PROGRESS", json!({})), "operation"),
        (
            path("fail"),
            both("FAIL", json!({ "operation": null })),
            "operation",
        ),
        // Meant for another task, or for none.
        (
            path("fail"),
            both("FAIL", json!({ "taskId": "other" })),
            "taskId",
        ),
        (
            path("fail"),
            both("FAIL", json!({ "taskId": null })),
            "taskId",
        ),
        (
            path("progress"),
            both("PROGRESS", json!({ "taskId": null })),
            "taskId",
        ),
        (
            path("complete"),
            both("COMPLETE", json!({ "taskId": null })),
            "taskId",
        ),
        (
            "/api/v1/agents/a2/heartbeat".to_owned(),
            json!({ "operation": "HEARTBEAT", "status": "idle" }),
            "agentId",
        ),
        ("/api/v1/tasks/claim".to_owned(), json!({}), "operation"),
        (
            "/api/v1/leases/release".to_owned(),
            json!({ "operation": "ACQUIRE_LEASE", "taskId": null, "filePath": "a.rs", "durationMs": 1000 }),
            "operation",
        ),
    ];
    for (path, body, field) in refused {
        let told = post(&hub, &path, signer.sealed(body)).await;
        let told = told.refused(400, "invalid_operation");
        assert_eq!(told["field"], field, "{path}: {told}");
    }
    let beat = json!({ "operation": "HEARTBEAT", "status": "busy" });
    for (path, body) in [
        ("/api/v1/agents/a1/heartbeat".to_owned(), beat),
        (path("progress"), both("PROGRESS", json!({}))),
        (path("complete"), both("COMPLETE", json!({}))),
        (
            "/api/v1/protocol".to_owned(),
            json!({ "operation": "CLAIM" }),
        ),
    ] {
        post(&hub, &path, signer.sealed(body)).await.expect(200);
    }
    // Unsigned in its body, a call may leave to the path what that says.
    let beat = json!({ "status": "idle" });
    signer
        .call(hub.client, "POST", "/api/v1/agents/a1/heartbeat", &beat)
        .await
        .expect(200);
    hub.running.shutdown().await;
}

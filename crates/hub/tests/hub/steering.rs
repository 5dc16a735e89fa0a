//! What people do: make, look at, change and steer tasks and agents.

use serde_json::{Value, json};

use crate::harness::{SOON, result, start, start_as};

#[tokio::test]
async fn tasks_that_depend_on_each_other_are_made_together_and_released_in_turn() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let tasks = json!({ "tasks": [
        { "id": "b", "title": "B", "dependencies": ["a"] },
        { "id": "a", "title": "A", "requiredSkills": [], "priority": "high" },
    ]});
    let made = client
        .post("/api/v1/tasks", tasks.clone())
        .await
        .expect(201);
    assert_eq!(made["tasks"][0]["status"], "blocked");
    assert_eq!(made["tasks"][0]["blockers"], json!(["a"]));
    client
        .post("/api/v1/tasks", tasks)
        .await
        .refused(409, "task_already_exists");
    let circle = json!({ "tasks": [{ "id": "x", "title": "X", "dependencies": ["y"] }, { "id": "y", "title": "Y", "dependencies": ["x"] }] });
    client
        .post("/api/v1/tasks", circle)
        .await
        .refused(400, "invalid_operation");
    client.claim("a1").await;
    client
        .post(
            "/api/v1/tasks/a/complete",
            json!({ "agentId": "a1", "result": result("x") }),
        )
        .await
        .expect(200);
    let shown = client.get("/api/v1/tasks/b").await.expect(200);
    assert_eq!(shown["task"]["status"], "ready");
    assert_eq!(
        client.get("/api/v1/tasks/a").await.expect(200)["dependants"],
        json!(["b"])
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let hub = start().await;
    let client = hub.client;
    let tasks: Vec<Value> = (0..25)
        .map(|n| json!({ "title": format!("T{n}"), "priority": if n % 2 == 0 { "low" } else { "critical" } }))
        .collect();
    client
        .post("/api/v1/tasks", json!({ "tasks": tasks }))
        .await
        .expect(201);
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = client
            .get(&format!("/api/v1/tasks?limit=10&order=old{after}"))
            .await
            .expect(200);
        seen.extend(
            page["tasks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|task| task["number"].as_u64().unwrap()),
        );
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (1..=25).collect::<Vec<u64>>());
    let critical = client
        .get("/api/v1/tasks?priority=critical,high")
        .await
        .expect(200);
    assert_eq!(critical["tasks"].as_array().unwrap().len(), 12);
    let newest = client
        .get("/api/v1/tasks?order=new&limit=1")
        .await
        .expect(200);
    assert_eq!(newest["tasks"][0]["title"], "T24");
    let none = client.get("/api/v1/tasks?status=pending").await.expect(200);
    assert_eq!(none["tasks"], json!([]));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_task_is_named_by_id_or_number_and_steered() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &["rust"]).await;
    let id = client.task("T").await;
    assert_eq!(
        client.get("/api/v1/tasks/1").await.expect(200)["task"]["id"],
        id
    );
    assert_eq!(
        client.get("/api/v1/tasks/%231").await.expect(200)["task"]["id"],
        id
    );
    let patched = client
        .with(
            "PATCH",
            "/api/v1/tasks/1",
            &[],
            json!({ "title": "U", "requiredSkills": ["rust"] }),
        )
        .await
        .expect(200);
    assert_eq!(patched["task"]["title"], "U");
    client.claim("a1").await;
    let released = client
        .post("/api/v1/tasks/1/release", json!({}))
        .await
        .expect(200);
    assert_eq!(released["task"]["status"], "ready");
    assert_eq!(released["task"]["retryCount"], 0);
    let canceled = client
        .send("POST", "/api/v1/tasks/1/cancel", &[], "")
        .await
        .expect(200);
    assert_eq!(canceled["task"]["status"], "canceled");
    client
        .post("/api/v1/tasks/1/cancel", json!({}))
        .await
        .refused(400, "invalid_operation");
    let retried = client
        .post("/api/v1/tasks/1/retry", json!({ "reason": "again" }))
        .await
        .expect(200);
    assert_eq!(retried["task"]["status"], "ready");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_the_gate_holds_back_a_person_approves_or_rejects() {
    let hub = start_as(|config| config.quality.type_errors_max = Some(0)).await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let figures = json!({ "buildSuccess": true, "typeErrors": 0, "lintErrors": 0, "testsPassing": 5, "testsFailing": 0 });
    let set = client
        .with("PUT", "/api/v1/quality/baseline", &[], figures)
        .await
        .expect(200);
    assert_eq!(set["baseline"]["testsPassing"], 5);
    let metrics = json!({ "testsRan": 5, "testsPassed": 5, "lintErrors": 0, "typeErrors": 2, "buildSuccess": true });
    for (ruling, status) in [("approve", "completed"), ("reject", "ready")] {
        let id = client.task("T").await;
        client.claim("a1").await;
        let body = json!({ "agentId": "a1", "result": result("x"), "qualityMetrics": metrics });
        let held = client
            .post(&format!("/api/v1/tasks/{id}/complete"), body)
            .await
            .expect(200);
        assert_eq!(held["success"], true);
        assert_eq!(held["qualityGatePassed"], false);
        assert_eq!(held["status"], "needs_review");
        assert_eq!(held["regressions"][0]["metric"], "typeErrors");
        let ruled = client
            .post(&format!("/api/v1/tasks/{id}/{ruling}"), json!({}))
            .await
            .expect(200);
        assert_eq!(ruled["task"]["status"], status);
    }
    let history = client
        .get("/api/v1/quality/history?limit=1")
        .await
        .expect(200);
    assert_eq!(history["snapshots"].as_array().unwrap().len(), 1);
    assert!(history["next"].is_string());
    hub.running.shutdown().await;
}

#[tokio::test]
async fn agents_are_shown_commanded_and_removed() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &["rust"]).await;
    let id = client.task("T").await;
    client.claim("a1").await;
    let made = client
        .post("/api/v1/agents/a1/commands", json!({ "type": "PING" }))
        .await
        .expect(201);
    assert_eq!(made["command"]["type"], "PING");
    let beat = client
        .post("/api/v1/agents/a1/heartbeat", json!({ "status": "busy" }))
        .await
        .expect(200);
    assert_eq!(beat["commands"][0]["type"], "PING");
    let shown = client.get("/api/v1/agents/a1").await.expect(200);
    assert_eq!(shown["tasks"][0]["id"], id);
    assert_eq!(shown["agent"]["heartbeatCount"], 1);
    let listed = client
        .get("/api/v1/agents?status=busy,idle")
        .await
        .expect(200);
    assert_eq!(listed["agents"].as_array().unwrap().len(), 1);
    let why = client
        .get(&format!("/api/v1/tasks/{id}/why?agentId=a1"))
        .await
        .expect(200);
    assert_eq!(why["claimable"], false);
    assert_eq!(why["reasons"][0]["reason"], "held_by");
    assert_eq!(
        client.delete("/api/v1/agents/a1").await.expect(200),
        json!({ "success": true })
    );
    assert_eq!(
        client.get(&format!("/api/v1/tasks/{id}")).await.expect(200)["task"]["status"],
        "ready"
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn learnings_are_found_by_their_words() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let id = client.task("T").await;
    client.claim("a1").await;
    let mut outcome = result("x");
    outcome["learnings"] = json!(["the parser needs a larger buffer"]);
    let body = json!({ "agentId": "a1", "result": outcome });
    client
        .post(&format!("/api/v1/tasks/{id}/complete"), body)
        .await
        .expect(200);
    let found = client
        .get("/api/v1/memory/search?q=larger%20buffer")
        .await
        .expect(200);
    assert_eq!(found["learnings"][0]["taskId"], id);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_hub_describes_itself() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    client.task("T").await;
    let status = client.get("/api/v1/status").await.expect(200);
    assert_eq!(status["tasks"]["ready"], 1);
    assert_eq!(status["tasks"]["total"], 1);
    assert_eq!(status["agents"]["idle"], 1);
    assert_eq!(status["store"], "memory");
    assert_eq!(status["idempotency"]["windowHours"], 24);
    assert!(status["queue"]["capacity"].as_u64().unwrap() > 0);
    assert_eq!(client.get("/healthz").await.text, "ok\n");
    assert_eq!(client.get("/readyz").await.text, "ready\n");
    let openapi = client.get("/openapi.json").await.expect(200);
    assert_eq!(openapi["openapi"], "3.1.0");
    let url = format!("http://{}", client.addr);
    assert_eq!(openapi["servers"][0]["url"], url, "the hub that answers");
    assert!(openapi["security"].as_array().unwrap().contains(&json!({})));
    let metrics = client.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    for line in [
        "switchboard_requests_total{operation=\"register\",status=\"2xx\"} 1",
        "switchboard_tasks{status=\"ready\"} 1",
        "switchboard_agents{status=\"idle\"} 1",
    ] {
        assert!(
            metrics.text.lines().any(|found| found == line),
            "{line} in\n{}",
            metrics.text
        );
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_agent_that_only_reads_again_is_not_silent() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let seen_at = async || {
        let shown = client.get("/api/v1/agents/a1").await.expect(200);
        shown["agent"]["lastHeartbeat"].as_str().unwrap().to_owned()
    };
    let registered_at = seen_at().await;
    let read = async || {
        while seen_at().await <= registered_at {
            client
                .get("/api/v1/messages?agentId=a1&since=2020-01-01")
                .await
                .expect(200);
        }
    };
    tokio::time::timeout(SOON, read())
        .await
        .expect("a read counts as a sign of life");
    for unknown in ["a9", "steward"] {
        client
            .get(&format!(
                "/api/v1/messages?agentId={unknown}&since=2020-01-01"
            ))
            .await
            .refused(404, "agent_not_registered");
    }
    hub.running.shutdown().await;
}

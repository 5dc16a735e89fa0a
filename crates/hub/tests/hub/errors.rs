//! One shape of errors, whatever goes wrong.

use serde_json::json;
use switchboard_wire::jetpack::ROUTES;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{SOON, registration, start};

#[tokio::test]
async fn every_route_of_the_document_is_served_and_other_methods_are_not() {
    let hub = start().await;
    for route in ROUTES {
        let path = route.path.replace("{id}", "x");
        let method = route.method.as_str();
        let answer = hub.client.send(method, &path, &[], "{}").await;
        let body = &answer.text;
        assert!(
            !body.contains("nothing at this path"),
            "{method} {path}: {body}"
        );
        assert_ne!(answer.status, 405, "{method} {path}: {body}");
        hub.client
            .send("OPTIONS", &path, &[], "")
            .await
            .refused(405, "method_not_allowed");
    }
    hub.client
        .get("/api/v1/nothing")
        .await
        .refused(404, "not_found");
    hub.client.get("/").await.refused(404, "not_found");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_field_to_blame_is_named() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let mut wrong_type = registration("a2", &[]);
    wrong_type["agent"]["type"] = "robot".into();
    let mut wrong_skills = registration("a2", &[]);
    wrong_skills["agent"]["capabilities"]["skills"] = json!(["a", 1]);
    let cases = [
        ("/api/v1/agents/register", wrong_type, "agent.type"),
        (
            "/api/v1/agents/register",
            wrong_skills,
            "agent.capabilities.skills[1]",
        ),
        ("/api/v1/tasks/claim", json!({}), "agentId"),
        (
            "/api/v1/tasks/claim",
            json!({ "agentId": "a1", "wait": 61 }),
            "wait",
        ),
        (
            "/api/v1/tasks/claim",
            json!({ "agentId": "a1", "operation": "FAIL" }),
            "operation",
        ),
        (
            "/api/v1/agents/a1/heartbeat",
            json!({ "agentId": "a2", "status": "idle" }),
            "agentId",
        ),
        (
            "/api/v1/agents/a1/heartbeat",
            json!({ "status": "asleep" }),
            "status",
        ),
        (
            "/api/v1/leases/acquire",
            json!({ "agentId": "a1", "taskId": null, "filePath": "../x", "durationMs": 1 }),
            "filePath",
        ),
        ("/api/v1/tasks", json!({ "title": "" }), "title"),
        (
            "/api/v1/tasks/claim",
            json!({ "agentId": "a1", "protocolVersion": "2.0" }),
            "protocolVersion",
        ),
    ];
    for (path, body, field) in cases {
        let refused = client
            .post(path, body.clone())
            .await
            .refused(400, "invalid_operation");
        assert_eq!(refused["field"], field, "{body}: {refused}");
    }
    let version = json!({ "agentId": "a1", "protocolVersion": "2.0" });
    let refused = client
        .post("/api/v1/tasks/claim", version)
        .await
        .refused(400, "invalid_operation");
    assert_eq!(refused["supported"], json!(["1.0"]));
    let queries = [
        ("/api/v1/tasks?limit=0", "limit"),
        ("/api/v1/tasks?limit=1001", "limit"),
        ("/api/v1/tasks?status=odd", "status"),
        ("/api/v1/tasks?after=%20", "after"),
        ("/api/v1/events?after=x", "after"),
        ("/api/v1/messages", "agentId"),
        ("/api/v1/memory/search", "q"),
        ("/api/v1/memory/search?q=a%00b", "q"),
        ("/api/v1/leases/check", "filePath"),
        ("/api/v1/tasks?status=", "status"),
        ("/api/v1/tasks?status=ready,", "status"),
        ("/api/v1/messages?agentId=a1&all=1", "all"),
        ("/api/v1/messages?agentId=a1&since=yesterday", "since"),
        (
            "/api/v1/messages?agentId=a1&since=tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "since",
        ),
        ("/api/v1/status?protocolVersion=2.0", "protocolVersion"),
    ];
    for (path, field) in queries {
        let refused = client.get(path).await.refused(400, "invalid_operation");
        assert_eq!(refused["field"], field, "{path}: {refused}");
    }
    for path in ["/api/v1/tasks", "/api/v1/tasks?protocolVersion=1.0"] {
        let foreign = [("switchboard-protocol-version", "2.0")];
        let answer = client.send("GET", path, &foreign, "").await;
        let refused = answer.refused(400, "invalid_operation");
        assert_eq!(refused["supported"], json!(["1.0"]), "{path}");
    }
    let ours = [("switchboard-protocol-version", "1.0")];
    let answer = client.send("GET", "/api/v1/tasks", &ours, "").await;
    answer.expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn messages_are_read_since_a_time_or_a_message_and_nothing_else() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let message = json!({ "message": { "id": "m1", "type": "custom", "to": "a1" } });
    client.post("/api/v1/messages", message).await.expect(200);
    for (since, count) in [
        ("2026-01-19T10:00:00.000Z", 1),
        ("m1", 0),
        // One that is no longer kept lies before those that are.
        ("msg_01ARZ3NDEKTSV4RRFFQ69G5FAV", 1),
    ] {
        let path = format!("/api/v1/messages?agentId=a1&since={since}");
        let page = client.get(&path).await.expect(200);
        assert_eq!(page["messages"].as_array().unwrap().len(), count, "{since}");
    }
    let body = json!({ "operation": "RECEIVE_MESSAGES", "agentId": "a1", "since": "m2" });
    let refused = client.post("/api/v1/protocol", body).await;
    let refused = refused.refused(400, "invalid_operation");
    assert_eq!(refused["field"], "since", "{refused}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_change_of_a_task_requires_a_body() {
    let hub = start().await;
    let path = format!("/api/v1/tasks/{}", hub.client.task("T").await);
    let changed = |body: &'static str| hub.client.send("PATCH", &path, &[], body);
    changed("").await.refused(400, "invalid_operation");
    changed("{}").await.expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_is_not_there_is_said_so() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    client
        .get("/api/v1/tasks/t1")
        .await
        .refused(404, "task_not_found");
    client
        .get("/api/v1/agents/a9")
        .await
        .refused(404, "agent_not_registered");
    client
        .get("/api/v1/messages/m1")
        .await
        .refused(404, "message_not_found");
    client
        .get("/api/v1/messages?agentId=a9")
        .await
        .refused(404, "agent_not_registered");
    client
        .get("/api/v1/messages?agentId=a9&since=2020-01-01")
        .await
        .refused(404, "agent_not_registered");
    client
        .get("/api/v1/tasks/t1/why")
        .await
        .refused(404, "task_not_found");
    client
        .delete("/api/v1/tokens/tok_1")
        .await
        .refused(404, "not_found");
    client
        .post("/api/v1/agents/a9/heartbeat", json!({ "status": "idle" }))
        .await
        .refused(404, "agent_not_registered");
    let body = json!({ "agentId": "a1", "message": { "to": "a9", "type": "custom" } });
    client
        .post("/api/v1/messages", body)
        .await
        .refused(404, "recipient_not_found");
    client
        .post("/api/v1/agents/register", registration("a1", &[]))
        .await
        .refused(409, "agent_already_registered");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_missing_version_is_accepted_with_a_warning() {
    let hub = start().await;
    let body = registration("a1", &[]).to_string();
    let answer = hub
        .client
        .send("POST", "/api/v1/agents/register", &[], body.clone())
        .await;
    answer.expect(200);
    assert!(answer.header("warning").unwrap().starts_with("299 "));
    let said = [("switchboard-protocol-version", "1.0")];
    let answer = hub
        .client
        .send("POST", "/api/v1/tasks/claim", &said, r#"{"agentId":"a1"}"#)
        .await;
    answer.expect(200);
    assert_eq!(answer.header("warning"), None);
    let other = [("switchboard-protocol-version", "9")];
    let answer = hub
        .client
        .send("POST", "/api/v1/tasks/claim", &other, r#"{"agentId":"a1"}"#)
        .await;
    answer.refused(400, "invalid_operation");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn bodies_are_bounded_in_size_and_depth() {
    let hub = start().await;
    let client = hub.client;
    let padded = |bytes: usize| {
        let frame = r#"{"title":"T","x":""}"#;
        format!(
            r#"{{"title":"T","x":"{}"}}"#,
            "a".repeat(bytes - frame.len())
        )
    };
    for (bytes, status) in [
        (1024 * 1024 - 1, 201),
        (1024 * 1024, 201),
        (1024 * 1024 + 1, 413),
    ] {
        let answer = client
            .send("POST", "/api/v1/tasks", &[], padded(bytes))
            .await;
        assert_eq!(answer.status, status, "{bytes}");
    }
    client
        .send("POST", "/api/v1/tasks", &[], padded(2 * 1024 * 1024))
        .await
        .refused(413, "too_large");
    let deep = format!(
        r#"{{"title":"T","x":{}{}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    client
        .send("POST", "/api/v1/tasks", &[], deep)
        .await
        .refused(400, "invalid_operation");
    client
        .send("POST", "/api/v1/tasks", &[], "{")
        .await
        .refused(400, "invalid_operation");
    client
        .send("POST", "/api/v1/tasks", &[], &b"{\"title\":\"\xff\"}"[..])
        .await
        .refused(400, "invalid_operation");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn large_heads_and_strange_hosts_are_refused() {
    let hub = start().await;
    let client = hub.client;
    let large = "a".repeat(40 * 1024);
    client
        .send("GET", "/api/v1/status", &[("x-large", &large)], "")
        .await
        .refused(431, "headers_too_large");
    let larger = "a".repeat(200 * 1024);
    let answer = client
        .send("GET", "/api/v1/status", &[("x-large", &larger)], "")
        .await;
    assert_eq!(answer.status, 431);
    for headers in [
        [("host", "evil.example"), ("accept", "*/*")],
        [("host", "localhost"), ("origin", "https://evil.example")],
        [("host", "localhost"), ("origin", "null")],
    ] {
        client
            .send("GET", "/api/v1/status", &headers, "")
            .await
            .refused(421, "wrong_host");
        client
            .send("GET", "/nothing", &headers, "")
            .await
            .refused(421, "wrong_host");
    }
    client
        .send(
            "GET",
            "/api/v1/status",
            &[
                ("host", "localhost:7373"),
                ("origin", "http://localhost:7373"),
            ],
            "",
        )
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn garbage_on_the_socket_does_no_harm() {
    let hub = start().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"HELLO\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost b\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(hub.client.addr).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut said = Vec::new();
        let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut said))
            .await
            .unwrap();
    }
    hub.client.get("/healthz").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_page_from_elsewhere_takes_nobodys_messages() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    client.register("a2", &[]).await;
    let body = json!({ "agentId": "a1", "message": { "to": "a2", "type": "custom" } });
    client.post("/api/v1/messages", body).await.expect(200);
    let take = "/api/v1/messages?agentId=a2";
    let ours = format!("http://{}/", hub.running.addr);
    let framed = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    let linked = [("referer", "https://evil.example/")];
    let neighbour = [("referer", "http://localhost:3000/")];
    for headers in [&framed[..], &linked, &neighbour] {
        let answer = client.send("GET", take, headers, "").await;
        answer.refused(421, "wrong_host");
    }
    // What takes nothing away may be linked to.
    for look in [
        "/api/v1/messages?all=true",
        "/api/v1/messages?agentId=a2&since=2020-01-01",
    ] {
        client.send("GET", look, &linked, "").await.expect(200);
    }
    let page = client.send("GET", "/healthz", &framed, "").await;
    assert_eq!(page.status, 200);
    let got = client.send("GET", take, &[("referer", &ours)], "").await;
    assert_eq!(got.expect(200)["messages"].as_array().unwrap().len(), 1);
    hub.running.shutdown().await;
}

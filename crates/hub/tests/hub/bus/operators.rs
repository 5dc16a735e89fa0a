//! What operators see: snapshots, heartbeats and errors as they come, and no secrets.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use super::kit::{ASSIGN, Peer, bus, bus_as, entry, error, figure, hello, make, shown};
use crate::harness::TestHub;
use crate::world::eventually;

const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

#[tokio::test]
async fn an_operator_sees_the_swarm_when_it_comes_when_it_asks_and_when_something_changes() {
    // agentbus.snapshot.to_operators, agentbus.snapshot.queue, agentbus.snapshot.workers, agentbus.hello.operator_too
    let hub = bus().await;
    let client = hub.client;
    client.register("a1", &["rust"]).await;
    let (_, first) = make(client, json!({ "title": "low", "priority": "low" })).await;
    let (held, second) = make(client, json!({ "title": "high", "priority": "high" })).await;
    let (_, third) = make(client, json!({ "title": "mid" })).await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let snapshot = watcher.expect("project_state_snapshot.v1").await;
    assert_eq!(
        (&snapshot["part"], &snapshot["parts"]),
        (&json!(1), &json!(1))
    );
    assert!(snapshot["snapshot_id"].is_string());
    let agent = entry(&snapshot, "a1");
    assert_eq!(
        (&agent["connected"], &agent["doors"]),
        (&json!(false), &json!(["jetpack"]))
    );
    let queue = &snapshot["queue"];
    assert_eq!(
        queue["eligible_issue_numbers"],
        json!([second, third, first]),
        "in claim order"
    );
    assert_eq!(queue["claimed_issue_numbers"], json!([]));
    assert_eq!(
        (&queue["eligible_total"], &queue["claimed_total"]),
        (&json!(3), &json!(0))
    );
    assert!(snapshot.get("release").is_none());
    assert!(snapshot["director"]["run_id"].is_string());

    let seq = watcher
        .send(
            "operator_command.v1",
            json!({ "command": "snapshot", "reason": "look" }),
        )
        .await;
    let ack = watcher.expect("operator_ack.v1").await;
    assert_eq!((&ack["ref_seq"], &ack["ok"]), (&json!(seq), &json!(true)));
    watcher.expect("project_state_snapshot.v1").await;

    // An agent of HTTP takes one, and is shown with what it does in the words of the bus.
    client.claim("a1").await;
    let body = json!({ "agentId": "a1", "progress": {
        "phase": "testing", "percentComplete": 70, "description": "nearly" } });
    client
        .post(&format!("/api/v1/tasks/{held}/progress"), body)
        .await
        .expect(200);
    let snapshot = watcher
        .snapshot(|snapshot| entry(snapshot, "a1")["stage"] == "VALIDATE")
        .await;
    let agent = entry(&snapshot, "a1");
    assert_eq!(
        (&agent["issue_number"], &agent["attempt"]),
        (&json!(second), &json!(1))
    );
    assert!(agent["last_heartbeat_age_seconds"].is_number());
    let queue = &snapshot["queue"];
    assert_eq!(queue["eligible_issue_numbers"], json!([third, first]));
    assert_eq!(queue["claimed_issue_numbers"], json!([second]));
    assert_eq!(
        (&queue["eligible_total"], &queue["claimed_total"]),
        (&json!(2), &json!(1))
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn heartbeats_progress_and_errors_are_passed_on_to_operators_and_to_no_worker() {
    // agentbus.overview.operator_broadcast, agentbus.snapshot.to_operators, agentbus.heartbeat.last_update_at
    let hub = bus().await;
    let mut watchers = [
        Peer::operator(&hub, "o1").await,
        Peer::operator(&hub, "o2").await,
    ];
    let mut bystander = Peer::worker(&hub, "w0", ASSIGN).await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    worker.beat_at("CODE", 21, ("writing", 12.5)).await;
    let progress = json!({
        "issue_number": 21, "attempt": 1, "stage": "CODE", "progress": { "step": "s", "percent": 13 },
        "of_tomorrow": true,
    });
    worker.send("task_progress.v1", progress.clone()).await;
    worker
        .send("worker_error.v1", error("e-1", 21, (true, true, false)))
        .await;
    for watcher in &mut watchers {
        let beat = watcher.expect_frame("heartbeat.v1").await;
        assert_eq!(beat["sender"], json!({ "role": "worker", "id": "w1" }));
        assert_eq!(
            beat["payload"]["state"]["progress"],
            json!({ "step": "writing", "percent": 12.5 })
        );
        assert_eq!(
            watcher.expect("task_progress.v1").await,
            progress,
            "also what nobody here knows"
        );
        let failed = watcher.expect("worker_error.v1").await;
        assert_eq!(failed["error"]["error_id"], "e-1");
    }
    for worker in [&mut bystander, &mut worker] {
        worker.fence().await;
        assert!(worker.passed.is_empty(), "{:?}", worker.passed);
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn heartbeats_that_come_together_are_joined_into_the_last_one() {
    let hub = bus().await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let mut burst = String::new();
    for percent in 0..200 {
        let state = json!({
            "stage": "CODE", "issue_number": 0, "attempt": 1, "last_update_at": super::kit::SENT_AT,
            "progress": { "step": "s", "percent": percent },
        });
        let frame = worker.frame("heartbeat.v1", &json!({ "state": state }));
        burst.push_str(&format!("{frame}\n"));
        if percent == 100 {
            break;
        }
    }
    worker.raw(burst.as_bytes()).await;
    let mut beats = 0;
    loop {
        beats += 1;
        let beat = watcher.expect("heartbeat.v1").await;
        if beat["state"]["progress"]["percent"] == 100 {
            break;
        }
    }
    assert!(beats < 50, "{beats} of 101");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_looks_like_a_secret_reaches_no_operator_and_is_not_kept() {
    // agentbus.security.no_secrets
    let hub = bus().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", &["assign.v1", "message.v1"]).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let step = format!("cloning with {SECRET}");
    worker.beat_at("CODE", number, (&step, 10.0)).await;
    let progress = json!({
        "issue_number": number, "attempt": 1, "stage": "VALIDATE", "note": step,
        "progress": { "step": step, "percent": 20 },
    });
    worker.send("task_progress.v1", progress).await;
    let mail = json!({
        "message_id": "m1", "from": "w1", "to": "a1", "type": "custom", "body": { "text": step },
        "ack_required": false,
    });
    worker.send("agent_message.v1", mail).await;
    let mut report = error("e-1", number, (false, false, true));
    report["error"]["message"] = json!(format!("refused: {SECRET}"));
    report["error"]["last_stderr_tail"] = json!(format!("Authorization: Bearer {SECRET}"));
    worker.send("worker_error.v1", report).await;
    worker.fence().await;
    let snapshot = watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["stage"] == "CODE")
        .await;
    let mut said = snapshot.to_string();
    for message_type in ["heartbeat.v1", "task_progress.v1", "worker_error.v1"] {
        let passed = watcher.expect(message_type).await.to_string();
        assert!(passed.contains("[redacted]"), "{passed}");
        said += &passed;
    }
    let task = shown(client, &id).await;
    assert_eq!(task["status"], "needs_review");
    said += &task.to_string();
    for path in [
        "/api/v1/messages?all=true",
        "/api/v1/agents/w1",
        "/api/v1/tasks?status=needs_review",
    ] {
        said += &client.get(path).await.text;
    }
    let events = hub
        .running
        .hub
        .read(|reader| reader.events(0, 1000))
        .await
        .unwrap();
    said += &format!("{events:?}");
    assert!(
        said.contains("[redacted]") && !said.contains(SECRET),
        "{said}"
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_other_doors_say_reaches_workers_without_its_secrets() {
    // agentbus.security.no_secrets
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", &["assign.v1", "message.v1"]).await;
    let body =
        json!({ "run": "NPM_TOKEN=abcd1234efgh npm ci", "ref": "$NPM_TOKEN", "key": SECRET });
    let message = json!({ "to": "w1", "type": "custom", "payload": body });
    let message = json!({ "message": message });
    client.post("/api/v1/messages", message).await.expect(200);
    let mail = worker.expect("agent_message.v1").await;
    let clean =
        json!({ "run": "NPM_TOKEN=[redacted] npm ci", "ref": "$NPM_TOKEN", "key": "[redacted]" });
    assert_eq!((&mail["body"], &mail["redacted"]), (&clean, &json!(2)));
    let task = json!({ "title": "T", "description": format!("use {SECRET}"), "files": [format!("a/{SECRET}")] });
    let (id, number) = make(client, task).await;
    let offer = worker.take_on(number).await;
    assert_eq!(offer["description"], "use [redacted]", "{offer}");
    assert_eq!(offer["redacted"], 2, "{offer}");
    assert_eq!(offer["files"], json!(["a/[redacted]"]), "{offer}");
    let path = format!("/api/v1/tasks/{id}/cancel");
    let why = json!({ "reason": format!("it printed {SECRET}") });
    client.post(&path, why).await.expect(200);
    let revoked = worker.expect("task_revoked.v1").await;
    assert!(!revoked.to_string().contains(SECRET), "{revoked}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_identifier_that_holds_a_secret_is_refused_and_its_field_is_named() {
    // agentbus.security.no_secrets
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", &["message.v1"]).await;
    let mail = |change: &dyn Fn(&mut Value)| {
        let mut mail = json!({
            "message_id": "m1", "from": "w1", "to": "a1", "type": "custom", "body": {}, "ack_required": false,
        });
        change(&mut mail);
        mail
    };
    for field in ["message_id", "to", "type", "corr_id"] {
        worker
            .send(
                "agent_message.v1",
                mail(&|mail| mail[field] = json!(SECRET)),
            )
            .await;
        let said = worker.expect("protocol_error.v1").await.to_string();
        assert!(said.contains(field) && !said.contains(SECRET), "{said}");
    }
    let mut newcomer = Peer::open(&hub).await;
    let hello = hello("w2", &[SECRET]);
    newcomer.greet("worker", "w2", hello).await;
    let said = newcomer.expect("protocol_error.v1").await.to_string();
    assert!(said.contains("capabilities[0]"), "{said}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_operators_order_is_kept_without_its_secrets() {
    // agentbus.security.no_secrets
    let hub = bus().await;
    let mut operator = Peer::operator(&hub, "o1").await;
    let pause = json!({ "command": "pause", "reason": format!("Bearer {SECRET} leaked") });
    operator.send("operator_command.v1", pause).await;
    operator.expect("operator_ack.v1").await;
    let shown = hub.client.get("/api/v1/status").await.text;
    assert!(
        shown.contains("[redacted] leaked") && !shown.contains(SECRET),
        "{shown}"
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_snapshot_that_fits_no_line_comes_in_parts() {
    // agentbus.config.max_message_bytes
    const BYTES: usize = 2048;
    let hub = bus_as(|config| config.bus.max_message_bytes = BYTES).await;
    let client = hub.client;
    let tasks: Vec<Value> = (0..600)
        .map(|n| json!({ "title": format!("T{n}") }))
        .collect();
    client
        .post("/api/v1/tasks", json!({ "tasks": tasks }))
        .await
        .expect(201);
    for n in 0..30 {
        client.register(&format!("a{n}"), &[]).await;
    }
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut parts: Vec<Value> = Vec::new();
    loop {
        let part = watcher.expect("project_state_snapshot.v1").await;
        assert!(watcher.line_bytes <= BYTES, "{}", watcher.line_bytes);
        let is_last = part["part"] == part["parts"];
        parts.push(part);
        if is_last {
            break;
        }
    }
    assert!(parts.len() > 3, "{}", parts.len());
    let (mut workers, mut numbers) = (BTreeSet::new(), Vec::new());
    for (place, part) in parts.iter().enumerate() {
        assert_eq!(part["part"], place + 1);
        assert_eq!(part["parts"], parts.len());
        assert_eq!(part["snapshot_id"], parts[0]["snapshot_id"]);
        for worker in part["workers"].as_array().unwrap() {
            workers.insert(worker["worker_id"].as_str().unwrap().to_owned());
        }
        let eligible = part["queue"]["eligible_issue_numbers"].as_array().unwrap();
        numbers.extend(eligible.iter().map(|number| number.as_u64().unwrap()));
    }
    assert_eq!(workers.len(), 30);
    assert_eq!(numbers, (1..=600).collect::<Vec<u64>>());
    hub.running.shutdown().await;
}

/// An operator whose system takes in next to nothing, and that never reads.
async fn deaf(hub: &TestHub, id: &str) -> Peer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let addr = hub.running.bus_addr().unwrap();
    let mut peer = Peer::on(socket.connect(addr).await.unwrap());
    let hello = json!({ "protocol_version": "0.1", "capabilities": [] });
    peer.greet("operator", id, hello).await;
    peer
}

#[tokio::test]
async fn an_operator_that_stops_reading_is_dropped_and_holds_nobody_up() {
    let hub = bus().await;
    let _deaf = deaf(&hub, "deaf").await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let operators = async || figure(hub.client, "bus_operators").await;
    eventually(async || operators().await == 2).await;
    // Errors are passed on one by one, and these are large.
    let noise = "x".repeat(60_000);
    let mut sent = 0_u64;
    while operators().await == 2 {
        assert!(sent < 2_000, "nobody was dropped");
        for _ in 0..20 {
            sent += 1;
            let mut report = error(&format!("e-{sent}"), 0, (true, true, false));
            report["error"]["last_stdout_tail"] = json!(noise);
            worker.send("worker_error.v1", report).await;
            // Each of them reaches the one who reads.
            let passed = watcher.expect("worker_error.v1").await;
            assert_eq!(passed["error"]["error_id"], format!("e-{sent}"));
        }
    }
    worker.beat("CODE", 0).await;
    watcher.expect("heartbeat.v1").await;
    assert_eq!(figure(hub.client, "bus_slow").await, 1);
    hub.running.shutdown().await;
}

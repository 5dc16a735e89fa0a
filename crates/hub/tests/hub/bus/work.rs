//! Tasks on the bus: assigned, accepted, declined, done, and those that are none of a worker's business.

use std::time::Duration;

use serde_json::{Value, json};

use super::kit::{ASSIGN, Peer, bus, bus_as, entry, hello, make, shown, until};
use crate::harness::registration;

#[tokio::test]
async fn a_task_made_over_http_is_done_by_the_idle_worker_that_has_the_skill() {
    // agentbus.heartbeat.progress, agentbus.types.task_progress_optional, agentbus.heartbeat.issue_attempt
    let hub = bus().await;
    let client = hub.client;
    let mut other = Peer::worker(&hub, "w1", &["assign.v1", "python"]).await;
    let mut able = Peer::worker(&hub, "w2", &["assign.v1", "Rust"]).await;
    let task = json!({
        "title": "Mend it", "description": "The whole of it", "requiredSkills": ["rust"],
        "files": ["src/a.rs"], "priority": "high",
    });
    let (id, number) = make(client, task).await;
    let assigned = able.take_on(number).await;
    assert_eq!(assigned["task_id"], *id);
    assert_eq!(
        (&assigned["epoch"], &assigned["attempt"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(assigned["title"], "Mend it");
    assert_eq!(assigned["description"], "The whole of it");
    assert_eq!(assigned["files"], json!(["src/a.rs"]));
    assert!(assigned["deadline"].is_string());
    let taken = shown(client, &id).await;
    assert_eq!(taken["corrId"], assigned["corr_id"]);
    assert_eq!(
        (&taken["status"], &taken["assignedAgent"]),
        (&json!("in_progress"), &json!("w2"))
    );

    able.beat_at("CODE", number, ("writing", 40.4)).await;
    able.fence().await;
    let progress = &shown(client, &id).await["progress"];
    assert_eq!(progress["phase"], "implementing");
    assert_eq!(progress["percentComplete"], 40);
    assert_eq!(progress["description"], "writing");
    let further = json!({
        "issue_number": number, "attempt": 1, "stage": "VALIDATE",
        "progress": { "step": "testing", "percent": 80 }, "note": "three left",
    });
    able.send("task_progress.v1", further).await;
    able.fence().await;
    let progress = &shown(client, &id).await["progress"];
    assert_eq!(
        (&progress["phase"], &progress["description"]),
        (&json!("testing"), &json!("testing: three left"))
    );
    able.beat_at("DONE", number, ("merged", 100.0)).await;
    able.fence().await;
    let done = shown(client, &id).await;
    assert_eq!(done["status"], "completed");
    assert_eq!(done["result"]["summary"], "merged");

    other.fence().await;
    assert_eq!(other.came("task_assigned.v1"), 0);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_result_with_its_figures_passes_the_gate_or_waits_for_a_person() {
    let hub = bus_as(|config| config.quality.type_errors_max = Some(0)).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    for (type_errors, status) in [(0, "completed"), (2, "needs_review")] {
        let (id, number) = make(client, json!({ "title": "T" })).await;
        let assigned = worker.take_on(number).await;
        let result = json!({
            "issue_number": number, "epoch": assigned["epoch"],
            "result": {
                "summary": "it works", "files_created": ["a.rs"], "files_modified": [], "files_deleted": [],
                "learnings": ["cache the lookups"], "response": { "confidence": 0.5 }, "filesCreated": ["other.rs"],
            },
            "quality": {
                "tests_ran": 5, "tests_passed": 5, "lint_errors": 0, "type_errors": type_errors, "build_success": true,
            },
        });
        worker.send("task_result.v1", result).await;
        worker.fence().await;
        let task = shown(client, &id).await;
        assert_eq!(task["status"], status);
        assert_eq!(task["result"]["summary"], "it works");
        assert_eq!(task["result"]["filesCreated"], json!(["a.rs"]));
        assert_eq!(task["result"]["response"], json!({ "confidence": 0.5 }));
        assert!(task["qualitySnapshotId"].is_string());
    }
    assert_eq!(worker.came("task_revoked.v1"), 0, "both were its own doing");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_one_declines_goes_to_another_and_not_back_to_the_same_connection() {
    let hub = bus().await;
    let client = hub.client;
    let mut first = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    let offer = first.expect("task_assigned.v1").await;
    assert_eq!(offer["issue_number"], number);
    first.decline(&offer).await;
    until(client, &id, "ready").await;

    let mut second = Peer::worker(&hub, "w2", ASSIGN).await;
    let offer = second.expect("task_assigned.v1").await;
    assert_eq!(
        (&offer["issue_number"], &offer["epoch"]),
        (&json!(number), &json!(2))
    );
    second.decline(&offer).await;
    let declined = shown(client, &id).await;
    assert_eq!(
        (&declined["status"], &declined["retryCount"]),
        (&json!("ready"), &json!(0))
    );

    // Both are idle and willing; neither is bothered with it again.
    for peer in [&mut first, &mut second] {
        let (_, next) = make(client, json!({ "title": "U", "audience": [&peer.id] })).await;
        peer.take_on(next).await;
        assert_eq!(peer.came("task_assigned.v1"), 0);
    }
    drop(second);
    let mut anew = Peer::worker(&hub, "w3", ASSIGN).await;
    anew.take_on(number).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_offer_that_nobody_answers_is_taken_back() {
    let hub = bus_as(|config| config.bus.accept_within = Duration::from_millis(300)).await;
    let client = hub.client;
    let mut silent = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    silent.expect("task_assigned.v1").await;
    let revoked = silent.expect("task_revoked.v1").await;
    assert_eq!(
        (&revoked["issue_number"], &revoked["epoch"]),
        (&json!(number), &json!(1))
    );
    assert_eq!(shown(client, &id).await["status"], "ready");
    // What it says about it now comes too late.
    let late = json!({ "issue_number": number, "epoch": 1 });
    silent.send("task_accepted.v1", late).await;
    silent.fence().await;
    assert_eq!(shown(client, &id).await["status"], "ready");

    let mut awake = Peer::worker(&hub, "w2", ASSIGN).await;
    let taken = awake.take_on(number).await;
    assert_eq!(taken["epoch"], 2);
    // A heartbeat about it is an answer, too.
    awake.beat("DONE", number).await;
    awake.fence().await;
    let (_, other) = make(client, json!({ "title": "U", "audience": ["w2"] })).await;
    awake.expect("task_assigned.v1").await;
    awake.beat("CODE", other).await;
    awake.fence().await;
    let task = shown(client, &other.to_string()).await;
    assert_eq!(task["status"], "in_progress");
    assert_eq!(task["epoch"], 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_task_that_others_take_away_is_revoked_with_the_reason() {
    let hub = bus().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let mut worker = Peer::worker(&hub, "w1", &["assign.v1", "message.v1"]).await;
    let only = |title: &str| json!({ "title": title, "audience": ["w1", "a1"] });

    let (id, number) = make(client, only("cancel")).await;
    worker.take_on(number).await;
    client
        .post(&format!("/api/v1/tasks/{id}/cancel"), json!({}))
        .await
        .expect(200);
    let revoked = worker.expect("task_revoked.v1").await;
    assert_eq!(revoked["issue_number"], number);
    assert_eq!(revoked["reason"], "canceled");
    // What it says of it from now on changes nothing.
    worker.beat("DONE", number).await;
    worker.fence().await;
    assert_eq!(shown(client, &id).await["status"], "canceled");

    let (id, number) = make(client, only("release")).await;
    worker.take_on(number).await;
    let own = json!({ "agentId": "w1" });
    client
        .post(&format!("/api/v1/tasks/{id}/release"), own)
        .await
        .expect(200);
    assert_eq!(worker.expect("task_revoked.v1").await["epoch"], 1);
    let again = worker.take_on(number).await;
    assert_eq!(again["epoch"], 2);
    let order = json!({ "type": "RELEASE_TASK", "taskId": id, "reason": "stuck" });
    client
        .post("/api/v1/agents/w1/commands", order)
        .await
        .expect(201);
    let revoked = worker.expect("task_revoked.v1").await;
    assert_eq!(revoked["epoch"], 2);
    assert_eq!(revoked["reason"], "taken back; it is ready for any agent");

    // By order: others come first for a while.
    let (id, number) = make(client, only("hand over")).await;
    worker.take_on(number).await;
    assert_eq!(worker.came("task_assigned.v1"), 0);
    let offer = json!({
        "message_id": "m-handoff", "from": "w1", "to": "a1", "type": "task.handoff",
        "body": { "taskId": id }, "ack_required": true,
    });
    worker.send("agent_message.v1", offer).await;
    let kept = worker.expect("agent_message_ack.v1").await;
    assert_eq!(kept["state"], "accepted", "{kept}");
    let ack = json!({ "agentId": "a1" });
    let took = client
        .post("/api/v1/messages/m-handoff/ack", ack)
        .await
        .expect(200);
    assert_eq!(took["epoch"], 2);
    let revoked = worker.expect("task_revoked.v1").await;
    assert_eq!(
        (&revoked["epoch"], &revoked["reason"]),
        (&json!(1), &json!("now held by a1"))
    );
    assert_eq!(shown(client, &id).await["assignedAgent"], "a1");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_without_assign_is_given_nothing_and_foreign_numbers_touch_nothing() {
    // agentbus.snapshot.workers
    let hub = bus().await;
    let client = hub.client;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut silent = Peer::worker(&hub, "w1", &["rust"]).await;
    let (id, number) = make(client, json!({ "title": "T", "requiredSkills": ["rust"] })).await;
    silent.fence().await;
    assert_eq!(shown(client, &id).await["status"], "ready");
    let mut worker = Peer::worker(&hub, "w2", &["assign.v1", "rust"]).await;
    worker.take_on(number).await;

    // A task that another holds, one that nobody has, an issue from elsewhere.
    for stage in ["DONE", "BLOCKED"] {
        silent.beat(stage, number).await;
    }
    let result = json!({ "issue_number": number, "epoch": 1, "result": { "summary": "mine" } });
    silent.send("task_result.v1", result).await;
    silent.beat("CODE", 21).await;
    silent.fence().await;
    let task = shown(client, &id).await;
    assert_eq!(
        (&task["status"], &task["assignedAgent"]),
        (&json!("in_progress"), &json!("w2"))
    );
    assert_eq!(silent.came("task_assigned.v1"), 0);
    let snapshot = watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["external"] == "external #21")
        .await;
    let shown = entry(&snapshot, "w1");
    assert_eq!(
        (&shown["issue_number"], &shown["stage"]),
        (&json!(21), &json!("CODE"))
    );
    let tasks = client.get("/api/v1/tasks").await.expect(200)["tasks"].take();
    assert_eq!(tasks.as_array().map(Vec::len), Some(1));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn where_issues_are_adopted_an_unknown_number_becomes_a_task_of_its_worker() {
    let hub = bus_as(|config| config.bus.adopt_issues = true).await;
    let client = hub.client;
    let (_, taken) = make(client, json!({ "title": "T", "requiredSkills": ["x"] })).await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    worker.beat("CODE", 21).await;
    worker.beat_at("VALIDATE", 21, ("testing", 60.0)).await;
    worker.fence().await;
    let task = shown(client, "21").await;
    assert_eq!(
        (&task["status"], &task["assignedAgent"]),
        (&json!("in_progress"), &json!("w1"))
    );
    assert_eq!(task["progress"]["phase"], "testing");
    worker.beat("DONE", 21).await;
    // A number that is somebody's, or nobody's because it is waiting for one with the skill, is left alone.
    worker.beat("CODE", taken).await;
    worker.beat("CODE", 0).await;
    worker.fence().await;
    assert_eq!(shown(client, "21").await["status"], "completed");
    assert_eq!(
        shown(client, &taken.to_string()).await["status"],
        Value::from("ready")
    );
    let (_, next) = make(client, json!({ "title": "U" })).await;
    assert_eq!(next, 22, "numbers go on after the adopted one");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_is_first_said_of_an_adopted_issue_counts() {
    let hub = bus_as(|config| config.bus.adopt_issues = true).await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    for (number, stage, status) in [
        (21, "DONE", "completed"),
        (22, "BLOCKED", "needs_review"),
        (23, "CODE", "in_progress"),
    ] {
        worker.beat_at(stage, number, ("merged", 100.0)).await;
        worker.fence().await;
        let task = shown(hub.client, &number.to_string()).await;
        assert_eq!(task["status"], status, "{task}");
    }
    let done = shown(hub.client, "21").await;
    assert_eq!(done["result"]["summary"], "merged");
    assert_eq!(done["assignedAgent"], "w1");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn how_long_a_task_a_worker_takes_is_what_it_says_else_the_watchdog() {
    let hub = bus_as(|config| config.bus.watchdog = Duration::from_secs(2 * 3600)).await;
    let client = hub.client;
    let (_, long) = make(client, json!({ "title": "L", "estimatedMinutes": 120 })).await;
    let (_, longer) = make(client, json!({ "title": "M", "estimatedMinutes": 121 })).await;
    let mut usual = Peer::worker(&hub, "usual", ASSIGN).await;
    usual.take_on(long).await;
    let mut short = Peer::open(&hub).await;
    let mut says = hello("short", ASSIGN);
    says["worker"]["max_task_minutes"] = json!(120);
    short.greet("worker", "short", says).await;
    short.expect("protocol_welcome.v1").await;
    short.fence().await;
    assert_eq!(short.came("task_assigned.v1"), 0);
    let mut patient = Peer::open(&hub).await;
    let mut says = hello("patient", ASSIGN);
    says["worker"]["max_task_minutes"] = json!(121);
    patient.greet("worker", "patient", says).await;
    patient.take_on(longer).await;
    let agent = client.get("/api/v1/agents/patient").await.expect(200);
    assert_eq!(agent["agent"]["capabilities"]["maxTaskMinutes"], 121);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_browser_test_goes_to_a_worker_that_says_browser() {
    let hub = bus().await;
    let mut other = Peer::worker(&hub, "w1", ASSIGN).await;
    let mut able = Peer::worker(&hub, "w2", &["assign.v1", "Browser"]).await;
    let (_, number) = make(hub.client, json!({ "title": "T", "type": "browser_test" })).await;
    able.take_on(number).await;
    other.fence().await;
    assert_eq!(other.came("task_assigned.v1"), 0);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn only_so_many_workers_have_a_task_at_a_time_and_idle_ones_take_no_place() {
    let hub = bus_as(|config| config.bus.director.max_workers = Some(1)).await;
    let client = hub.client;
    let mut rust = Peer::worker(&hub, "w1", &["assign.v1", "rust"]).await;
    let mut python = Peer::worker(&hub, "w2", &["assign.v1", "python"]).await;
    let (first, number) = make(
        client,
        json!({ "title": "P", "requiredSkills": ["python"] }),
    )
    .await;
    python.take_on(number).await;
    let (second, next) = make(client, json!({ "title": "R", "requiredSkills": ["rust"] })).await;
    rust.fence().await;
    python.fence().await;
    assert_eq!(shown(client, &second).await["status"], "ready");
    python.beat("DONE", number).await;
    rust.take_on(next).await;
    let (first, second) = (shown(client, &first).await, shown(client, &second).await);
    let (done, begun) = (
        first["completedAt"].as_str().unwrap(),
        second["claimedAt"].as_str().unwrap(),
    );
    assert!(done <= begun, "{done} {begun}");
    // Who comes back with its task comes back to its place.
    let mut rust = Peer::worker(&hub, "w1", &["assign.v1", "rust"]).await;
    rust.fence().await;
    let task = json!({ "title": "P", "requiredSkills": ["python"] });
    let (third, number) = make(client, task).await;
    python.fence().await;
    assert_eq!(shown(client, &third).await["status"], "ready");
    rust.beat("DONE", next).await;
    python.take_on(number).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_agent_of_both_doors_is_one_agent_with_the_skills_of_both() {
    let hub = bus().await;
    let client = hub.client;
    let body = registration("w1", &["rust"]);
    client
        .post("/api/v1/agents/register", body)
        .await
        .expect(200);
    let mut worker = Peer::worker(&hub, "w1", &["assign.v1", "python"]).await;
    let both = json!({ "title": "T", "requiredSkills": ["python", "rust"] });
    let (id, number) = make(client, both).await;
    let assigned = worker.take_on(number).await;
    // What came over the bus is finished over HTTP.
    let done = json!({ "agentId": "w1", "epoch": assigned["epoch"], "result": crate::harness::result("x") });
    client
        .post(&format!("/api/v1/tasks/{id}/complete"), done)
        .await
        .expect(200);
    let agents = client.get("/api/v1/agents").await.expect(200)["agents"].take();
    assert_eq!(agents.as_array().map(Vec::len), Some(1));
    let (_, next) = make(client, json!({ "title": "U" })).await;
    worker.take_on(next).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn who_leaves_one_offer_after_the_other_unanswered_gets_no_more_of_them() {
    let hub = bus_as(|config| config.bus.accept_within = Duration::from_millis(100)).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    for _ in 0..3 {
        let (_, number) = make(client, json!({ "title": "T" })).await;
        let offer = worker.expect("task_assigned.v1").await;
        assert_eq!(offer["issue_number"], number);
        worker.expect("task_revoked.v1").await;
    }
    let (id, _) = make(client, json!({ "title": "T", "priority": "critical" })).await;
    worker.fence().await;
    assert_eq!(worker.came("task_assigned.v1"), 0);
    assert_eq!(shown(client, &id).await["status"], "ready");
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let offer = worker.expect("task_assigned.v1").await;
    assert_eq!(offer["task_id"], *id, "a new connection is a new chance");
    hub.running.shutdown().await;
}

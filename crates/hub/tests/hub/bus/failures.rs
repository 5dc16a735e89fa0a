//! What goes wrong on workers: errors with their flags, blocked workers, tasks that take too long.

use std::time::Duration;

use serde_json::json;

use super::kit::{ASSIGN, Peer, bus, bus_as, error, make, shown, until};
use crate::harness::{Client, TestHub};
use crate::world::eventually;

const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(10);

#[tokio::test]
async fn the_flags_of_an_error_decide_what_becomes_of_the_task() {
    // agentbus.error.flags, agentbus.error.retry_rules, agentbus.error.identity, agentbus.error.type_and_message
    let hub =
        bus_as(|config| (config.bus.retry.initial, config.bus.retry.max) = (HOUR, HOUR)).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let cases = [
        ((true, true, false), "pending_retry"),
        ((false, true, false), "pending_retry"),
        ((true, false, false), "failed"),
        ((false, false, false), "failed"),
        ((true, true, true), "needs_review"),
        ((false, false, true), "needs_review"),
    ];
    for (place, (flags, status)) in cases.into_iter().enumerate() {
        let (id, number) = make(client, json!({ "title": "T" })).await;
        worker.take_on(number).await;
        let report = error(&format!("e-{place}"), number, flags);
        worker.send("worker_error.v1", report).await;
        worker.fence().await;
        let task = shown(client, &id).await;
        assert_eq!(task["status"], status, "{flags:?}");
        assert_eq!(task["retryCount"], 1);
        assert_eq!(task["failureType"], "resource_error");
        let said = task["lastError"].as_str().unwrap();
        assert!(said.contains("no more requests"), "{said}");
        if status == "needs_review" {
            // A person hears of stage, type, attempts and remedy.
            for word in ["VALIDATE", "github_rate_limited", "1 of ", "what to do"] {
                assert!(said.contains(word), "{word}: {said}");
            }
        }
    }
    assert_eq!(worker.came("task_revoked.v1"), 0, "it knows already");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_transient_error_is_retried_within_the_budget_and_then_a_person_is_asked() {
    // agentbus.error.retry_rules, agentbus.error.optional_fields
    let hub =
        bus_as(|config| (config.bus.retry.initial, config.bus.retry.max) = (MOMENT, MOMENT)).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T", "maxRetries": 1 })).await;
    for attempt in 1..=2 {
        let assigned = worker.take_on(number).await;
        assert_eq!(
            (&assigned["attempt"], &assigned["epoch"]),
            (&json!(attempt), &json!(attempt))
        );
        let mut report = error(&format!("e-{attempt}"), number, (true, true, false));
        report["error"]["exit_code"] = json!(-1);
        report["error"]["last_stderr_tail"] = json!("429 Too Many Requests");
        worker.send("worker_error.v1", report).await;
        worker.fence().await;
    }
    let task = until(client, &id, "needs_review").await;
    assert_eq!(task["retryCount"], 2);
    let said = task["lastError"].as_str().unwrap();
    assert!(said.contains("2 of 2 attempts"), "{said}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_long_error_is_cut_and_marked_and_counts() {
    // agentbus.error.optional_fields
    let hub = bus_as(|config| config.bus.max_message_bytes = 1024 * 1024).await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(hub.client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let mut report = error("e-1", number, (false, false, true));
    report["error"]["message"] = format!("first {}", "x".repeat(100_000)).into();
    report["error"]["last_stderr_tail"] = format!("{} last", "x".repeat(200_000)).into();
    worker.send("worker_error.v1", report).await;
    worker.fence().await;
    assert_eq!(worker.came("protocol_error.v1"), 0);
    let task = shown(hub.client, &id).await;
    assert_eq!(task["status"], "needs_review");
    let message = task["lastError"].as_str().unwrap_or_default();
    assert!(message.contains("first") && message.contains("x[cut]"));
    let path = format!("/api/v1/tasks/{id}");
    let attempts = hub.client.get(&path).await.text;
    assert!(attempts.contains("[cut]xxx") && attempts.contains("xxx last"));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_error_that_names_a_time_to_wait_is_not_retried_before() {
    let hub =
        bus_as(|config| (config.bus.retry.initial, config.bus.retry.max) = (MOMENT, MOMENT)).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let mut report = error("e-1", number, (true, true, false));
    report["error"]["retry_after_seconds"] = json!(7200);
    worker.send("worker_error.v1", report).await;
    worker.fence().await;
    let task = shown(client, &id).await;
    assert_eq!(task["status"], "pending_retry");
    let at = |field: &str| -> i64 {
        let text = task[field].as_str().unwrap();
        let time: switchboard_wire::IsoTime = serde_json::from_value(json!(text)).unwrap();
        time.0
    };
    assert!(at("nextRetryAt") - at("updatedAt") >= 7_200_000, "{task}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_same_error_counts_once_also_after_a_reconnect() {
    // agentbus.error.dedupe, agentbus.heartbeat.last_error_id
    let hub =
        bus_as(|config| (config.bus.retry.initial, config.bus.retry.max) = (MOMENT, MOMENT)).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let report = error("20260212-004102Z-w1-attempt-1", number, (true, true, false));
    worker.send("worker_error.v1", report.clone()).await;
    worker.take_on(number).await;
    worker.send("worker_error.v1", report.clone()).await;
    worker.fence().await;
    drop(worker);
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    worker.send("worker_error.v1", report).await;
    worker.fence().await;
    let task = shown(client, &id).await;
    assert_eq!(
        (&task["status"], &task["retryCount"]),
        (&json!("in_progress"), &json!(1))
    );
    assert_eq!(
        (&task["assignedAgent"], &task["epoch"]),
        (&json!("w1"), &json!(2))
    );
    // Another one is another one.
    let report = error(
        "20260212-004102Z-w1-attempt-2",
        number,
        (true, false, false),
    );
    worker.send("worker_error.v1", report).await;
    worker.fence().await;
    assert_eq!(shown(client, &id).await["status"], "failed");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_blocked_worker_leaves_its_task_to_a_person() {
    // agentbus.heartbeat.stage_enum
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    worker.beat("RETRY_WAIT", number).await;
    worker.fence().await;
    assert_eq!(
        shown(client, &id).await["status"],
        "in_progress",
        "it keeps its claim"
    );
    worker
        .beat_at("BLOCKED", number, ("which of the two APIs?", 30.0))
        .await;
    worker.fence().await;
    let task = shown(client, &id).await;
    assert_eq!(task["status"], "needs_review");
    let said = task["lastError"].as_str().unwrap();
    assert!(
        said.contains("BLOCKED") && said.contains("which of the two APIs?"),
        "{said}"
    );
    // It says so again with every heartbeat, and is free for other work meanwhile.
    worker
        .beat_at("BLOCKED", number, ("which of the two APIs?", 30.0))
        .await;
    let (_, next) = make(client, json!({ "title": "U" })).await;
    worker.take_on(next).await;
    client
        .post(&format!("/api/v1/tasks/{id}/reject"), json!({}))
        .await
        .expect(200);
    assert_eq!(shown(client, &id).await["status"], "ready");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_error_about_no_task_of_the_worker_is_noted_and_nothing_more() {
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    for (place, number) in [number, 0, 4711].into_iter().enumerate() {
        let report = error(&format!("e-{place}"), number, (false, false, true));
        worker.send("worker_error.v1", report).await;
    }
    worker.fence().await;
    let task = shown(client, &id).await;
    assert_eq!(
        (&task["status"], &task["retryCount"]),
        (&json!("ready"), &json!(0))
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_that_beats_on_and_on_loses_a_task_that_takes_too_long() {
    // agentbus.heartbeat.watchdog, agentbus.accept.ttl_from_messages
    let hub = bus_as(|config| config.bus.watchdog = Duration::from_millis(300)).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let mut percent = 0.0;
    eventually(async || {
        percent = (percent + 1.0_f64).min(99.0);
        worker.beat_at("CODE", number, ("writing", percent)).await;
        worker.fence().await;
        worker.came("task_revoked.v1") > 0
    })
    .await;
    let revoked = worker.expect("task_revoked.v1").await;
    assert_eq!(
        (&revoked["issue_number"], &revoked["epoch"]),
        (&json!(number), &json!(1))
    );
    let task = shown(client, &id).await;
    assert_eq!(task["failureType"], "task_timeout");
    assert_eq!(task["retryCount"], 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn past_its_budget_a_person_hears_of_type_stage_attempts_and_remedy_also_after_a_timeout() {
    // agentbus.error.retry_rules
    let hub = bus_as(|config| config.bus.watchdog = Duration::from_secs(3)).await;
    let (mut worker, id) = busy_on_its_last_attempt(&hub).await;
    let revoked = worker.expect("task_revoked.v1").await;
    let reason = revoked["reason"].as_str().unwrap();
    assert!(reason.starts_with("it waits for a person: "), "{reason}");
    a_person_is_asked(hub.client, &id, "task_timeout").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn past_its_budget_a_person_hears_the_same_after_a_crash() {
    // agentbus.error.retry_rules
    let hub = bus_as(|config| {
        config.bus.heartbeat_interval = Duration::from_secs(1);
        config.bus.heartbeat_ttl = Duration::from_secs(2);
    })
    .await;
    let (worker, id) = busy_on_its_last_attempt(&hub).await;
    drop(worker);
    let client = hub.client;
    until(client, &id, "needs_review").await;
    a_person_is_asked(client, &id, "agent_crash").await;
    hub.running.shutdown().await;
}

/// A worker that tests what it made of a task that is tried once.
async fn busy_on_its_last_attempt(hub: &TestHub) -> (Peer, String) {
    let mut worker = Peer::worker(hub, "w1", ASSIGN).await;
    let (id, number) = make(hub.client, json!({ "title": "T", "maxRetries": 0 })).await;
    worker.take_on(number).await;
    worker.beat_at("VALIDATE", number, ("testing", 60.0)).await;
    worker.fence().await;
    (worker, id)
}

async fn a_person_is_asked(client: Client, task: &str, failure: &str) {
    let task = shown(client, task).await;
    assert_eq!(task["status"], "needs_review", "{task}");
    let said = task["lastError"].as_str().unwrap();
    for word in [failure, "stage testing", "1 of 1 attempts", "what to do: "] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let path = "/api/v1/events?types=task_needs_person";
    let events = client.get(path).await.expect(200)["events"].take();
    let event = &events.as_array().unwrap().last().unwrap();
    assert_eq!(event["errorType"], failure, "{events}");
    assert_eq!(
        (&event["stage"], &event["attempts"]),
        (&json!("testing"), &json!(1))
    );
    assert!(event["remedy"].is_string());
}

#[tokio::test]
async fn a_claim_on_which_nothing_moves_is_given_back() {
    // agentbus.heartbeat.watchdog
    let hub = bus_as(|config| config.bus.claim_stale = Duration::from_millis(300)).await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let revoked = worker.expect("task_revoked.v1").await;
    assert_eq!(revoked["epoch"], 1);
    // It is free again, and this worker is as good as any other.
    let again = worker.take_on(number).await;
    assert_eq!((&again["epoch"], &again["attempt"]), (&json!(2), &json!(1)));
    assert_eq!(shown(client, &id).await["retryCount"], 0);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_late_result_of_an_earlier_claim_leaves_the_present_one_alone() {
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let (id, number) = make(client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    let path = format!("/api/v1/tasks/{id}/release");
    let own = json!({ "agentId": "w1" });
    client.post(&path, own).await.expect(200);
    worker.expect("task_revoked.v1").await;
    worker.take_on(number).await;
    let result = |epoch: u64| json!({ "issue_number": number, "epoch": epoch, "result": { "summary": "late" } });
    worker.send("task_result.v1", result(1)).await;
    worker.fence().await;
    let task = shown(client, &id).await;
    assert_eq!(
        (&task["status"], &task["epoch"]),
        (&json!("in_progress"), &json!(2))
    );
    worker.send("task_result.v1", result(2)).await;
    worker.fence().await;
    assert_eq!(shown(client, &id).await["status"], "completed");
    hub.running.shutdown().await;
}

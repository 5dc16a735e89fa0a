//! The hub's rules hold for those who write SQL: dependencies, gates, retries, leases, the clients' own schema.

use std::time::Duration;

use serde_json::json;
use switchboard_core::verb::{ExpireLeases, MarkSilent, ReleaseRetries};

use crate::by_hand::{CORRECTED_CLAIM, DOCUMENTS_CLAIM, Mixed, all, claim};
use crate::events::Stream;
use crate::harness::{SOON, result};

const AGENTS: &str = "INSERT INTO agents(id, name) VALUES ('s1', 's1'), ('s2', 's2')";

#[tokio::test]
async fn a_task_completed_by_sql_releases_its_dependants_and_leases_and_shows_on_the_stream() {
    let mixed = Mixed::start().await;
    let mut stream = Stream::open(
        &mixed.hub,
        "/api/v1/events?types=task_completed,task_ready,lease_released",
        None,
    )
    .await;
    mixed.sql(AGENTS).await;
    mixed
        .sql("INSERT INTO tasks(id, title) VALUES ('t', 't'), ('u', 'u'); INSERT INTO tasks(id, title, dependencies) VALUES ('v', 'v', '[\"t\", \"u\"]'), ('w', 'w', '[\"t\"]')")
        .await;
    assert_eq!(mixed.task("w").await["status"], "blocked");
    let taken = claim(&mixed.hand, DOCUMENTS_CLAIM, "s1", "[]", "");
    assert_eq!(taken.as_deref(), Some("t"));
    mixed
        .sql("INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('src', 's1', 't', datetime('now', '+5 minutes'))")
        .await;
    mixed
        .sql("UPDATE tasks SET status = 'completed', result = 'all done' WHERE id = 't'")
        .await;
    for (kind, what) in [
        ("lease_released", "src"),
        ("task_completed", "t"),
        ("task_ready", "w"),
    ] {
        let (_, said, event) = stream.next().await.unwrap();
        assert_eq!(said, kind);
        assert!(event["task"] == what || event["path"] == what, "{event}");
    }
    let done = mixed.task("t").await;
    assert_eq!(
        (done["status"].as_str(), done["result"].as_str()),
        (Some("completed"), Some("all done"))
    );
    assert_eq!(mixed.task("v").await["blockers"], json!(["u"]));
    assert!(all(&mixed.hand, "SELECT * FROM leases").is_empty());
    assert_eq!(mixed.one("SELECT epoch FROM tasks WHERE id = 't'"), "1");
    mixed.stop().await;
}

#[tokio::test]
async fn the_corrected_claim_takes_only_what_its_agent_can_do_and_http_the_rest() {
    let mixed = Mixed::start().await;
    mixed.sql(AGENTS).await;
    mixed.hub.client.register("h1", &["sql"]).await;
    mixed
        .sql("INSERT INTO tasks(id, title, required_skills, priority) VALUES ('r', 'r', '[\"Rust\"]', 'low'), ('q', 'q', '[\"sql\"]', 'critical'), ('p', 'p', '[]', 'low')")
        .await;
    let excluded = json!(["p"]).to_string();
    let first = claim(&mixed.hand, CORRECTED_CLAIM, "s1", "[\"rust\"]", &excluded);
    assert_eq!(first.as_deref(), Some("r"));
    assert_eq!(
        claim(&mixed.hand, CORRECTED_CLAIM, "s2", "[\"rust\"]", &excluded),
        None
    );
    assert_eq!(mixed.hub.client.claim("h1").await["task"]["id"], "q");
    assert_eq!(mixed.hub.client.claim("h1").await["task"]["id"], "p");
    mixed.taken_in().await;
    let held = mixed.task("r").await;
    assert_eq!(
        (held["assignedAgent"].as_str(), held["epoch"].as_u64()),
        (Some("s1"), Some(1))
    );
    // Under its epoch, over another door.
    let done = json!({ "agentId": "s1", "epoch": 1, "result": result("done") });
    let answer = mixed
        .hub
        .client
        .post("/api/v1/tasks/r/complete", done)
        .await;
    assert_eq!(answer.expect(200)["status"], "completed");
    mixed.stop().await;
}

#[tokio::test]
async fn a_task_claimed_over_http_is_no_longer_there_for_sql_and_the_other_way_round() {
    let mixed = Mixed::start().await;
    mixed.sql(AGENTS).await;
    mixed.hub.client.register("h1", &[]).await;
    mixed
        .sql("INSERT INTO tasks(id, title, status) VALUES ('t', 't', 'ready')")
        .await;
    // No waiting: what was written before a call is taken in before it.
    assert_eq!(
        claim(&mixed.hand, DOCUMENTS_CLAIM, "s1", "[]", "").as_deref(),
        Some("t")
    );
    let none = mixed.hub.client.claim("h1").await;
    assert_eq!(none["reason"], "all_tasks_claimed");
    mixed
        .sql("UPDATE tasks SET status = 'ready', assigned_agent = NULL WHERE id = 't'")
        .await;
    assert_eq!(mixed.hub.client.claim("h1").await["task"]["epoch"], 2);
    assert_eq!(claim(&mixed.hand, DOCUMENTS_CLAIM, "s1", "[]", ""), None);
    let refused = mixed.hand.execute_batch(
        "UPDATE tasks SET status = 'completed', assigned_agent = 's1' WHERE id = 't'",
    );
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("another agent holds this task")
    );
    mixed.stop().await;
}

#[tokio::test]
async fn whoever_waits_over_http_is_woken_by_sql() {
    let mixed = Mixed::start().await;
    mixed.sql(AGENTS).await;
    let client = mixed.hub.client;
    client.register("h1", &[]).await;
    let waiting = tokio::spawn(async move {
        let body = json!({ "agentId": "h1", "wait": 60 });
        client.post("/api/v1/tasks/claim", body).await.expect(200)
    });
    mixed
        .sql("INSERT INTO tasks(id, title) VALUES ('t', 't')")
        .await;
    let claimed = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert_eq!(claimed["task"]["id"], "t");
    let waiting = tokio::spawn(async move {
        let path = "/api/v1/messages?agentId=h1&wait=60";
        client.get(path).await.expect(200)
    });
    mixed
        .sql("INSERT INTO messages(id, type, from_agent, to_agent, payload) VALUES ('m', 'custom', 's1', 'h1', 'plain words')")
        .await;
    let got = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert_eq!(got["messages"][0]["payload"], "plain words");
    mixed.stop().await;
}

#[tokio::test]
async fn a_completion_by_sql_is_held_against_its_snapshot() {
    let mixed = Mixed::start().await;
    mixed.sql(AGENTS).await;
    mixed
        .sql("INSERT INTO quality_baseline(id, build_success, type_errors, tests_passing, set_by) VALUES (1, 1, 0, 10, 's1')")
        .await;
    mixed
        .sql("INSERT INTO tasks(id, title) VALUES ('worse', 'w'), ('same', 's')")
        .await;
    for (task, errors, status) in [("worse", 3, "needs_review"), ("same", 0, "completed")] {
        let statement = format!(
            "UPDATE tasks SET status = 'claimed', assigned_agent = 's1' WHERE id = '{task}';
             INSERT INTO quality_snapshots(id, task_id, agent_id, build_success, type_errors, tests_passing) VALUES ('q-{task}', '{task}', 's1', 1, {errors}, 10);
             UPDATE tasks SET status = 'completed', quality_snapshot_id = 'q-{task}' WHERE id = '{task}'"
        );
        mixed.sql(&statement).await;
        let shown = mixed.task(task).await;
        assert_eq!(
            (
                shown["status"].as_str(),
                shown["qualitySnapshotId"].as_str()
            ),
            (Some(status), Some(&*format!("q-{task}")))
        );
    }
    assert_eq!(mixed.agent("s1").await["tasksCompleted"], 1);
    // A person rules in SQL.
    mixed
        .sql("UPDATE tasks SET status = 'completed' WHERE id = 'worse'")
        .await;
    assert_eq!(mixed.task("worse").await["status"], "completed");
    assert_eq!(mixed.one("SELECT count(*) FROM quality_snapshots"), "2");
    mixed.stop().await;
}

#[tokio::test]
async fn a_policy_that_asks_for_metrics_asks_sql_too() {
    let mixed = Mixed::start_as(|config| config.quality.require_metrics = true).await;
    mixed.sql(AGENTS).await;
    mixed
        .sql("INSERT INTO tasks(id, title) VALUES ('t', 't')")
        .await;
    mixed
        .sql("UPDATE tasks SET status = 'claimed', assigned_agent = 's1'")
        .await;
    mixed.sql("UPDATE tasks SET status = 'completed'").await;
    assert_eq!(mixed.task("t").await["status"], "needs_review");
    mixed.stop().await;
}

#[tokio::test]
async fn retries_come_back_leases_run_out_and_silent_agents_lose_their_tasks() {
    let mixed = Mixed::start().await;
    let hub = &mixed.hub.running.hub;
    mixed.sql(AGENTS).await;
    mixed
        .sql("INSERT INTO tasks(id, title) VALUES ('t', 't'), ('u', 'u')")
        .await;
    mixed.sql("UPDATE tasks SET status = 'claimed', assigned_agent = 's1' WHERE id = 't'; UPDATE tasks SET status = 'claimed', assigned_agent = 's2' WHERE id = 'u'").await;
    mixed
        .sql("UPDATE tasks SET status = 'pending_retry', last_error = 'no' WHERE id = 't'")
        .await;
    mixed
        .sql("INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('short', 's1', datetime('now', '+30 seconds')), ('long', 's2', datetime('now', '+55 minutes'))")
        .await;
    mixed.wait(Duration::from_secs(61)).await;
    mixed.sql("UPDATE agents SET last_heartbeat = CURRENT_TIMESTAMP, heartbeat_count = heartbeat_count + 1 WHERE id = 's1'").await;
    hub.run(ReleaseRetries).await.unwrap();
    hub.run(ExpireLeases).await.unwrap();
    let again = mixed.task("t").await;
    assert_eq!(
        (again["status"].as_str(), again["previousAgents"].clone()),
        (Some("ready"), json!(["s1"]))
    );
    assert_eq!(all(&mixed.hand, "SELECT file_path FROM leases"), [["long"]]);
    mixed.wait(Duration::from_secs(61)).await;
    hub.run(MarkSilent).await.unwrap();
    // The one that beat is there, the one that did not has lost everything.
    assert_eq!(mixed.agent("s1").await["status"], "idle");
    assert_eq!(mixed.agent("s2").await["status"], "offline");
    let lost = mixed.task("u").await;
    assert_eq!(
        (lost["status"].as_str(), lost["retryCount"].as_u64()),
        (Some("ready"), Some(1))
    );
    assert!(all(&mixed.hand, "SELECT file_path FROM leases").is_empty());
    // Late by SQL as over HTTP: the task is not its own any more.
    let late = mixed.hand.execute(
        "UPDATE tasks SET status = 'completed' WHERE id = 'u' AND assigned_agent = 's2'",
        [],
    );
    assert_eq!(late.unwrap(), 0);
    mixed
        .sql("UPDATE agents SET last_heartbeat = CURRENT_TIMESTAMP WHERE id = 's2'")
        .await;
    assert_eq!(mixed.agent("s2").await["status"], "idle");
    mixed.stop().await;
}

#[tokio::test]
async fn what_did_not_hold_is_undone_and_told() {
    let mixed = Mixed::start().await;
    mixed.sql(AGENTS).await;
    mixed
        .sql("INSERT INTO tasks(id, title, priority) VALUES ('t', 't', 'high')")
        .await;
    mixed
        .sql("UPDATE tasks SET status = 'claimed', assigned_agent = 's1'")
        .await;
    let before = mixed.latest().await;
    // Nobody changes who may take a task that is taken.
    mixed
        .sql("UPDATE tasks SET priority = 'low', title = 'other'")
        .await;
    let events = mixed.events(before).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(
        (
            events[0]["type"].as_str(),
            events[0]["table"].as_str(),
            events[0]["key"].as_str()
        ),
        (Some("write_undone"), Some("tasks"), Some("t"))
    );
    assert_eq!(
        all(
            &mixed.hand,
            "SELECT title, priority, status, assigned_agent FROM tasks"
        ),
        [["t", "high", "claimed", "s1"]]
    );
    mixed.stop().await;
}

#[tokio::test]
async fn deleting_a_task_cancels_it_and_its_history_stays() {
    let mixed = Mixed::start().await;
    mixed.sql(AGENTS).await;
    mixed.sql("INSERT INTO tasks(id, title) VALUES ('t', 't'); INSERT INTO tasks(id, title, dependencies, on_dependency_failure) VALUES ('u', 'u', '[\"t\"]', 'fail')").await;
    mixed
        .sql("UPDATE tasks SET status = 'claimed', assigned_agent = 's1' WHERE id = 't'")
        .await;
    mixed.sql("DELETE FROM tasks WHERE id = 't'").await;
    assert_eq!(mixed.task("t").await["status"], "canceled");
    assert_eq!(mixed.task("u").await["status"], "failed");
    assert_eq!(mixed.agent("s1").await["status"], "idle");
    mixed.stop().await;
}

//! Each operation in SQL and over HTTP, on two hubs side by side: nobody could tell them apart afterwards.

use serde_json::{Value, json};

use crate::by_hand::{DOCUMENTS_CLAIM, File, Mixed, all};
use crate::harness::{registration, result};

/// What a client does in SQL, and the call that does the same.
struct Twin {
    sql: String,
    method: &'static str,
    path: &'static str,
    body: Value,
}

fn twin(sql: impl Into<String>, method: &'static str, path: &'static str, body: Value) -> Twin {
    let sql = sql.into();
    Twin {
        sql,
        method,
        path,
        body,
    }
}

/// Every operation, in an order that makes sense. `until` is in ten minutes.
fn operations(until: &str) -> Vec<Twin> {
    let register = |id: &str| {
        let sql = format!(
            "INSERT INTO agents(id, name, type, skills, max_task_minutes, can_run_tests, can_run_build, can_access_browser)
             VALUES ('{id}', '{id}', 'custom', '[\"rust\"]', 60, 1, 1, 0)"
        );
        twin(
            sql,
            "POST",
            "/api/v1/agents/register",
            registration(id, &["rust"]),
        )
    };
    let task = |id: &str, columns: &str, values: &str, body: Value| {
        let sql = format!("INSERT INTO tasks(id, title{columns}) VALUES ('{id}', '{id}'{values})");
        twin(sql, "POST", "/api/v1/tasks", json!({ "tasks": [body] }))
    };
    let claim = |agent: &str| {
        let sql = DOCUMENTS_CLAIM
            .replace(":agentId", &format!("'{agent}'"))
            .replace(":agentSkills", "'[]'")
            .replace(":excludeIds", "''");
        twin(
            sql,
            "POST",
            "/api/v1/tasks/claim",
            json!({ "agentId": agent }),
        )
    };
    let lease =
        json!({ "agentId": "a1", "taskId": "t1", "filePath": "src/a.rs", "durationMs": 600_000 });
    vec![
        register("a1"),
        register("a2"),
        task(
            "t1",
            ", priority, status",
            ", 'high', 'ready'",
            json!({ "id": "t1", "title": "t1", "priority": "high" }),
        ),
        task(
            "t2",
            ", dependencies",
            ", '[\"t1\"]'",
            json!({ "id": "t2", "title": "t2", "dependencies": ["t1"] }),
        ),
        task(
            "t3",
            ", description, files",
            ", 'why', '[\"a.rs\"]'",
            json!({ "id": "t3", "title": "t3", "description": "why", "files": ["a.rs"] }),
        ),
        twin(
            "UPDATE agents SET status = 'busy', last_heartbeat = CURRENT_TIMESTAMP, heartbeat_count = heartbeat_count + 1 WHERE id = 'a2'",
            "POST",
            "/api/v1/agents/a2/heartbeat",
            json!({ "agentId": "a2", "status": "busy" }),
        ),
        claim("a1"),
        twin(
            "UPDATE tasks SET status = 'in_progress', started_at = CURRENT_TIMESTAMP WHERE id = 't1' AND assigned_agent = 'a1'",
            "POST",
            "/api/v1/tasks/t1/progress",
            json!({ "agentId": "a1", "progress": { "phase": "implementing", "percentComplete": 0, "description": "" } }),
        ),
        twin(
            format!(
                "INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('src/a.rs', 'a1', 't1', '{until}')"
            ),
            "POST",
            "/api/v1/leases/acquire",
            lease.clone(),
        ),
        twin(
            format!(
                "UPDATE leases SET expires_at = '{until}', renewed_count = renewed_count + 1 WHERE file_path = 'src/a.rs' AND agent_id = 'a1'"
            ),
            "POST",
            "/api/v1/leases/acquire",
            lease,
        ),
        twin(
            format!(
                "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('docs', 'a1', '{until}')"
            ),
            "POST",
            "/api/v1/leases/acquire",
            json!({ "agentId": "a1", "taskId": null, "filePath": "docs", "durationMs": 600_000 }),
        ),
        twin(
            "DELETE FROM leases WHERE file_path = 'docs' AND agent_id = 'a1'",
            "POST",
            "/api/v1/leases/release",
            json!({ "agentId": "a1", "filePath": "docs" }),
        ),
        twin(
            "INSERT INTO messages(id, type, from_agent, to_agent, payload, ack_required) VALUES ('m1', 'info.discovery', 'a1', 'a2', '{\"x\":1}', 1)",
            "POST",
            "/api/v1/messages",
            json!({ "agentId": "a1", "message": {
                "id": "m1", "to": "a2", "type": "info.discovery", "payload": { "x": 1 }, "ackRequired": true } }),
        ),
        twin(
            "UPDATE messages SET delivered_at = CURRENT_TIMESTAMP WHERE to_agent = 'a2' AND delivered_at IS NULL",
            "GET",
            "/api/v1/messages?agentId=a2",
            Value::Null,
        ),
        twin(
            "UPDATE messages SET acknowledged_at = CURRENT_TIMESTAMP, acknowledged_by = 'a2' WHERE id = 'm1'",
            "POST",
            "/api/v1/messages/m1/ack",
            json!({ "agentId": "a2" }),
        ),
        twin(
            "UPDATE tasks SET status = 'completed', completed_at = CURRENT_TIMESTAMP, result = '{}' WHERE id = 't1' AND assigned_agent = 'a1'",
            "POST",
            "/api/v1/tasks/t1/complete",
            json!({ "agentId": "a1", "result": result("done") }),
        ),
        claim("a1"),
        twin(
            "UPDATE tasks SET status = 'pending_retry', last_error = 'no', failure_type = 'task_error', assigned_agent = NULL WHERE id = 't2'",
            "POST",
            "/api/v1/tasks/t2/fail",
            json!({ "agentId": "a1", "failure": { "type": "task_error", "message": "no", "recoverable": true } }),
        ),
        claim("a2"),
        twin(
            "UPDATE tasks SET status = 'failed', last_error = 'never', failure_type = 'resource_error' WHERE id = 't3'",
            "POST",
            "/api/v1/tasks/t3/fail",
            json!({ "agentId": "a2", "failure": { "type": "resource_error", "message": "never", "recoverable": false } }),
        ),
        twin(
            "DELETE FROM agents WHERE id = 'a1'",
            "DELETE",
            "/api/v1/agents/a1",
            Value::Null,
        ),
    ]
}

/// Everything in the public tables but what belongs to one hub alone, and signs of life, which are held back.
const SHOWN: &[&str] = &[
    "SELECT number, id, title, description, status, priority, priority_order, type, assigned_agent, claimed_at, dependencies, blockers,
       required_skills, files, started_at, completed_at, actual_minutes, retry_count, max_retries, last_error, failure_type,
       next_retry_at, previous_agents, result IS NULL, created_at, updated_at, epoch FROM tasks ORDER BY id",
    "SELECT id, name, type, status, skills, max_task_minutes, current_task_id, current_task_started_at, current_task_progress,
       current_task_phase, tasks_completed, tasks_failed, registered_at, presence, holds, inbox FROM agents ORDER BY id",
    "SELECT number, id, type, from_agent, to_agent, payload, ack_required, acknowledged_at, acknowledged_by, delivered_at, created_at
       FROM messages ORDER BY id",
    "SELECT file_path, agent_id, task_id, acquired_at, expires_at, renewed_count, fencing FROM leases ORDER BY 1",
    "SELECT number, epoch, task, agent, claimed_at, ended_at, outcome, failure, message FROM sb_attempt ORDER BY 1, 2",
    "SELECT seq, tasks, queued_deliveries, leases, lane FROM sb_head",
];

#[tokio::test]
async fn each_operation_ends_in_the_rows_and_events_that_it_has_over_http() {
    let by_sql = Mixed::start().await;
    let by_http = Mixed::of(File::beside(&by_sql.file), |_| {}).await;
    let until = by_sql.one("SELECT strftime('%Y-%m-%dT%H:%M:%S', served_at / 1000 + 600, 'unixepoch') || printf('.%03dZ', served_at % 1000) FROM sb_head");
    for operation in operations(&until) {
        by_sql.sql(&operation.sql).await;
        let Twin {
            method, path, body, ..
        } = operation;
        let answer = match &body {
            Value::Null => by_http.hub.client.send(method, path, &[], "").await,
            body => {
                by_http
                    .hub
                    .client
                    .with(method, path, &[], body.clone())
                    .await
            }
        };
        assert!(answer.status < 300, "{method} {path}: {}", answer.text);
        for shown in SHOWN {
            let (left, right) = (all(&by_sql.hand, shown), all(&by_http.hand, shown));
            assert_eq!(left, right, "after {method} {path}: {shown}");
        }
        assert_eq!(
            by_sql.events(0).await,
            by_http.events(0).await,
            "after {method} {path}"
        );
    }
    by_sql.stop().await;
    by_http.stop().await;
}

//! Clients that make tables, indexes and triggers of their own, and write times in their own way.

use serde_json::json;

use crate::by_hand::{DOCUMENTS_CLAIM, Mixed, all, claim, written};
use crate::harness::result;

const AGENTS: &str = "INSERT INTO agents(id, name) VALUES ('s1', 's1'), ('s2', 's2')";

/// What clients of this world run before anything else.
const OWN_SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, status TEXT DEFAULT 'pending');
    CREATE TABLE IF NOT EXISTS agents (id TEXT PRIMARY KEY, name TEXT);
    CREATE TABLE IF NOT EXISTS memories (id TEXT PRIMARY KEY, content TEXT);
    CREATE INDEX IF NOT EXISTS idx_tasks_status ON tasks(status);
    CREATE INDEX IF NOT EXISTS idx_tasks_priority ON tasks(priority_order);
    CREATE INDEX IF NOT EXISTS idx_tasks_assigned ON tasks(assigned_agent);
    CREATE INDEX IF NOT EXISTS idx_tasks_ready ON tasks(status, priority_order) WHERE status = 'ready';
    CREATE INDEX IF NOT EXISTS idx_tasks_retry ON tasks(next_retry_at) WHERE status = 'pending_retry';
    CREATE INDEX IF NOT EXISTS idx_own ON tasks(type, branch);
    CREATE TRIGGER IF NOT EXISTS tasks_updated_at AFTER UPDATE ON tasks BEGIN
      UPDATE tasks SET updated_at = CURRENT_TIMESTAMP WHERE id = NEW.id; END;
    CREATE TRIGGER IF NOT EXISTS baseline_updated_at AFTER UPDATE ON quality_baseline BEGIN
      UPDATE quality_baseline SET updated_at = CURRENT_TIMESTAMP WHERE id = NEW.id; END;
    CREATE TRIGGER IF NOT EXISTS metadata_updated_at AFTER UPDATE ON swarm_metadata BEGIN
      UPDATE swarm_metadata SET updated_at = CURRENT_TIMESTAMP WHERE key = NEW.key; END;";

/// And one that the hub does not know.
const NEW_TRIGGER: &str = "
    CREATE TRIGGER IF NOT EXISTS my_updated_at AFTER UPDATE OF title, status, assigned_agent ON tasks BEGIN
      UPDATE tasks SET updated_at = CURRENT_TIMESTAMP WHERE id = NEW.id; END;
    CREATE TRIGGER IF NOT EXISTS my_agents AFTER UPDATE OF status, last_heartbeat ON agents BEGIN
      UPDATE agents SET last_active_at = CURRENT_TIMESTAMP WHERE id = NEW.id; END;";

#[tokio::test]
async fn clients_that_bring_a_schema_of_their_own_disturb_nothing() {
    for recursive in ["OFF", "ON"] {
        let mixed = Mixed::start().await;
        written(
            &mixed.hand,
            &format!("PRAGMA recursive_triggers = {recursive}; {OWN_SCHEMA} {NEW_TRIGGER}"),
        );
        mixed.sql(AGENTS).await;
        mixed.hub.client.register("h1", &[]).await;
        mixed.sql("INSERT INTO tasks(id, title) VALUES ('t', 't'), ('u', 'u'); INSERT INTO memories VALUES ('m', 'mine')").await;
        mixed
            .sql("UPDATE swarm_metadata SET value = '2' WHERE key = 'schema_version'")
            .await;
        assert_eq!(
            claim(&mixed.hand, DOCUMENTS_CLAIM, "s1", "[]", "").as_deref(),
            Some("t"),
            "{recursive}"
        );
        mixed.sql("UPDATE agents SET last_heartbeat = CURRENT_TIMESTAMP, status = 'busy' WHERE id = 's1'").await;
        mixed
            .sql(
                "INSERT OR REPLACE INTO agents(id, name, status) VALUES ('s1', 'same one', 'busy')",
            )
            .await;
        assert_eq!(mixed.agent("s1").await["name"], "same one");
        assert_eq!(mixed.task("t").await["assignedAgent"], "s1", "{recursive}");
        let before = mixed.latest().await;
        assert_eq!(mixed.hub.client.claim("h1").await["task"]["id"], "u");
        let done = json!({ "agentId": "h1", "result": result("done") });
        mixed
            .hub
            .client
            .post("/api/v1/tasks/u/complete", done)
            .await
            .expect(200);
        assert_eq!(
            mixed.said(before).await,
            ["task_claimed", "task_completed"],
            "the hub's own writes are no hand's"
        );
        mixed
            .sql("UPDATE tasks SET status = 'completed' WHERE id = 't'")
            .await;
        assert_eq!(mixed.said(before).await.last().unwrap(), "task_completed");
        assert_eq!(mixed.one("SELECT content FROM memories"), "mine");
        mixed.stop().await;
    }
}

#[tokio::test]
async fn times_are_read_in_both_forms_and_written_in_one() {
    let mixed = Mixed::start().await;
    mixed.sql(AGENTS).await;
    for (path, until) in [
        ("a", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+9 minutes')"),
        ("b", "datetime('now', '+9 minutes')"),
        (
            "c",
            "strftime('%Y-%m-%dT%H:%M:%S', 'now', '+69 minutes') || '+01:00'",
        ),
    ] {
        mixed.sql(&format!("INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('{path}', 's1', {until})")).await;
    }
    let spread = mixed.one(
        "SELECT max(julianday(expires_at)) - min(julianday(expires_at)) < 30.0 / 86400 FROM leases",
    );
    assert_eq!(spread, "1");
    let odd = all(
        &mixed.hand,
        "SELECT file_path FROM leases WHERE expires_at NOT GLOB '????-??-??T??:??:??.???Z' OR acquired_at NOT GLOB '????-??-??T??:??:??.???Z'",
    );
    assert!(odd.is_empty(), "{odd:?}");
    mixed.stop().await;
}

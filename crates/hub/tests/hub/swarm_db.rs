//! `.jetpack/swarm.db` at the start of a hub.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::json;
use switchboard_hub::{Running, ServeError};

use crate::harness::{Client, config};

const OLD: &str = "CREATE TABLE tasks(id TEXT, title TEXT, status TEXT);
    INSERT INTO tasks VALUES ('a', 'A', 'pending'), ('b', 'B', 'completed')";

fn old_file(home: &Path) -> Connection {
    fs::create_dir_all(home.join(".jetpack")).unwrap();
    let db = Connection::open(home.join(".jetpack/swarm.db")).unwrap();
    db.execute_batch(OLD).unwrap();
    db
}

#[tokio::test]
async fn the_hub_imports_before_it_serves_and_says_so() {
    let home = tempfile::tempdir().unwrap();
    drop(old_file(home.path()));
    let running = Running::start(config(home.path())).await.unwrap();
    let line = running.imported.clone().unwrap();
    assert!(line.starts_with("imported 2 tasks"), "{line}");
    let client = Client { addr: running.addr };
    for (id, status) in [("a", "ready"), ("b", "completed")] {
        let shown = client.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
        assert_eq!(shown["task"]["status"], status);
    }
    running.shutdown().await;
    let running = Running::start(config(home.path())).await.unwrap();
    assert_eq!(running.imported, None);
    running.shutdown().await;
}

#[tokio::test]
async fn imported_tasks_keep_their_past() {
    let home = tempfile::tempdir().unwrap();
    let old = old_file(home.path());
    old.execute_batch(
        "DROP TABLE tasks;
         CREATE TABLE tasks(id TEXT, title TEXT, status TEXT, assigned_agent TEXT, started_at TEXT, completed_at TEXT,
           retry_count INTEGER, previous_agents TEXT, result TEXT, quality_snapshot_id TEXT, created_at TEXT, updated_at TEXT);
         INSERT INTO tasks VALUES
           ('done', 'D', 'completed', 'ann', '2026-01-01 10:00:00', '2026-01-01 11:00:00', 1, '[\"bob\"]', '{\"x\":1}', 'q',
             '2026-01-01 09:00:00', '2026-01-01 12:00:00'),
           ('open', 'O', 'pending', NULL, NULL, NULL, 2, '[\"bob\"]', NULL, NULL, '2026-01-01 09:00:00', '2026-01-01 12:00:00');
         CREATE TABLE quality_snapshots(id TEXT, task_id TEXT, type_errors INTEGER);
         INSERT INTO quality_snapshots VALUES ('q', 'done', 3);",
    )
    .unwrap();
    drop(old);
    let mut running = Running::start(config(home.path())).await.unwrap();
    // As it was taken in, and as the ledger has it.
    for _ in 0..2 {
        let client = Client { addr: running.addr };
        let shown = client.get("/api/v1/tasks/done").await.expect(200);
        for (field, wanted) in [
            ("status", json!("completed")),
            ("assignedAgent", json!("ann")),
            ("createdAt", json!("2026-01-01T09:00:00.000Z")),
            ("startedAt", json!("2026-01-01T10:00:00.000Z")),
            ("completedAt", json!("2026-01-01T11:00:00.000Z")),
            ("result", json!({"x": 1})),
            ("retryCount", json!(1)),
            ("previousAgents", json!(["bob"])),
            ("qualitySnapshotId", json!("q")),
        ] {
            assert_eq!(shown["task"][field], wanted, "{field} of {shown}");
        }
        let shown = client.get("/api/v1/tasks/open").await.expect(200);
        assert_eq!(shown["task"]["status"], "ready");
        assert_eq!(shown["task"]["createdAt"], "2026-01-01T09:00:00.000Z");
        assert_eq!(shown["task"]["retryCount"], 2);
        running.shutdown().await;
        running = Running::start(config(home.path())).await.unwrap();
    }
    running.shutdown().await;
}

#[tokio::test]
async fn a_refused_start_leaves_nothing_behind_and_can_be_tried_again() {
    let home = tempfile::tempdir().unwrap();
    let old = old_file(home.path());
    old.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = Running::start(config(home.path())).await.err().unwrap();
    assert!(matches!(refused, ServeError::SwarmDb(_)), "{refused}");
    assert!(!home.path().join(".switchboard/switchboard.db").exists());
    old.execute_batch("COMMIT").unwrap();
    drop(old);
    let running = Running::start(config(home.path())).await.unwrap();
    assert!(running.imported.is_some());
    running.shutdown().await;
}

#[tokio::test]
async fn turned_off_it_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".jetpack/swarm.db");
    let mut settings = config(home.path());
    settings.swarm_db = false;
    let running = Running::start(settings.clone()).await.unwrap();
    assert!(fs::symlink_metadata(&file).is_err());
    running.shutdown().await;
    drop(old_file(home.path()));
    let before = fs::read(&file).unwrap();
    let running = Running::start(settings).await.unwrap();
    running.shutdown().await;
    assert_eq!(fs::read(&file).unwrap(), before);
}

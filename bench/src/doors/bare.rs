//! What people have today: the protocol's tables in a file of their own, with nobody beside it.
//!
//! No triggers, and of the hub's columns only the two that its claim names (`audience`, `epoch`). `Order::Indexed` has one index that serves the claim's order, as some clients make
//! it; `Order::Sorted` has none, so every claim reads and sorts all that wait.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rusqlite::{Connection, params};

use super::sql_client::{Durability, open_bare};
use super::statements::SKILLS;

const SCHEMA: &str = "
CREATE TABLE tasks (
  id TEXT PRIMARY KEY, title TEXT NOT NULL, description TEXT, status TEXT NOT NULL DEFAULT 'pending',
  priority TEXT NOT NULL DEFAULT 'medium',
  priority_order INTEGER GENERATED ALWAYS AS (CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END) VIRTUAL,
  type TEXT NOT NULL DEFAULT 'code', assigned_agent TEXT, claimed_at TEXT, dependencies TEXT DEFAULT '[]', blockers TEXT DEFAULT '[]',
  required_skills TEXT DEFAULT '[]', files TEXT DEFAULT '[]', started_at TEXT, completed_at TEXT, estimated_minutes INTEGER,
  actual_minutes INTEGER, retry_count INTEGER DEFAULT 0, max_retries INTEGER DEFAULT 2, last_error TEXT, failure_type TEXT,
  next_retry_at TEXT, previous_agents TEXT DEFAULT '[]', result TEXT, branch TEXT, quality_snapshot_id TEXT,
  created_at TEXT DEFAULT CURRENT_TIMESTAMP, updated_at TEXT DEFAULT CURRENT_TIMESTAMP,
  audience TEXT NOT NULL DEFAULT '[]', epoch INTEGER NOT NULL DEFAULT 0);
CREATE TABLE agents (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'idle', skills TEXT DEFAULT '[]', max_task_minutes INTEGER DEFAULT 60,
  can_run_tests INTEGER DEFAULT 1, can_access_browser INTEGER DEFAULT 0);
";
const INDEX: &str = "CREATE INDEX tasks_in_order ON tasks(status, priority_order, created_at)";
/// One instant after the other, so that the oldest is one task.
const FILL: &str = "
WITH RECURSIVE numbers(n) AS (SELECT :begin UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :end)
INSERT INTO tasks (id, title, description, status, required_skills, files, estimated_minutes, created_at, updated_at)
SELECT printf('tsk_01J%023d', n), 'Task ' || n || ' of the bench', 'Change one function and run its tests.', 'ready', :skills,
       '[\"src/lib.rs\"]', 10, strftime('%Y-%m-%dT%H:%M:%fZ', 1768000000 + n / 1000.0, 'unixepoch'), '2026-01-19T12:00:00.000Z'
FROM numbers";

/// How a claim finds the first task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Indexed,
    Sorted,
}

/// The file, and how many tasks were ever put into it.
pub struct Bare {
    pub path: PathBuf,
    connection: Connection,
    filled: u64,
}

impl Bare {
    pub fn make(dir: &Path, order: Order) -> anyhow::Result<Self> {
        let path = dir.join(match order {
            Order::Indexed => "indexed.db",
            Order::Sorted => "sorted.db",
        });
        let connection = open_bare(&path, Durability::Normal)?;
        connection.execute_batch(SCHEMA)?;
        if order == Order::Indexed {
            connection.execute_batch(INDEX)?;
        }
        Ok(Self {
            path,
            connection,
            filled: 0,
        })
    }

    pub fn register(&self, agent: &str) -> anyhow::Result<()> {
        let sql = "INSERT INTO agents (id, name, skills) VALUES (?1, ?1, ?2)";
        self.connection.execute(sql, params![agent, SKILLS])?;
        Ok(())
    }

    /// Adds tasks until so many wait. The log begins anew and keeps its length, as after any checkpoint.
    pub fn fill_up(&mut self, waiting: u64) -> anyhow::Result<()> {
        let sql = "SELECT count(*) FROM tasks WHERE status = 'ready'";
        let there: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        let missing = waiting.saturating_sub(there.unsigned_abs());
        if missing > 0 {
            let end = self.filled + missing;
            let numbers = params![self.filled.cast_signed(), end.cast_signed(), SKILLS];
            self.connection.execute(FILL, numbers)?;
            self.filled = end;
        }
        let checkpoint = "PRAGMA wal_checkpoint(RESTART)";
        self.connection
            .query_row(checkpoint, [], |_| Ok(()))
            .context("the log of a bare file cannot be moved")
    }
}

//! Real files and directories: what is found, what is made of it, and what a kill in between leaves behind.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use switchboard_store::SystemClock;
use switchboard_store::sqlite::SqliteEngine;

use super::*;

mod importing;
mod linking;

/// A project with a ledger in it, or a place for one.
struct Project {
    home: tempfile::TempDir,
    ledger: PathBuf,
}

impl Project {
    fn new() -> Project {
        Project::with_ledger(".switchboard/switchboard.db")
    }

    fn with_ledger(path: &str) -> Project {
        let home = tempfile::tempdir().unwrap();
        let ledger = home.path().join(path);
        fs::create_dir_all(ledger.parent().unwrap()).unwrap();
        Project { home, ledger }
    }

    fn swarm(&self) -> SwarmDb {
        SwarmDb::new(self.home.path(), &self.ledger)
    }

    fn path(&self) -> PathBuf {
        self.swarm().path()
    }

    /// What a start of the hub does with it.
    fn start(&self) -> Result<Told, Refused> {
        let plan = self.swarm().plan()?;
        self.open();
        plan.carry_out()
    }

    /// The ledger's schema is there after this.
    fn open(&self) {
        let clock = Box::new(SystemClock::new());
        drop(SqliteEngine::open(&self.ledger, clock).unwrap());
    }

    /// A database as Jetpack's tools make it.
    fn old(&self, sql: &str) -> Connection {
        fs::create_dir_all(self.swarm().folder()).unwrap();
        let db = Connection::open(self.path()).unwrap();
        db.execute_batch(sql).unwrap();
        db
    }

    fn numbers(&self, sql: &str) -> i64 {
        let db = Connection::open(&self.ledger).unwrap();
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn texts(&self, sql: &str) -> Vec<String> {
        let db = Connection::open(&self.ledger).unwrap();
        let mut statement = db.prepare(sql).unwrap();
        let found = statement.query_map([], |row| row.get(0)).unwrap();
        found.collect::<Result<_, _>>().unwrap()
    }

    fn kept(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.swarm().folder())
            .unwrap()
            .map(|found| found.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "swarm.db")
            .collect();
        names.sort();
        names
    }

    #[track_caller]
    fn is_linked(&self) {
        assert_eq!(self.swarm().look(), LinkState::Linked);
        let target = fs::read_link(self.path()).unwrap();
        assert!(target.is_relative(), "{target:?}");
        let real = fs::canonicalize(self.path()).unwrap();
        assert_eq!(real, fs::canonicalize(&self.ledger).unwrap());
    }
}

/// The tables of the notes, as a tool makes them today.
const SCHEMA: &str = "
CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, description TEXT, status TEXT NOT NULL DEFAULT 'pending',
  priority TEXT NOT NULL DEFAULT 'medium', priority_order INTEGER GENERATED ALWAYS AS (CASE priority WHEN 'critical' THEN 0
    WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END) STORED, type TEXT NOT NULL DEFAULT 'code', assigned_agent TEXT,
  claimed_at TEXT, dependencies TEXT DEFAULT '[]', blockers TEXT DEFAULT '[]', required_skills TEXT DEFAULT '[]',
  files TEXT DEFAULT '[]', started_at TEXT, completed_at TEXT, estimated_minutes INTEGER, actual_minutes INTEGER,
  retry_count INTEGER DEFAULT 0, max_retries INTEGER DEFAULT 2, last_error TEXT, failure_type TEXT, next_retry_at TEXT,
  previous_agents TEXT DEFAULT '[]', result TEXT, branch TEXT, quality_snapshot_id TEXT,
  created_at TEXT DEFAULT (datetime('now')), updated_at TEXT DEFAULT (datetime('now')));
CREATE TABLE agents (id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, status TEXT DEFAULT 'idle',
  skills TEXT DEFAULT '[]', max_task_minutes INTEGER DEFAULT 60, can_run_tests INTEGER DEFAULT 1,
  can_run_build INTEGER DEFAULT 1, can_access_browser INTEGER DEFAULT 0, last_heartbeat TEXT, heartbeat_count INTEGER DEFAULT 0,
  current_task_id TEXT, tasks_completed INTEGER DEFAULT 0, tasks_failed INTEGER DEFAULT 0, total_runtime_minutes REAL DEFAULT 0,
  machine_id TEXT, machine_hostname TEXT, pid INTEGER, registered_at TEXT DEFAULT (datetime('now')), last_active_at TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, type TEXT NOT NULL, from_agent TEXT NOT NULL, to_agent TEXT, payload TEXT,
  ack_required INTEGER DEFAULT 0, acknowledged_at TEXT, acknowledged_by TEXT, delivered_at TEXT, expires_at TEXT,
  created_at TEXT DEFAULT (datetime('now')));
CREATE TABLE leases (file_path TEXT PRIMARY KEY, agent_id TEXT NOT NULL, task_id TEXT, acquired_at TEXT, expires_at TEXT,
  renewed_count INTEGER DEFAULT 0);
CREATE TABLE quality_snapshots (id TEXT PRIMARY KEY, task_id TEXT, agent_id TEXT, build_success INTEGER, type_errors INTEGER,
  lint_errors INTEGER, tests_passing INTEGER, test_coverage REAL, build_output TEXT, recorded_at TEXT);
CREATE TABLE quality_baseline (id INTEGER PRIMARY KEY, build_success INTEGER, type_errors INTEGER, set_by TEXT, updated_at TEXT);
CREATE TABLE migrations (id INTEGER PRIMARY KEY, name TEXT UNIQUE, applied_at TEXT);
CREATE TABLE swarm_metadata (key TEXT PRIMARY KEY, value TEXT, updated_at TEXT);
INSERT INTO swarm_metadata VALUES ('schema_version', '1', datetime('now')), ('created_at', '2026-01-01', datetime('now'));
";

//! The ceiling of the disk: what one writer on SQLite can make durable, without a hub around it.
//!
//! One operation is what the hub's verbs come down to: a task row as wide as the public table is changed, and one event row is
//! appended. The writer keeps WAL and `synchronous=FULL`, as the hub does, and commits 1, 64 or 256 operations at a time.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rusqlite::{Connection, params};

use crate::histogram::Histogram;
use crate::report::{SqliteRow, SyncRow};

/// Operations per commit that are measured.
pub const BATCHES: [u64; 3] = [1, 64, 256];
const TASKS: u64 = 20_000;
const SYNC_BYTES: usize = 4096;

const SCHEMA: &str = "
CREATE TABLE tasks (
  id TEXT PRIMARY KEY, title TEXT NOT NULL, description TEXT, status TEXT NOT NULL, priority TEXT NOT NULL, type TEXT NOT NULL,
  assigned_agent TEXT, claimed_at TEXT, dependencies TEXT DEFAULT '[]', blockers TEXT DEFAULT '[]', required_skills TEXT DEFAULT '[]',
  files TEXT DEFAULT '[]', started_at TEXT, completed_at TEXT, estimated_minutes INTEGER, actual_minutes INTEGER,
  retry_count INTEGER DEFAULT 0, max_retries INTEGER DEFAULT 2, last_error TEXT, failure_type TEXT, next_retry_at TEXT,
  previous_agents TEXT DEFAULT '[]', result TEXT, branch TEXT, quality_snapshot_id TEXT, created_at TEXT, updated_at TEXT,
  epoch INTEGER DEFAULT 0, rev INTEGER DEFAULT 1);
CREATE INDEX tasks_by_status ON tasks(status, priority, created_at);
CREATE TABLE events (seq INTEGER PRIMARY KEY, at TEXT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL);
";
const INSERT_TASK: &str = "INSERT INTO tasks (id, title, description, status, priority, type, required_skills, created_at, updated_at)
  VALUES (?1, ?2, 'Written by the bench.', 'ready', 'medium', 'code', '[\"rust\"]', ?3, ?3)";
const CHANGE_TASK: &str = "UPDATE tasks SET status = ?2, assigned_agent = ?3, claimed_at = ?4, started_at = ?4, completed_at = ?5, result = ?6,
  updated_at = ?4, epoch = epoch + 1, rev = rev + 1 WHERE id = ?1";
const APPEND_EVENT: &str = "INSERT INTO events (seq, at, type, body) VALUES (?1, ?2, ?3, ?4)";
const NOW: &str = "2026-01-19T12:00:00.000Z";
const RESULT: &str =
    r#"{"filesCreated":[],"filesModified":["src/lib.rs"],"filesDeleted":[],"summary":"done"}"#;

/// Measures each batch size for the given time.
pub fn measure(dir: &Path, measure_for: Duration) -> anyhow::Result<Vec<SqliteRow>> {
    let mut writer = Writer::open(&dir.join("ceiling.db"))?;
    BATCHES
        .iter()
        .map(|&batch| writer.measure(batch, measure_for))
        .collect()
}

/// Measures the disk itself: append 4 KiB, sync, again.
pub fn measure_sync(dir: &Path, measure_for: Duration) -> anyhow::Result<SyncRow> {
    let mut file = std::fs::File::create(dir.join("append")).context("cannot write to the disk")?;
    let block = [7u8; SYNC_BYTES];
    let mut latency = Histogram::default();
    let started_at = Instant::now();
    while started_at.elapsed() < measure_for {
        let sent_at = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        latency.record(sent_at.elapsed());
    }
    Ok(SyncRow {
        syncs_per_s: latency.total() as f64 / started_at.elapsed().as_secs_f64(),
        p50_ms: latency.quantile_ms(0.5),
        p99_ms: latency.quantile_ms(0.99),
    })
}

struct Writer {
    connection: Connection,
    operations: u64,
}

impl Writer {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(path).context("cannot open a database for the bench")?;
        let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
        ensure!(
            mode == "wal",
            "SQLite refuses WAL on this disk (it says {mode})"
        );
        connection.execute_batch("PRAGMA synchronous=FULL; PRAGMA cache_size=-16000;")?;
        connection.execute_batch(SCHEMA)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for number in 0..TASKS {
            connection.prepare_cached(INSERT_TASK)?.execute(params![
                task_id(number),
                format!("Task {number}"),
                NOW
            ])?;
        }
        connection.execute_batch("COMMIT")?;
        Ok(Self {
            connection,
            operations: 0,
        })
    }

    fn measure(&mut self, batch: u64, measure_for: Duration) -> anyhow::Result<SqliteRow> {
        let mut latency = Histogram::default();
        let started_at = Instant::now();
        while started_at.elapsed() < measure_for {
            let sent_at = Instant::now();
            self.commit(batch)?;
            latency.record(sent_at.elapsed());
        }
        let operations = (latency.total() * batch) as f64;
        let operations_per_s = operations / started_at.elapsed().as_secs_f64();
        Ok(SqliteRow {
            operations_per_commit: batch,
            operations_per_s,
            rows_per_s: operations_per_s * 2.0,
            p50_ms: latency.quantile_ms(0.5),
            p99_ms: latency.quantile_ms(0.99),
        })
    }

    fn commit(&mut self, batch: u64) -> anyhow::Result<()> {
        self.connection
            .prepare_cached("BEGIN IMMEDIATE")?
            .execute([])?;
        for _ in 0..batch {
            self.write_one()?;
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Changes one task and appends its event; every task is claimed and completed in turn.
    fn write_one(&mut self) -> anyhow::Result<()> {
        let id = task_id((self.operations / 2) % TASKS);
        let agent = "bench-7";
        let (status, event, completed_at, result) = if self.operations.is_multiple_of(2) {
            ("claimed", "TaskClaimed", None, None)
        } else {
            ("completed", "TaskCompleted", Some(NOW), Some(RESULT))
        };
        self.operations += 1;
        let body = format!(r#"{{"task":"{id}","agent":"{agent}","epoch":1,"status":"{status}"}}"#);
        self.connection
            .prepare_cached(CHANGE_TASK)?
            .execute(params![id, status, agent, NOW, completed_at, result])?;
        self.connection
            .prepare_cached(APPEND_EVENT)?
            .execute(params![self.operations.cast_signed(), NOW, event, body])?;
        Ok(())
    }
}

fn task_id(number: u64) -> String {
    format!("tsk_01J{number:023}")
}

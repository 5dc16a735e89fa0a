//! Direct SQL beside HTTP: a hub on a file, and a client that knows nothing but the public tables.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use serde_json::Value;
use switchboard_core::Timestamp;
use switchboard_core::verb::Serve;
use switchboard_hub::Running;
use switchboard_hub::config::Config;
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Engine, ManualClock};
use tempfile::TempDir;

use crate::harness::{Client, TestHub, config};
use crate::world::eventually;

/// A ledger in a file, to be served and to be written by hand.
pub struct File {
    pub clock: ManualClock,
    home: TempDir,
}

impl File {
    /// SQLite tells the time to the triggers, so the ledger's begins there.
    pub fn new() -> File {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        File {
            clock: ManualClock::at(Timestamp(i64::try_from(now.as_millis()).unwrap())),
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// Another file, under the same time.
    pub fn beside(other: &File) -> File {
        File {
            clock: other.clock.clone(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.home.path().join("ledger.db")
    }

    pub fn engine(&self) -> SqliteEngine {
        SqliteEngine::open(&self.path(), Box::new(self.clock.clone())).unwrap()
    }

    /// A program that opens the file as those of this world do.
    pub fn client(&self) -> Connection {
        let client = Connection::open(self.path()).unwrap();
        client.busy_timeout(Duration::from_secs(20)).unwrap();
        client
    }

    pub async fn serve(&self) -> TestHub {
        self.serve_as(Box::new(self.engine()), |_| {}).await
    }

    pub async fn serve_as(
        &self,
        engine: Box<dyn Engine>,
        change: impl FnOnce(&mut Config),
    ) -> TestHub {
        let home = tempfile::tempdir().unwrap();
        let mut config = config(home.path());
        change(&mut config);
        let running = Running::start_with(config, engine, "sqlite").await.unwrap();
        let client = Client { addr: running.addr };
        TestHub {
            running,
            client,
            home,
        }
    }
}

/// A hub that serves a file, and a hand beside it.
pub struct Mixed {
    pub file: File,
    pub hub: TestHub,
    pub hand: Connection,
}

impl Mixed {
    pub async fn start() -> Mixed {
        Self::start_as(|_| {}).await
    }

    pub async fn start_as(change: impl FnOnce(&mut Config)) -> Mixed {
        Self::of(File::new(), change).await
    }

    pub async fn of(file: File, change: impl FnOnce(&mut Config)) -> Mixed {
        let hub = file.serve_as(Box::new(file.engine()), change).await;
        Mixed {
            hand: file.client(),
            hub,
            file,
        }
    }

    /// Writes by hand, and waits until the hub has taken it in.
    pub async fn sql(&self, sql: &str) {
        written(&self.hand, sql);
        self.taken_in().await;
    }

    pub async fn taken_in(&self) {
        eventually(async || all(&self.hand, "SELECT n FROM sb_hand").is_empty()).await;
    }

    /// Time goes by while the hub serves.
    pub async fn wait(&self, span: Duration) {
        let step = Duration::from_secs(4);
        let mut left = span;
        while !left.is_zero() {
            self.file.clock.advance(step.min(left));
            left = left.saturating_sub(step);
            let served = self.hub.running.hub.run(Serve { starting: false }).await;
            served.unwrap();
        }
    }

    /// A column of a row, as text.
    pub fn one(&self, sql: &str) -> String {
        all(&self.hand, sql).swap_remove(0).swap_remove(0)
    }

    /// Events after a number, without it.
    pub async fn events(&self, after: u64) -> Vec<Value> {
        let path = format!("/api/v1/events?after={after}&limit=1000");
        let page = self.hub.client.get(&path).await.expect(200);
        page["events"].as_array().unwrap().clone()
    }

    /// The kinds of events after a number.
    pub async fn said(&self, after: u64) -> Vec<String> {
        let events = self.events(after).await;
        let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
        events.iter().map(kind).collect()
    }

    pub async fn latest(&self) -> u64 {
        let status = self.hub.client.get("/api/v1/status").await.expect(200);
        status["events"]["latest"].as_u64().unwrap()
    }

    pub async fn task(&self, id: &str) -> Value {
        let path = format!("/api/v1/tasks/{id}");
        self.hub.client.get(&path).await.expect(200)["task"].clone()
    }

    pub async fn agent(&self, id: &str) -> Value {
        let path = format!("/api/v1/agents/{id}");
        self.hub.client.get(&path).await.expect(200)["agent"].clone()
    }

    pub async fn stop(self) {
        self.hub.running.shutdown().await;
    }
}

#[track_caller]
pub fn written(hand: &Connection, sql: &str) {
    if let Err(error) = hand.execute_batch(sql) {
        panic!("{error}: {sql}");
    }
}

/// The rows of a query, as text.
pub fn all(db: &Connection, sql: &str) -> Vec<Vec<String>> {
    let mut statement = db
        .prepare(sql)
        .unwrap_or_else(|error| panic!("{error}: {sql}"));
    let width = statement.column_count();
    let text = |value: rusqlite::types::Value| match value {
        rusqlite::types::Value::Null => "null".to_owned(),
        rusqlite::types::Value::Integer(value) => value.to_string(),
        rusqlite::types::Value::Real(value) => value.to_string(),
        rusqlite::types::Value::Text(value) => value,
        rusqlite::types::Value::Blob(value) => format!("{value:?}"),
    };
    let rows = statement.query_map([], |row| {
        (0..width).map(|at| row.get(at).map(text)).collect()
    });
    rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

/// The document's claim, word for word but for the place of its parameters: agent, skills, excluded ids.
pub const DOCUMENTS_CLAIM: &str = "UPDATE tasks
SET status = 'claimed',
    assigned_agent = :agentId,
    claimed_at = CURRENT_TIMESTAMP
WHERE id = (
  SELECT id FROM tasks
  WHERE status = 'ready'
    AND (required_skills IS NULL OR :agentSkills LIKE '%' || required_skills || '%')
    AND id NOT IN (:excludeIds)
    -- Check dependencies are complete
    AND NOT EXISTS (
      SELECT 1 FROM json_each(dependencies) AS dep
      WHERE dep.value IN (
        SELECT id FROM tasks WHERE status != 'completed'
      )
    )
  ORDER BY
    CASE priority
      WHEN 'critical' THEN 0
      WHEN 'high' THEN 1
      WHEN 'medium' THEN 2
      WHEN 'low' THEN 3
    END,
    created_at ASC
  LIMIT 1
)
RETURNING *;";

/// The same with skills as sets.
pub const CORRECTED_CLAIM: &str = "UPDATE tasks
SET status = 'claimed', assigned_agent = :agentId, claimed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), epoch = epoch + 1
WHERE id = (
  SELECT id FROM tasks t WHERE status = 'ready'
    AND NOT EXISTS (SELECT 1 FROM json_each(t.required_skills) need
      WHERE lower(need.value) NOT IN (SELECT lower(value) FROM json_each(:agentSkills)))
    AND id NOT IN (SELECT value FROM json_each(:excludeIds))
  ORDER BY priority_order, created_at, number LIMIT 1
)
RETURNING *;";

/// Claims by hand; the id of the task, if there was one.
pub fn claim(
    hand: &Connection,
    sql: &str,
    agent: &str,
    skills: &str,
    excluded: &str,
) -> Option<String> {
    let mut statement = hand.prepare(sql).unwrap();
    let params = rusqlite::named_params! {":agentId": agent, ":agentSkills": skills, ":excludeIds": excluded};
    let mut rows = statement.query(params).unwrap();
    let id = rows.next().unwrap().map(|row| row.get("id").unwrap());
    assert!(rows.next().unwrap().is_none(), "one claim takes one task");
    id
}

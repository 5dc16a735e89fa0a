//! Agents that know only the tables: on the file, or by libSQL's protocol. The statements are those of
//! `docs/direct-sql.md`.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, types::ValueRef};
use serde_json::{Value, json};
use switchboard_client::Client;
use tokio::time::sleep;

use super::world::{Held, stuck};
use crate::failure::Failure;

/// How often to look for something to do.
const POLL_EVERY: Duration = Duration::from_millis(200);
const BUSY_FOR: Duration = Duration::from_secs(5);
/// The file is locked by others: again, so often, after so long.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

const REGISTER: &str =
    "INSERT INTO agents (id, name, type, skills, max_task_minutes, can_run_tests, can_run_build,
    can_access_browser, last_heartbeat)
  VALUES (:agent, :agent, 'custom', :skills, 60, 1, 1, 0, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))";
const CLAIM: &str = "UPDATE tasks
  SET status = 'claimed', assigned_agent = :agent, epoch = epoch + 1,
    claimed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
  WHERE id = (
    SELECT t.id FROM agents a JOIN tasks t ON t.status = 'ready'
    WHERE a.id = :agent AND a.status <> 'shutting_down'
      AND CASE WHEN t.audience <> '[]' THEN EXISTS (SELECT 1 FROM json_each(t.audience) one WHERE one.value = a.id)
          ELSE NOT EXISTS (SELECT 1 FROM json_each(t.required_skills) need
            WHERE lower(need.value) NOT IN (SELECT lower(has.value) FROM json_each(a.skills) has)) END
      AND (t.barred IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(t.barred) kept WHERE kept.value = a.id))
      AND NOT EXISTS (SELECT 1 FROM json_each(t.dependencies) dep JOIN tasks d ON d.id = dep.value
        WHERE d.status <> 'completed')
    ORDER BY t.priority_order, t.created_at LIMIT 1)
  RETURNING id, number, epoch";
const COMPLETE: &str = "UPDATE tasks
  SET status = 'completed', result = :result, completed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
  WHERE id = :task AND assigned_agent = :agent AND epoch = :epoch AND status IN ('claimed', 'in_progress')
  RETURNING id";
const FAIL: &str = "UPDATE tasks
  SET status = 'pending_retry', failure_type = 'task_error', last_error = :result
  WHERE id = :task AND assigned_agent = :agent AND epoch = :epoch AND status IN ('claimed', 'in_progress')
  RETURNING id";
const ACKNOWLEDGE: &str = "UPDATE messages
  SET delivered_at = coalesce(delivered_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    acknowledged_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), acknowledged_by = :agent
  WHERE to_agent = :agent AND acknowledged_at IS NULL AND ack_required
  RETURNING id";

/// One agent's way to the tables.
pub struct Tables {
    pub agent: String,
    pub way: Way,
}

pub enum Way {
    File(Connection),
    /// With a token of scope `sql`.
    LibSql(Client),
}

impl Way {
    pub fn file(path: &Path) -> Result<Way, rusqlite::Error> {
        let file = Connection::open(path)?;
        file.busy_timeout(BUSY_FOR)?;
        file.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(Way::File(file))
    }
}

impl Tables {
    pub async fn register(&mut self, skills: &[&str]) -> Result<(), Failure> {
        let skills = json!(skills).to_string();
        self.run(REGISTER, &[("skills", skills.into())]).await?;
        Ok(())
    }

    /// Waits a moment if there is nothing to do.
    pub async fn claim(&mut self) -> Result<Option<Held>, Failure> {
        let rows = self.run(CLAIM, &[]).await?;
        let Some([id, number, epoch]) = rows.first().map(Vec::as_slice) else {
            sleep(POLL_EVERY).await;
            return Ok(None);
        };
        Ok(Some(Held {
            id: id.as_str().unwrap_or_default().to_owned(),
            number: count(number),
            epoch: count(epoch),
            files: Vec::new(),
        }))
    }

    /// Whether it was still this agent's.
    pub async fn complete(&mut self, held: &Held) -> Result<bool, Failure> {
        let result = json!({ "summary": format!("done by {}", self.agent) });
        self.end(COMPLETE, held, result.to_string()).await
    }

    pub async fn fail(&mut self, held: &Held) -> Result<bool, Failure> {
        self.end(FAIL, held, "it did not compile".to_owned()).await
    }

    async fn end(&mut self, sql: &str, held: &Held, result: String) -> Result<bool, Failure> {
        let given = [
            ("task", held.id.clone().into()),
            ("epoch", held.epoch.into()),
            ("result", result.into()),
        ];
        Ok(!self.run(sql, &given).await?.is_empty())
    }

    /// Acknowledges what is there, and says how much it was.
    pub async fn mail(&mut self) -> Result<usize, Failure> {
        Ok(self.run(ACKNOWLEDGE, &[]).await?.len())
    }

    async fn run(
        &mut self,
        sql: &str,
        given: &[(&str, Value)],
    ) -> Result<Vec<Vec<Value>>, Failure> {
        let agent = Value::from(self.agent.clone());
        let given = [&[("agent", agent)], given].concat();
        for _ in 0..TRIES {
            let done = match &mut self.way {
                Way::File(file) => on_file(file, sql, &given).map_err(|error| error.to_string()),
                Way::LibSql(client) => by_libsql(client, sql, &given).await?,
            };
            match done {
                Err(why) if why.contains("locked") || why.contains("BUSY") => sleep(PAUSE).await,
                done => return done.map_err(|why| stuck(&self.agent, why)),
            }
        }
        Err(stuck(&self.agent, "the file is locked by others"))
    }
}

fn on_file(
    file: &Connection,
    sql: &str,
    given: &[(&str, Value)],
) -> Result<Vec<Vec<Value>>, rusqlite::Error> {
    let mut statement = file.prepare_cached(sql)?;
    for (name, value) in given {
        if let Some(at) = statement.parameter_index(&format!(":{name}"))? {
            match value {
                Value::Number(number) => statement.raw_bind_parameter(at, number.as_i64())?,
                value => statement.raw_bind_parameter(at, value.as_str())?,
            }
        }
    }
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    let mut all = Vec::new();
    // To the end: what returns rows commits with the last one.
    while let Some(row) = rows.next()? {
        let cell = |at| row.get_ref(at).map(plain);
        all.push((0..columns).map(cell).collect::<Result<_, _>>()?);
    }
    Ok(all)
}

fn plain(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::Null,
    }
}

/// The rows, or why SQLite refused.
async fn by_libsql(
    client: &Client,
    sql: &str,
    given: &[(&str, Value)],
) -> Result<Result<Vec<Vec<Value>>, String>, Failure> {
    let args = given
        .iter()
        .filter(|(name, _)| sql.contains(&format!(":{name}")));
    let args: Vec<Value> = args
        .map(|(name, value)| match value {
            Value::Number(number) => {
                json!({ "name": name, "value": { "type": "integer", "value": number.to_string() } })
            }
            value => json!({ "name": name, "value": { "type": "text", "value": value } }),
        })
        .collect();
    let request = json!({ "requests": [
        { "type": "execute", "stmt": { "sql": sql, "named_args": args, "want_rows": true } },
        { "type": "close" },
    ] });
    let answer = client.admin().pipeline(&request).await?;
    let first = &answer["results"][0];
    let Some(rows) = first["response"]["result"]["rows"].as_array() else {
        return Ok(Err(first["error"].to_string()));
    };
    let cells = |row: &Value| {
        let cells = row.as_array().into_iter().flatten();
        cells.map(|cell| cell["value"].clone()).collect()
    };
    Ok(Ok(rows.iter().map(cells).collect()))
}

/// libSQL writes whole numbers as text.
fn count(value: &Value) -> u64 {
    let text = value.as_str().and_then(|text| text.parse().ok());
    value.as_u64().or(text).unwrap_or_default()
}

//! Rows as a hand would have inserted them, and their notes. What is there under the same id stays: then it is false.

use rusqlite::{Connection, Result, params};
use switchboard_core::{TaskStatus, Timestamp};

use super::super::old::{Agent, Baseline, Message, Snapshot, Task};
use super::text;

/// New rows are numbered downwards from here, until the hub gives them numbers of its own.
pub fn lowest_number(db: &Connection, table: &'static str) -> Result<i64> {
    let sql = format!("SELECT min(0, coalesce(min(number), 0)) FROM {table}");
    db.query_row(&sql, [], |row| row.get(0))
}

pub fn has_task(db: &Connection, id: &str) -> Result<bool> {
    db.prepare_cached("SELECT 1 FROM tasks WHERE id = ?1")?
        .exists([id])
}

pub fn has_agent(db: &Connection, id: &str) -> Result<bool> {
    db.prepare_cached("SELECT 1 FROM agents WHERE id = ?1")?
        .exists([id])
}

/// Notes one row, as it stands now.
pub fn note(db: &Connection, table: &'static str, key: &'static str, id: &str) -> Result<()> {
    let sql = noting(db, table, key, &format!("{key} = ?1"))?;
    db.prepare_cached(&sql)?.execute([id])?;
    Ok(())
}

/// Notes many rows; `which` is a condition and may give an order.
pub fn note_where(
    db: &Connection,
    table: &'static str,
    key: &'static str,
    which: &str,
) -> Result<()> {
    let sql = noting(db, table, key, which)?;
    db.execute(&sql, [])?;
    Ok(())
}

/// Large texts are taken from the row itself when its note is read.
const TEXTS: [&str; 3] = ["description", "result", "payload"];

fn noting(db: &Connection, table: &str, key: &str, which: &str) -> Result<String> {
    // Without what is generated from other columns.
    let mut columns = db.prepare_cached("SELECT name FROM pragma_table_info(?1)")?;
    let names: Vec<String> = columns
        .query_map([table], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let pairs: Vec<String> = names
        .iter()
        .filter(|name| !TEXTS.contains(&name.as_str()))
        .map(|name| format!("'{name}', {name}"))
        .collect();
    Ok(format!(
        "INSERT INTO sb_hand(tbl, key, deed, became)
         SELECT '{table}', {key}, 'insert', json_object({}) FROM {table} WHERE {which}",
        pairs.join(", ")
    ))
}

/// None of them is there any more; what they did before goes where the hub looks for former agents.
pub fn agent(db: &Connection, agent: &Agent) -> Result<bool> {
    let put = db
        .prepare_cached(
            "INSERT OR IGNORE INTO agents(id, name, type, status, skills, max_task_minutes, can_run_tests, can_run_build,
               can_access_browser, machine_id, machine_hostname, pid, tasks_completed, tasks_failed, registered_at,
               last_heartbeat, last_active_at, presence, presence_at, seen_at, runtime_ms)
             VALUES (?1, ?2, ?3, 'offline', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15, 'gone', ?16, ?16, ?17)",
        )?
        .execute(params![
            agent.id,
            agent.name,
            agent.kind.as_str(),
            list(&agent.skills),
            agent.max_task_minutes,
            agent.can_run_tests,
            agent.can_run_build,
            agent.can_access_browser,
            agent.machine_id,
            agent.machine_hostname,
            agent.pid,
            signed(agent.completed),
            signed(agent.failed),
            text(agent.registered_at),
            text(agent.seen_at),
            agent.seen_at.0,
            signed(agent.runtime_ms),
        ])?;
    if put == 0 {
        return Ok(false);
    }
    db.prepare_cached(
        "INSERT OR IGNORE INTO sb_former_agent(id, name, completed, failed, runtime_ms, registered_at, gone_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        agent.id,
        agent.name,
        signed(agent.completed),
        signed(agent.failed),
        signed(agent.runtime_ms),
        agent.registered_at.0,
        agent.seen_at.0,
    ])?;
    Ok(true)
}

pub fn task(db: &Connection, number: i64, task: &Task) -> Result<bool> {
    let put = db
        .prepare_cached(
            "INSERT OR IGNORE INTO tasks(number, id, title, description, status, priority, type, assigned_agent, dependencies,
               required_skills, files, started_at, completed_at, estimated_minutes, actual_minutes, retry_count, max_retries,
               last_error, failure_type, next_retry_at, previous_agents, result, branch, quality_snapshot_id, created_at,
               updated_at, state_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
               ?23, ?24, ?25, ?26, ?27)",
        )?
        .execute(params![
            number,
            task.id,
            task.title,
            task.description,
            task.status.as_str(),
            task.priority.as_str(),
            task.kind.as_str(),
            task.assigned_agent,
            list(&task.dependencies),
            list(&task.required_skills),
            list(&task.files),
            task.started_at.map(text),
            task.completed_at.map(text),
            task.estimated_minutes,
            task.actual_minutes,
            task.retries,
            task.max_retries,
            task.last_error,
            task.failure.map(|kind| kind.as_str()),
            task.next_retry_at.map(text),
            list(&task.previous_agents),
            task.result,
            task.branch,
            task.snapshot,
            text(task.created_at),
            text(task.updated_at),
            since(task).0,
        ])?;
    Ok(put > 0)
}

/// The instant that belongs to its state: until when it waits, or since when it is as it is.
fn since(task: &Task) -> Timestamp {
    let at = match task.status {
        TaskStatus::RetryWait => task.next_retry_at,
        TaskStatus::NeedsPerson
        | TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Canceled => task.completed_at,
        TaskStatus::Waiting | TaskStatus::Ready | TaskStatus::Claimed | TaskStatus::InProgress => {
            None
        }
    };
    at.unwrap_or(task.updated_at)
}

pub fn message(db: &Connection, number: i64, message: &Message) -> Result<bool> {
    let put = db
        .prepare_cached(
            "INSERT OR IGNORE INTO messages(number, id, type, from_agent, to_agent, payload, ack_required, expires_at,
               created_at, corr_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?2)",
        )?
        .execute(params![
            number,
            message.id,
            message.kind,
            message.from,
            message.to,
            message.payload,
            message.ack_required,
            message.expires_at.map(text),
            text(message.created_at),
        ])?;
    Ok(put > 0)
}

/// Nothing else hangs on them, so they need no note.
pub fn snapshot(db: &Connection, snapshot: &Snapshot) -> Result<bool> {
    let [build, types, lint, tests] = &snapshot.outputs;
    let measured = &snapshot.measured;
    let put = db
        .prepare_cached(
            "INSERT OR IGNORE INTO quality_snapshots(id, task_id, agent_id, build_success, build_time_ms, type_errors,
               lint_errors, lint_warnings, tests_passing, tests_failing, tests_skipped, test_coverage, test_time_ms,
               build_output, type_output, lint_output, test_output, recorded_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?
        .execute(params![
            snapshot.id,
            snapshot.task,
            snapshot.agent,
            measured.build_success,
            snapshot.build_time_ms,
            measured.type_errors,
            measured.lint_errors,
            measured.lint_warnings,
            measured.tests_passing,
            measured.tests_failing,
            snapshot.tests_skipped,
            measured.test_coverage,
            snapshot.test_time_ms,
            build,
            types,
            lint,
            tests,
            text(snapshot.recorded_at),
        ])?;
    Ok(put > 0)
}

pub fn baseline(db: &Connection, baseline: &Baseline) -> Result<bool> {
    let measured = &baseline.measured;
    let put = db.execute(
        "INSERT OR IGNORE INTO quality_baseline(id, build_success, type_errors, lint_errors, lint_warnings, tests_passing,
           tests_failing, test_coverage, set_by, created_at, updated_at)
         VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            measured.build_success.unwrap_or(false),
            measured.type_errors,
            measured.lint_errors,
            measured.lint_warnings,
            measured.tests_passing,
            measured.tests_failing,
            measured.test_coverage,
            baseline.set_by,
            text(baseline.created_at),
            text(baseline.updated_at),
        ],
    )?;
    Ok(put > 0)
}

fn list(items: &[String]) -> String {
    serde_json::Value::from(items).to_string()
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

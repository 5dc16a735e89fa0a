//! The row of a task, in the groups of columns that change together.

use rusqlite::{Connection, params};
use switchboard_core::Task;

use super::Result;
use crate::columns::{shown, store_progress, watch, worked_minutes};
use crate::sqlite::load::signed;
use crate::sqlite::text::{Iso, list};

pub(super) fn insert_task(db: &Connection, task: &Task) -> Result {
    let shown = shown(task);
    db.prepare_cached(
        "INSERT INTO tasks(number, id, title, description, status, priority, type, dependencies, blockers, required_skills,
           files, estimated_minutes, branch, audience, on_dependency_failure, corr_id, retry_count, max_retries, failure_type,
           last_error, dependants, lane, created_at, updated_at, rev, state_at, when_spent)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        signed(task.number),
        task.id.as_str(),
        task.title,
        task.description,
        task.status().as_str(),
        task.priority.as_str(),
        task.kind.as_str(),
        list(task.dependencies.iter().map(|id| id.as_str())),
        list(task.blockers.iter().map(|id| id.as_str())),
        list(task.required_skills.iter()),
        list(&task.files),
        task.estimated_minutes,
        task.branch,
        list(task.audience.iter().map(|id| id.as_str())),
        task.on_dependency_failure.as_str(),
        task.corr_id.as_str(),
        task.retries,
        task.max_retries,
        task.last_failure.as_ref().map(|failure| failure.kind.as_str()),
        task.last_failure.as_ref().map(|failure| failure.message.as_str()),
        task.dependants,
        task.lane.map(|lane| signed(lane.0)),
        Iso::new(task.created_at),
        Iso::new(task.updated_at),
        signed(task.rev),
        shown.at.0,
        task.when_spent.as_str(),
    ])?;
    for dependency in &task.dependencies {
        db.prepare_cached("INSERT OR IGNORE INTO sb_dep(needs, number, task) VALUES (?, ?, ?)")?
            .execute(params![
                dependency.as_str(),
                signed(task.number),
                task.id.as_str()
            ])?;
    }
    Ok(())
}

/// What a claim, progress and a completion touch. What people wrote stays untouched, and so do its indexes.
pub(super) fn update_task(db: &Connection, task: &Task) -> Result {
    let shown = shown(task);
    db.prepare_cached(
        "UPDATE tasks SET status = ?, assigned_agent = ?, claimed_at = ?, started_at = ?, completed_at = ?,
           actual_minutes = ?, result = ?, quality_snapshot_id = ?, updated_at = ?, rev = ?, epoch = ?, state_at = ?,
           worked_ms = ?, progress = ? WHERE number = ?",
    )?
    .execute(params![
        task.status().as_str(),
        shown.assigned,
        shown.claimed_at,
        task.started_at.map(Iso::new),
        shown.completed_at,
        worked_minutes(task),
        task.result.as_deref(),
        task.snapshot.as_ref().map(|id| id.as_str()),
        Iso::new(task.updated_at),
        signed(task.rev),
        signed(task.epoch),
        shown.at.0,
        task.worked_ms.map(signed),
        store_progress(task.progress.as_ref()),
        signed(task.number),
    ])?;
    Ok(())
}

/// Where it waits and why: the columns of retries, dependencies and lanes.
pub(super) fn requeue_task(db: &Connection, task: &Task) -> Result {
    let shown = shown(task);
    let failure = task.last_failure.as_ref();
    let (deadline_at, stale_ms, look_at) = watch(task);
    db.prepare_cached(
        "UPDATE tasks SET blockers = ?, retry_count = ?, last_error = ?, failure_type = ?, next_retry_at = ?,
           previous_agents = ?, lane = ?, dependants = ?, deadline_at = ?, stale_ms = ?, look_at = ?,
           epoch_needed = ? WHERE number = ?",
    )?
    .execute(params![
        list(task.blockers.iter().map(|id| id.as_str())),
        task.retries,
        failure.map(|failure| failure.message.as_str()),
        failure.map(|failure| failure.kind.as_str()),
        shown.next_retry_at,
        list(task.previous_agents.iter().map(|id| id.as_str())),
        task.lane.map(|lane| signed(lane.0)),
        task.dependants,
        deadline_at,
        stale_ms,
        look_at,
        task.epoch_needed,
        signed(task.number),
    ])?;
    Ok(())
}

pub(super) fn describe_task(db: &Connection, task: &Task) -> Result {
    db.prepare_cached(
        "UPDATE tasks SET title = ?, description = ?, priority = ?, type = ?, required_skills = ?, files = ?,
           estimated_minutes = ?, branch = ?, audience = ?, max_retries = ?, when_spent = ? WHERE number = ?",
    )?
    .execute(params![
        task.title,
        task.description,
        task.priority.as_str(),
        task.kind.as_str(),
        list(task.required_skills.iter()),
        list(&task.files),
        task.estimated_minutes,
        task.branch,
        list(task.audience.iter().map(|id| id.as_str())),
        task.max_retries,
        task.when_spent.as_str(),
        signed(task.number),
    ])?;
    Ok(())
}

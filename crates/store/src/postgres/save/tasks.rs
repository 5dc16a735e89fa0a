//! Rows of tasks, in the groups of columns that change together.

use std::sync::LazyLock;

use switchboard_core::Task;
use switchboard_core::slice::Save;

use super::shape::{insert, update, upsert};
use crate::columns::{shown, store_progress, watch, worked_minutes};
use crate::postgres::by_hand::Hand;
use crate::postgres::rows::{Batch, signed};
use crate::postgres::session::Query;
use crate::text::{Iso, list};

const NEW: [&str; 27] = [
    "number",
    "id",
    "title",
    "description",
    "status",
    "priority",
    "type",
    "dependencies",
    "blockers",
    "required_skills",
    "files",
    "estimated_minutes",
    "branch",
    "audience",
    "on_dependency_failure",
    "corr_id",
    "retry_count",
    "max_retries",
    "failure_type",
    "last_error",
    "dependants",
    "lane",
    "created_at",
    "updated_at",
    "rev",
    "state_at",
    "when_spent",
];
static INSERT: LazyLock<String> = LazyLock::new(|| insert("tasks", &NEW));
/// Over what a hand made of them.
static TAKE: LazyLock<String> = LazyLock::new(|| upsert("tasks", &["id"], &NEW));

/// What a claim, progress and a completion touch. What people wrote stays untouched.
const WORK: [&str; 15] = [
    "number",
    "status",
    "assigned_agent",
    "claimed_at",
    "started_at",
    "completed_at",
    "actual_minutes",
    "result",
    "quality_snapshot_id",
    "updated_at",
    "rev",
    "epoch",
    "state_at",
    "worked_ms",
    "progress",
];
/// Where it waits and why.
const QUEUE: [&str; 12] = [
    "blockers",
    "retry_count",
    "last_error",
    "failure_type",
    "next_retry_at",
    "previous_agents",
    "lane",
    "dependants",
    "deadline_at",
    "stale_ms",
    "look_at",
    "epoch_needed",
];

static UPDATE: LazyLock<String> = LazyLock::new(|| update("tasks", 1, &WORK));
static REQUEUE: LazyLock<String> =
    LazyLock::new(|| update("tasks", 1, &[&WORK[..], &QUEUE[..]].concat()));

static DESCRIBE: LazyLock<String> = LazyLock::new(|| {
    update(
        "tasks",
        1,
        &[
            "number",
            "title",
            "description",
            "priority",
            "type",
            "required_skills",
            "files",
            "estimated_minutes",
            "branch",
            "audience",
            "max_retries",
            "when_spent",
        ],
    )
});

/// With hand writes to take in, rows are written whole: a hand may have changed any part of them.
pub(super) fn save(save: &Save<'_>, hand: &Hand, queries: &mut Vec<Query>) {
    let (mut new, mut dependencies) = (Batch::default(), Batch::default());
    let (mut changed, mut requeued) = (Batch::default(), Batch::default());
    let mut described = Batch::default();
    for (task, put) in save.puts::<Task>() {
        if put.is_new {
            push_new(task, &mut new);
            for dependency in &task.dependencies {
                dependencies
                    .text(dependency.as_str())
                    .count(task.number)
                    .text(task.id.as_str())
                    .end();
            }
            // Otherwise it was created and taken, or failed, within one batch, or is written over a hand's row.
            if task.epoch == 0 && !task.status().is_final() && !hand.is_noted() {
                continue;
            }
        } else if hand.is_noted() || put.has(Task::DESCRIBED) {
            push_description(task, &mut described);
        }
        if put.is_new || hand.is_noted() || put.has(Task::QUEUED) {
            push_work(task, &mut requeued);
            push_queue(task, &mut requeued);
            requeued.end();
        } else {
            push_work(task, &mut changed);
            changed.end();
        }
    }
    let insert = match hand.is_noted() {
        true => &TAKE,
        false => &INSERT,
    };
    for (sql, batch) in [
        (insert, new),
        (&DESCRIBE, described),
        (&REQUEUE, requeued),
        (&UPDATE, changed),
    ] {
        if !batch.is_empty() {
            queries.push(Query::rows(sql.as_str(), batch));
        }
    }
    if !dependencies.is_empty() {
        let sql = "INSERT INTO sb_dep(needs, number, task) SELECT * FROM unnest($1, $2, $3) ON CONFLICT DO NOTHING";
        queries.push(Query::rows(sql, dependencies));
    }
}

pub(super) fn forget(save: &Save<'_>, queries: &mut Vec<Query>) {
    let gone: Vec<&Task> = save.drops::<Task>().filter_map(|(_, task)| task).collect();
    if gone.is_empty() {
        return;
    }
    let numbers = || gone.iter().map(|task| signed(task.number));
    let ids = gone.iter().map(|task| task.id.as_str());
    queries.push(Query::new("DELETE FROM tasks WHERE number = ANY($1)").ints(numbers()));
    queries.push(Query::new("DELETE FROM sb_attempt WHERE number = ANY($1)").ints(numbers()));
    queries.push(Query::new("DELETE FROM sb_dep WHERE needs = ANY($1)").texts(ids));
}

fn push_new(task: &Task, batch: &mut Batch) {
    let failure = task.last_failure.as_ref();
    batch
        .count(task.number)
        .text(task.id.as_str())
        .text(task.title.as_str())
        .text(task.description.as_deref())
        .text(task.status().as_str())
        .text(task.priority.as_str())
        .text(task.kind.as_str())
        .text(&*list(task.dependencies.iter().map(|id| id.as_str())))
        .text(&*list(task.blockers.iter().map(|id| id.as_str())))
        .text(&*list(task.required_skills.iter()))
        .text(&*list(&task.files))
        .int(task.estimated_minutes.map(i64::from))
        .text(task.branch.as_deref())
        .text(&*list(task.audience.iter().map(|id| id.as_str())))
        .text(task.on_dependency_failure.as_str())
        .text(task.corr_id.as_str())
        .int(i64::from(task.retries))
        .int(i64::from(task.max_retries))
        .text(failure.map(|failure| failure.kind.as_str()))
        .text(failure.map(|failure| failure.message.as_str()))
        .int(i64::from(task.dependants))
        .int(task.lane.map(|lane| signed(lane.0)))
        .text(Iso::new(task.created_at).as_str())
        .text(Iso::new(task.updated_at).as_str())
        .count(task.rev)
        .int(shown(task).at.0)
        .text(task.when_spent.as_str())
        .end();
}

fn push_work(task: &Task, batch: &mut Batch) {
    let shown = shown(task);
    let started_at = task.started_at.map(Iso::new);
    batch
        .count(task.number)
        .text(task.status().as_str())
        .text(shown.assigned)
        .text(shown.claimed_at.as_ref().map(Iso::as_str))
        .text(started_at.as_ref().map(Iso::as_str))
        .text(shown.completed_at.as_ref().map(Iso::as_str))
        .int(worked_minutes(task))
        .text(task.result.as_deref())
        .text(task.snapshot.as_ref().map(|id| id.as_str()))
        .text(Iso::new(task.updated_at).as_str())
        .count(task.rev)
        .count(task.epoch)
        .int(shown.at.0)
        .int(task.worked_ms.map(signed))
        .text(store_progress(task.progress.as_ref()).as_deref());
}

fn push_queue(task: &Task, batch: &mut Batch) {
    let (deadline_at, stale_ms, look_at) = watch(task);
    let failure = task.last_failure.as_ref();
    batch
        .text(&*list(task.blockers.iter().map(|id| id.as_str())))
        .int(i64::from(task.retries))
        .text(failure.map(|failure| failure.message.as_str()))
        .text(failure.map(|failure| failure.kind.as_str()))
        .text(shown(task).next_retry_at.as_ref().map(Iso::as_str))
        .text(&*list(task.previous_agents.iter().map(|id| id.as_str())))
        .int(task.lane.map(|lane| signed(lane.0)))
        .int(i64::from(task.dependants))
        .int(deadline_at)
        .int(stale_ms)
        .int(look_at)
        .int(i64::from(task.epoch_needed));
}

fn push_description(task: &Task, batch: &mut Batch) {
    batch
        .count(task.number)
        .text(task.title.as_str())
        .text(task.description.as_deref())
        .text(task.priority.as_str())
        .text(task.kind.as_str())
        .text(&*list(task.required_skills.iter()))
        .text(&*list(&task.files))
        .int(task.estimated_minutes.map(i64::from))
        .text(task.branch.as_deref())
        .text(&*list(task.audience.iter().map(|id| id.as_str())))
        .int(i64::from(task.max_retries))
        .text(task.when_spent.as_str())
        .end();
}

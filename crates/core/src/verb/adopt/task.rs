//! Tasks that were written by hand.

use std::sync::Arc;
use std::time::Duration;

use super::person::{Act, ByPerson};
use super::{Gauge, HandStep, Steps};
use crate::attempt::Outcome;
use crate::changes::Changes;
use crate::description::Patch;
use crate::event::Event;
use crate::id::{AgentId, STEWARD, TaskId};
use crate::lane::LaneKey;
use crate::limits;
use crate::quality::Metrics;
use crate::refusal::{NotYours, Refusal};
use crate::row::Row;
use crate::slice::Slice;
use crate::task::{Failure, FailureKind, Phase, Task, TaskState, TaskStatus};
use crate::time::Timestamp;
use crate::verb::ending::{end_claim, release_dependants, want_dependants_released, want_end};
use crate::verb::{
    Cancel, ChangeTask, Complete, CreateTasks, Fail, NewTask, ReleaseTask, ReportProgress,
    RetryTask, Review, Ruling, Verb, awake, check_holder, speaker,
};
use crate::want::Want;

/// The changes of status that a hand may make: from one public word to another. `pending` is the word of a row that
/// the hub has not seen yet.
pub const TRANSITIONS: &[(&str, &str)] = &[
    ("pending", "ready"),
    ("pending", "blocked"),
    ("pending", "claimed"),
    ("pending", "in_progress"),
    ("pending", "completed"),
    ("pending", "failed"),
    ("pending", "canceled"),
    ("ready", "pending"),
    ("ready", "claimed"),
    ("ready", "in_progress"),
    ("ready", "completed"),
    ("ready", "failed"),
    ("ready", "canceled"),
    ("blocked", "pending"),
    ("blocked", "ready"),
    ("blocked", "in_progress"),
    ("blocked", "completed"),
    ("blocked", "failed"),
    ("blocked", "canceled"),
    ("claimed", "in_progress"),
    ("claimed", "completed"),
    ("claimed", "failed"),
    ("claimed", "pending_retry"),
    ("claimed", "needs_review"),
    ("claimed", "ready"),
    ("claimed", "pending"),
    ("claimed", "canceled"),
    ("in_progress", "claimed"),
    ("in_progress", "completed"),
    ("in_progress", "failed"),
    ("in_progress", "pending_retry"),
    ("in_progress", "needs_review"),
    ("in_progress", "ready"),
    ("in_progress", "pending"),
    ("in_progress", "canceled"),
    ("pending_retry", "ready"),
    ("pending_retry", "pending"),
    ("pending_retry", "in_progress"),
    ("pending_retry", "completed"),
    ("pending_retry", "failed"),
    ("pending_retry", "canceled"),
    ("needs_review", "completed"),
    ("needs_review", "ready"),
    ("needs_review", "failed"),
    ("needs_review", "canceled"),
    ("failed", "ready"),
    ("failed", "pending"),
    ("canceled", "ready"),
    ("canceled", "pending"),
];

/// Those of them that only a steward makes: a task is canceled, ruled on, tried again, or finished though no agent held
/// it. So is one that is begun in no agent's name.
pub fn is_stewards(from: &str, to: &str) -> bool {
    matches!(
        (from, to),
        (_, "canceled")
            | ("needs_review" | "pending_retry" | "failed" | "canceled", _)
            | ("pending" | "ready" | "blocked", "completed" | "failed")
            | ("blocked", "ready" | "in_progress")
    )
}

pub(super) fn steps(
    steps: &mut Steps,
    was: Option<&Task>,
    is: Option<&Task>,
    metrics: Option<&Metrics>,
    gauge: Gauge<'_>,
) {
    match (was, is) {
        (None, Some(is)) => created(steps, is),
        (Some(was), Some(is)) => {
            let is_freed = is_freed(was, is);
            if !is_freed {
                described(steps, was, is);
            }
            moved(steps, was, is, metrics, gauge);
            if is_freed {
                described(steps, was, is);
            }
            if was.last_failure != is.last_failure || was.previous_agents != is.previous_agents {
                let (was, is) = (Box::new(was.clone()), Box::new(is.clone()));
                steps.push(Box::new(Remember { was, is }));
            }
        }
        (Some(was), None) => steps.push(Box::new(Cancel {
            task: was.id.clone(),
            reason: "deleted by hand".to_owned(),
        })),
        (None, None) => {}
    }
}

/// Held or finished before, and open now: only then may all that it says change.
fn is_freed(was: &Task, is: &Task) -> bool {
    let is_open = matches!(is.state, TaskState::Ready | TaskState::Waiting);
    is_open && (was.holder().is_some() || was.status().is_final())
}

fn created(steps: &mut Steps, is: &Task) {
    let new = NewTask {
        id: is.id.clone(),
        about: is.about.clone(),
        dependencies: is.dependencies.clone(),
        on_dependency_failure: is.on_dependency_failure,
        corr_id: crate::CorrId::new(is.id.as_str()),
    };
    steps.push(Box::new(CreateTasks { tasks: vec![new] }));
    match is.status() {
        TaskStatus::Claimed | TaskStatus::InProgress => {
            if let Some(agent) = is.holder() {
                take(steps, is, agent);
            }
        }
        TaskStatus::Waiting
        | TaskStatus::Ready
        | TaskStatus::RetryWait
        | TaskStatus::NeedsPerson
        | TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Canceled => steps.push(Box::new(Bring { task: is.clone() })),
    }
}

fn described(steps: &mut Steps, was: &Task, is: &Task) {
    let patch = Patch::between(&was.about, &is.about);
    if patch != Patch::default() {
        let task = was.id.clone();
        steps.push(Box::new(ChangeTask { task, patch }));
    }
}

fn moved(steps: &mut Steps, was: &Task, is: &Task, metrics: Option<&Metrics>, gauge: Gauge<'_>) {
    let task = was.id.clone();
    if was.status() == is.status() {
        return;
    }
    match was.holder() {
        Some(holder) if holder.as_str() == STEWARD => {
            if let Some(act) = Act::of_holder(is) {
                return steps.push(Box::new(ByPerson { task, act }));
            }
            return ended(steps, was, holder, is, metrics, gauge);
        }
        Some(holder) => return ended(steps, was, holder, is, metrics, gauge),
        None => {}
    }
    if let Some(act) = Act::of_nobody(was, is) {
        return steps.push(Box::new(ByPerson { task, act }));
    }
    match (was.status(), is.status()) {
        (_, TaskStatus::Claimed | TaskStatus::InProgress) => {
            if let Some(agent) = is.holder() {
                take(steps, is, agent);
            }
        }
        (_, TaskStatus::Canceled) => steps.push(Box::new(Cancel {
            task,
            reason: "canceled by hand".to_owned(),
        })),
        (TaskStatus::NeedsPerson, to) => {
            let ruling = match to {
                TaskStatus::Completed => Ruling::Approve,
                TaskStatus::Failed => Ruling::Drop,
                _ => Ruling::Redo,
            };
            steps.push(Box::new(Review {
                task,
                ruling,
                reason: "ruled by hand".to_owned(),
            }));
        }
        (TaskStatus::Failed | TaskStatus::Canceled, _) => steps.push(Box::new(RetryTask { task })),
        (TaskStatus::RetryWait | TaskStatus::Waiting | TaskStatus::Ready, _) => {
            steps.push(Box::new(Reopen { task }));
        }
        (TaskStatus::Claimed | TaskStatus::InProgress | TaskStatus::Completed, _) => {}
    }
}

/// What the hand made of a task that somebody held.
fn ended(
    steps: &mut Steps,
    was: &Task,
    holder: &AgentId,
    is: &Task,
    metrics: Option<&Metrics>,
    gauge: Gauge<'_>,
) {
    let task = was.id.clone();
    let agent = holder.clone();
    // A hand that wrote the row saw its epoch.
    let epoch = was.epoch_needed.then_some(was.epoch);
    let result = || is.result.clone().unwrap_or_else(|| "{}".into());
    match is.status() {
        TaskStatus::Claimed => {}
        TaskStatus::InProgress => steps.push(Box::new(start(was, holder))),
        TaskStatus::Completed => {
            let metrics = is.snapshot.clone().zip(metrics.cloned());
            let contract = was
                .contract
                .as_deref()
                .filter(|contract| contract.is_judged());
            steps.push(Box::new(Finish(Complete {
                agent,
                task,
                epoch,
                result: result(),
                learnings: Vec::new(),
                metrics,
                policy: Arc::clone(gauge.policy),
                finding: contract.map(|contract| (gauge.judge)(contract, &result())),
                evidence: Vec::new(),
            })));
        }
        TaskStatus::NeedsPerson => steps.push(Box::new(AskPerson {
            agent,
            task,
            result: result(),
        })),
        TaskStatus::Failed | TaskStatus::RetryWait => {
            let failure = failure_of(is);
            steps.push(Box::new(Fail {
                agent,
                task,
                epoch,
                kind: failure.kind,
                message: failure.message,
                details: None,
                recoverable: is.status() == TaskStatus::RetryWait,
                suggested_action: None,
                is_free: false,
            }));
        }
        TaskStatus::Ready | TaskStatus::Waiting => steps.push(Box::new(ReleaseTask {
            task,
            agent: None,
            epoch: None,
        })),
        TaskStatus::Canceled => steps.push(Box::new(Cancel {
            task,
            reason: "canceled by hand".to_owned(),
        })),
    }
}

fn take(steps: &mut Steps, is: &Task, agent: &AgentId) {
    steps.push(Box::new(Take {
        task: is.id.clone(),
        agent: agent.clone(),
        at: is.claimed_at(),
    }));
    if is.status() == TaskStatus::InProgress {
        steps.push(Box::new(start(is, agent)));
    }
}

fn start(task: &Task, agent: &AgentId) -> ReportProgress {
    ReportProgress {
        agent: agent.clone(),
        task: task.id.clone(),
        epoch: task.epoch_needed.then_some(task.epoch),
        phase: task
            .progress
            .as_ref()
            .map_or(Phase::Implementing, |progress| progress.phase),
        percent: task
            .progress
            .as_ref()
            .map_or(0, |progress| progress.percent),
        note: String::new(),
        files: Vec::new(),
    }
}

pub(super) fn failure_of(is: &Task) -> Failure {
    is.last_failure.clone().unwrap_or(Failure {
        kind: FailureKind::TaskError,
        message: "failed by hand".to_owned(),
    })
}

pub(super) fn find<'a>(slice: &'a Slice, id: &TaskId) -> Result<&'a Task, Refusal> {
    slice
        .task(id)
        .ok_or_else(|| Refusal::TaskNotFound { task: id.clone() })
}

/// A claim that was made in SQL: whatever its agent can do, it has the task.
struct Take {
    task: TaskId,
    agent: AgentId,
    /// When, as the hand wrote it.
    at: Option<Timestamp>,
}

impl HandStep for Take {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        if let Some(task) = want.task(&self.task) {
            want.lane_of(task);
            want.lane_for(&LaneKey::of(task));
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let task = find(slice, &self.task)?;
        let why = match task.status() {
            TaskStatus::Ready | TaskStatus::Waiting | TaskStatus::RetryWait => None,
            TaskStatus::Claimed | TaskStatus::InProgress => Some(NotYours::NotHolder {
                holder: task.holder().cloned(),
            }),
            status @ (TaskStatus::NeedsPerson
            | TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Canceled) => Some(NotYours::AlreadyFinished { status }),
        };
        if let Some(why) = why {
            let task = self.task.clone();
            return Err(Refusal::TaskNotYours { task, why });
        }
        let mut changes = Changes::default();
        let mut agent = awake(speaker(slice, &self.agent)?, &mut changes, now);
        if agent.holds.len() >= limits::CLAIMS_PER_AGENT_MAX {
            return Err(Refusal::TooMany {
                what: "tasks held by one agent",
                limit: limits::CLAIMS_PER_AGENT_MAX,
            });
        }
        agent.hold(&self.task, now);
        changes.put(agent);
        let (mut claimed, event) = task.clone().claim(&self.agent, now);
        // Some write whole seconds: such a one that is not over says no more than that it was just now.
        let since = Timestamp(task.created_at.0 - 1000);
        if let (TaskState::Claimed { at, .. }, Some(written)) = (&mut claimed.state, self.at)
            && (since..=now).contains(&written)
            && written.0 != now.0 - now.0 % 1000
        {
            *at = written;
        }
        changes.task((claimed, event));
        Ok(changes)
    }
}

/// A completion whose snapshot, if there is one, the hand has stored already.
struct Finish(Complete);

impl HandStep for Finish {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        Verb::asks(&self.0, want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let (_, mut changes) = Verb::decide(&self.0, slice, now)?;
        changes.puts.retain(|row| !matches!(row, Row::Snapshot(_)));
        Ok(changes)
    }
}

/// The holder itself says that a person must look at it.
struct AskPerson {
    task: TaskId,
    agent: AgentId,
    result: Box<str>,
}

impl HandStep for AskPerson {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        if let Some(task) = want.task(&self.task) {
            want_end(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let task = find(slice, &self.task)?;
        check_holder(task, &self.agent, None).map_err(|why| Refusal::TaskNotYours {
            task: self.task.clone(),
            why,
        })?;
        let mut changes = Changes::default();
        let mut agent = awake(speaker(slice, &self.agent)?, &mut changes, now);
        end_claim(
            slice,
            &mut changes,
            task,
            Outcome::NeedsPerson,
            &mut agent,
            now,
        );
        changes.put(agent);
        let why = "its agent asks for a person";
        let done = task
            .clone()
            .ask_person(&self.agent, self.result.clone(), why, now);
        changes.task(done);
        Ok(changes)
    }
}

/// Back into the queue with its budget as it is.
struct Reopen {
    task: TaskId,
}

impl HandStep for Reopen {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(task) = want.task(&self.task) {
            want.lane_for(&LaneKey::of(task));
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let task = find(slice, &self.task)?;
        let mut changes = Changes::default();
        // The hub may have been first, or it still waits for its dependencies.
        if task.status() == TaskStatus::RetryWait {
            changes.task(task.clone().reopen("readied by hand", now));
        }
        Ok(changes)
    }
}

/// What the hand wrote of former failures and of who failed it.
struct Remember {
    was: Box<Task>,
    is: Box<Task>,
}

impl Remember {
    fn after(&self, known: &Task) -> Task {
        let Remember { was, is } = self;
        let mut task = known.clone();
        // The verbs may have had their say about the same failure.
        if was.last_failure != is.last_failure && known.last_failure == was.last_failure {
            task.last_failure.clone_from(&is.last_failure);
        }
        if was.previous_agents != is.previous_agents {
            let added = known.previous_agents.iter();
            let added = added.filter(|agent| !was.previous_agents.contains(agent));
            task.previous_agents = is.previous_agents.iter().chain(added).cloned().collect();
            task.previous_agents.sort();
            task.previous_agents.dedup();
        }
        task
    }
}

impl HandStep for Remember {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(task) = want.task(&self.was.id) {
            want.lane_of(task);
            want.lane_for(&LaneKey::of(&self.after(task)));
        }
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<Changes, Refusal> {
        let mut changes = Changes::default();
        changes.put(self.after(find(slice, &self.was.id)?));
        Ok(changes)
    }
}

/// Older rows come with a past.
const JUST_NOW: Duration = Duration::from_secs(10);

/// A task that comes with a past, from a file that was not the hub's.
struct Bring {
    task: Task,
}

impl HandStep for Bring {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Some(task) = want.task(&self.task.id) {
            want.lane_of(task);
            want.lane_for(&LaneKey::of(&self.brought(task, now)));
            want_dependants_released(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let known = find(slice, &self.task.id)?;
        let task = self.brought(known, now);
        let result = || self.task.result.clone().unwrap_or_else(|| "{}".into());
        let then = |at: Timestamp| if at.0 > 0 { at.min(now) } else { now };
        let mut changes = Changes::default();
        let (mut task, event) = match &self.task.state {
            TaskState::Completed { by, at } => task.complete(by, result(), then(*at)),
            TaskState::NeedsPerson { by, at } => {
                task.ask_person(by, result(), "it came with a question", then(*at))
            }
            TaskState::RetryWait { until } => {
                task.retry_later(failure_of(&self.task), (*until).max(now), now)
            }
            TaskState::Failed { at } => task.fail(failure_of(&self.task), then(*at)),
            TaskState::Canceled { at } => task.cancel("canceled before it came", then(*at)),
            TaskState::Waiting
            | TaskState::Ready
            | TaskState::Claimed { .. }
            | TaskState::InProgress { .. } => {
                if task != *known {
                    changes.put(task);
                }
                return Ok(changes);
            }
        };
        task.updated_at = self.task.updated_at.min(now);
        let completed = matches!(event, Event::TaskCompleted { .. });
        changes.task((task, event));
        if completed {
            release_dependants(slice, &mut changes, known, now);
        }
        Ok(changes)
    }
}

impl Bring {
    /// The new row with what the old one remembers.
    fn brought(&self, known: &Task, now: Timestamp) -> Task {
        let mut task = known.clone();
        task.retries = self.task.retries;
        task.previous_agents.clone_from(&self.task.previous_agents);
        // A dependency that did not complete may have failed it just now.
        if self.task.last_failure.is_some() {
            task.last_failure.clone_from(&self.task.last_failure);
        }
        task.started_at = self.task.started_at;
        // What was written just now was created now; its order is that of the ledger.
        if now.since(self.task.created_at) > JUST_NOW {
            task.created_at = self.task.created_at;
        }
        task.snapshot.clone_from(&self.task.snapshot);
        task
    }
}

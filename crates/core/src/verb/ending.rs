//! What happens around a task when a claim on it ends, or when it is finished.

use std::collections::HashSet;

use crate::agent::Agent;
use crate::attempt::{Attempt, Outcome};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, STEWARD, TaskId};
use crate::lane::LaneKey;
use crate::lease::Lease;
use crate::limits;
use crate::row::RowKey;
use crate::slice::Slice;
use crate::task::{
    Failure, FailureKind, OnDependencyFailure, Task, TaskState, TaskStatus, Trouble,
};
use crate::time::Timestamp;
use crate::want::Want;

/// What the end of a claim must see: lane, holder, leases taken for the task.
pub(super) fn want_end(want: &mut Want<'_>, task: &Task) {
    want.lane_of(task);
    if let Some(holder) = task.holder() {
        want.agent(holder);
        let _ = want.leases_of_task(&task.id);
    }
}

/// The row of whoever holds a task. The steward has none: one is made up, and [`put_holder`] drops it.
pub(super) fn holder_of(slice: &Slice, holder: &AgentId, now: Timestamp) -> Agent {
    let row = slice.agent(holder).cloned();
    let row =
        row.or_else(|| (holder.as_str() == STEWARD).then(|| Agent::newcomer(holder.clone(), now)));
    row.expect("whoever holds a task is known")
}

pub(super) fn put_holder(changes: &mut Changes, holder: Agent) {
    if holder.id.as_str() != STEWARD {
        changes.put(holder);
    }
}

/// Ends the claim on `task`: one row of history, the task's leases end, the holder lets go of it.
///
/// `holder` is the agent's row as this verb will put it.
pub(super) fn end_claim(
    slice: &Slice,
    changes: &mut Changes,
    task: &Task,
    outcome: Outcome,
    holder: &mut Agent,
    now: Timestamp,
) {
    if let Some(attempt) = Attempt::end(task, outcome, now) {
        holder.worked_for(now.since(attempt.claimed_at));
        changes.put(attempt);
    }
    changes.events.extend(holder.let_go(&task.id, now));
    for lease in Want::new(slice).leases_of_task(&task.id) {
        changes.remove::<Lease>(lease.path.clone());
        changes.event(Event::LeaseReleased {
            path: lease.path.to_string(),
            agent: lease.agent.clone(),
        });
    }
}

/// A claim that ends because its holder is gone or was told to stop: the task goes back to the queue.
pub(super) struct GiveBack {
    /// The holder failed it: a retry is spent, and others come first.
    pub crashed: bool,
    pub why: &'static str,
}

impl GiveBack {
    /// The task as it will be queued again.
    pub fn preview(&self, task: &Task) -> Task {
        let mut task = task.clone();
        if self.crashed {
            task.retries += 1;
            if let Some(holder) = task.holder().cloned() {
                task.remember_previous(&holder);
            }
        }
        task
    }

    pub fn asks(&self, want: &mut Want<'_>, task: &Task) {
        want_end(want, task);
        let after = self.preview(task);
        if self.crashed && after.retries > after.about.max_retries {
            want_dependants_told(want, task);
        } else {
            want.lane_for(&LaneKey::of(&after));
        }
    }

    /// What the end of everything an agent has must see.
    pub fn asks_all(&self, want: &mut Want<'_>, agent: &Agent) {
        let _ = want.leases_of_agent(&agent.id);
        for id in &agent.holds {
            if let Some(task) = want.task(id) {
                self.asks(want, task);
            }
        }
    }

    /// Gives back all that `known` holds and ends its leases; `told` is the event of a lease that ends.
    pub fn apply_all(
        &self,
        slice: &Slice,
        changes: &mut Changes,
        known: &Agent,
        agent: &mut Agent,
        told: fn(String, AgentId) -> Event,
        now: Timestamp,
    ) {
        for task in known.holds.iter().filter_map(|id| slice.task(id)) {
            self.apply(slice, changes, task, agent, now);
        }
        for lease in Want::new(slice).leases_of_agent(&known.id) {
            if !changes.drops.contains(&RowKey::Lease(lease.path.clone())) {
                changes.remove::<Lease>(lease.path.clone());
                changes.event(told(lease.path.to_string(), lease.agent.clone()));
            }
        }
    }

    pub fn apply(
        &self,
        slice: &Slice,
        changes: &mut Changes,
        task: &Task,
        holder: &mut Agent,
        now: Timestamp,
    ) {
        let outcome = if self.crashed {
            Outcome::Crashed
        } else {
            Outcome::Released
        };
        end_claim(slice, changes, task, outcome, holder, now);
        let after = self.preview(task);
        if !self.crashed {
            changes.event(Event::TaskRequeued {
                task: task.id.clone(),
                number: task.number,
                agent: holder.id.clone(),
                why: self.why.to_owned(),
            });
            changes.task(after.reopen(self.why, now));
            return;
        }
        if let Some(attempt) = changes.rows_mut::<Attempt>().next_back() {
            attempt.failure = Some(FailureKind::AgentCrash);
            attempt.message = Some(self.why.to_owned());
        }
        holder.failed += 1;
        let failure = Failure {
            kind: FailureKind::AgentCrash,
            message: self.why.to_owned(),
        };
        if after.retries > after.about.max_retries {
            give_up(slice, changes, after, &holder.id, failure.into(), now);
        } else {
            changes.event(Event::TaskRequeued {
                task: task.id.clone(),
                number: task.number,
                agent: holder.id.clone(),
                why: self.why.to_owned(),
            });
            let mut after = after;
            after.last_failure = Some(failure);
            changes.task(after.reopen(self.why, now));
        }
    }
}

/// The retries are used up: it has failed, or a person must look at it.
pub(super) fn give_up(
    slice: &Slice,
    changes: &mut Changes,
    task: Task,
    by: &AgentId,
    trouble: Trouble,
    now: Timestamp,
) {
    if task.asks_person_when_spent() {
        changes.task(task.escalate(by, &trouble, now));
        return;
    }
    let id = task.id.clone();
    changes.task(task.fail(trouble.failure, now));
    tell_dependants(slice, changes, &id, now);
}

/// What the completion of a task must see of those that wait for it.
pub(super) fn want_dependants_released(want: &mut Want<'_>, task: &Task) {
    if task.dependants == 0 {
        return;
    }
    for id in want.dependants(&task.id) {
        if let Some(dependant) = want.task(id) {
            want.lane_for(&LaneKey::of(dependant));
        }
    }
}

/// A completed task no longer blocks the ones that wait for it.
pub(super) fn release_dependants(
    slice: &Slice,
    changes: &mut Changes,
    task: &Task,
    now: Timestamp,
) {
    if task.dependants == 0 {
        return;
    }
    for id in Want::new(slice).dependants(&task.id) {
        let Some(dependant) = slice.task(id) else {
            continue;
        };
        let mut dependant = dependant.clone();
        dependant.blockers.retain(|blocker| *blocker != task.id);
        if dependant.blockers.is_empty() && dependant.state == TaskState::Waiting {
            changes.task(dependant.reopen("dependencies completed", now));
        } else {
            dependant.updated_at = now;
            changes.put(dependant);
        }
    }
}

/// What the failure of a task must see: everything that waits for it, in as many steps as it cascades.
pub(super) fn want_dependants_told(want: &mut Want<'_>, task: &Task) {
    let mut open: Vec<TaskId> = if task.dependants == 0 {
        Vec::new()
    } else {
        vec![task.id.clone()]
    };
    let mut seen = 0;
    let mut fail_along: HashSet<TaskId> = HashSet::new();
    while let Some(id) = open.pop() {
        for dependant in want.dependants(&id) {
            seen += 1;
            if seen > limits::DEPENDANTS_MAX {
                return;
            }
            if want.task(dependant).is_some_and(fails_along) && fail_along.insert(dependant.clone())
            {
                open.push(dependant.clone());
            }
        }
    }
}

/// Dependants of a task that will not complete stay blocked and are reported, or fail if they said so.
pub(super) fn tell_dependants(
    slice: &Slice,
    changes: &mut Changes,
    failed: &TaskId,
    now: Timestamp,
) {
    let row = slice.known::<Task>(failed).flatten();
    let mut open: Vec<TaskId> = if row.is_some_and(|task| task.dependants == 0) {
        Vec::new()
    } else {
        vec![failed.clone()]
    };
    // Another task of the same decision may have failed before and taken some of them along.
    let failed = changes.rows::<Task>();
    let failed = failed.filter(|task| task.status() == TaskStatus::Failed);
    let mut failed_too: HashSet<TaskId> = failed.map(|task| task.id.clone()).collect();
    let mut seen = 0;
    while let Some(id) = open.pop() {
        for dependant in Want::new(slice).dependants(&id) {
            seen += 1;
            if seen > limits::DEPENDANTS_MAX {
                return;
            }
            let Some(task) = slice.task(dependant) else {
                continue;
            };
            if task.status() != TaskStatus::Waiting || failed_too.contains(dependant) {
                continue;
            }
            changes.event(Event::DependencyFailed {
                task: task.id.clone(),
                number: task.number,
                dependency: id.clone(),
            });
            if fails_along(task) {
                let message = format!("dependency {id} did not complete");
                let failure = Failure {
                    kind: FailureKind::DependencyError,
                    message,
                };
                changes.task(task.clone().fail(failure, now));
                failed_too.insert(dependant.clone());
                open.push(dependant.clone());
            }
        }
    }
}

fn fails_along(task: &Task) -> bool {
    task.on_dependency_failure == OnDependencyFailure::Fail && task.status() == TaskStatus::Waiting
}

//! Caretaker: watched tasks that take too long, or on which nothing moves.

use super::ending::{GiveBack, end_claim, give_up, want_dependants_told};
use super::{Sweep, Verb};
use crate::agent::Agent;
use crate::attempt::{Attempt, Outcome};
use crate::changes::Changes;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Failure, FailureKind, Task};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOverdue;

const STEP: usize = 32;
const STALE: GiveBack = GiveBack {
    crashed: false,
    why: "no progress for too long",
};

/// What a watched task has come to.
enum Due {
    Timeout,
    Stale,
    /// It moved since: look again later.
    NotYet(Timestamp),
    /// Nobody holds it any more.
    Over,
}

impl Verb for EndOverdue {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for id in want.watched_tasks(now, STEP) {
            let Some(task) = want.task(id) else { continue };
            STALE.asks(want, task);
            let floor = want.slice().head.floor;
            if matches!(due(task, floor, now), Due::Timeout) {
                want_dependants_told(want, task);
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut changes = Changes::default();
        let ids = Want::new(slice).watched_tasks(now, STEP);
        for task in ids.iter().filter_map(|id| slice.task(id)) {
            match due(task, slice.head.floor, now) {
                Due::Timeout => time_out(slice, &mut changes, task, now),
                Due::Stale => {
                    let mut agent = holder(slice, &changes, task);
                    STALE.apply(slice, &mut changes, task, &mut agent, now);
                    changes.put(agent);
                }
                Due::NotYet(at) => {
                    let mut task = task.clone();
                    task.watch = task.watch.map(|mut watch| {
                        watch.look_at = at;
                        watch
                    });
                    changes.put(task);
                }
                Due::Over => {
                    let mut task = task.clone();
                    task.watch = None;
                    changes.put(task);
                }
            }
        }
        let done = ids.len();
        Ok((
            Sweep {
                done,
                more: done == STEP,
            },
            changes,
        ))
    }
}

/// `floor` is the end of the last outage: what its holder did meanwhile could not be told, so time counts from there.
fn due(task: &Task, floor: Timestamp, now: Timestamp) -> Due {
    let (Some(watch), Some(claimed_at)) = (&task.watch, task.claimed_at()) else {
        return Due::Over;
    };
    let deadline_at = claimed_at.max(floor) + watch.deadline_at.since(claimed_at);
    let stale_at = task.updated_at.max(floor) + watch.stale_after;
    if now >= deadline_at {
        Due::Timeout
    } else if now >= stale_at {
        Due::Stale
    } else {
        Due::NotYet(stale_at.min(deadline_at))
    }
}

/// The holder's row as this decision has it: it may hold several of these.
fn holder(slice: &Slice, changes: &Changes, task: &Task) -> crate::Agent {
    let id = task.holder().expect("what is due is held");
    let changed = changes.rows::<Agent>().rev().find(|agent| agent.id == *id);
    let known = changed.or_else(|| slice.agent(id));
    known.expect("whoever holds a task is known").clone()
}

/// agentbus.heartbeat.watchdog: the cycle took too long, which counts as a failure.
fn time_out(slice: &Slice, changes: &mut Changes, task: &Task, now: Timestamp) {
    let mut agent = holder(slice, changes, task);
    let by = agent.id.clone();
    let minutes = task
        .claimed_at()
        .map_or(0, |at| now.since(at).as_secs() / 60);
    let message = format!("timeout: not done after {minutes} minutes");
    end_claim(slice, changes, task, Outcome::Failed, &mut agent, now);
    agent.failed += 1;
    changes.put(agent);
    if let Some(attempt) = changes.rows_mut::<Attempt>().next_back() {
        attempt.failure = Some(FailureKind::TaskTimeout);
        attempt.message = Some(message.clone());
    }
    let failure = Failure {
        kind: FailureKind::TaskTimeout,
        message,
    };
    let mut after = task.clone();
    after.retries += 1;
    if after.retries <= after.about.max_retries {
        after.remember_previous(&by);
        let until = now + after.backoff().min(limits::RETRY_MAX);
        changes.task(after.retry_later(failure, until, now));
    } else {
        give_up(slice, changes, after, &by, failure.into(), now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, claim, complete, progress};
    use super::super::{Assign, Heartbeat, Serve};
    use super::*;
    use crate::agent::Doing;
    use crate::task::TaskStatus;

    const CAP: Duration = Duration::from_secs(3600);
    const STALE_AFTER: Duration = Duration::from_secs(600);
    const TICK: Duration = Duration::from_millis(1);

    fn assigned() -> Swarm {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        swarm.ok(Assign {
            claim: claim("A"),
            cap: CAP,
            stale_after: STALE_AFTER,
        });
        swarm
    }

    fn beat(swarm: &mut Swarm) {
        swarm.ok(Heartbeat {
            agent: "A".into(),
            doing: Doing::Busy,
            task: None,
            metrics: None,
        });
    }

    #[test]
    fn a_claim_without_progress_is_given_back_and_costs_no_retry() {
        let mut swarm = assigned();
        swarm.wait(STALE_AFTER - TICK);
        assert_eq!(swarm.ok(EndOverdue).done, 0);
        swarm.wait(TICK);
        beat(&mut swarm);
        assert_eq!(swarm.ok(EndOverdue).done, 1);
        let task = swarm.task("T");
        assert_eq!((task.status(), task.retries), (TaskStatus::Ready, 0));
        assert!(task.watch.is_none() && swarm.agent("A").holds.is_empty());
    }

    #[test]
    fn progress_moves_the_look_on_but_not_the_end() {
        // agentbus.heartbeat.watchdog
        let mut swarm = assigned();
        for _ in 0..11 {
            swarm.wait(Duration::from_secs(300));
            swarm.ok(progress("A", "T"));
            swarm.ok(EndOverdue);
            assert_eq!(swarm.task("T").status(), TaskStatus::InProgress);
        }
        swarm.wait(Duration::from_secs(300));
        swarm.ok(progress("A", "T"));
        swarm.ok(EndOverdue);
        let task = swarm.task("T");
        assert_eq!((task.status(), task.retries), (TaskStatus::RetryWait, 1));
        let failure = task.last_failure.as_ref().expect("it timed out");
        assert_eq!(failure.kind, FailureKind::TaskTimeout);
        assert!(swarm.agent("A").is_live(), "its holder lives on");
    }

    #[test]
    fn past_the_budget_a_person_is_asked() {
        let mut swarm = assigned();
        if let Some(task) = swarm.tasks.get_mut(&"T".into()) {
            task.about.max_retries = 0;
        }
        swarm.wait(CAP);
        swarm.ok(EndOverdue);
        assert_eq!(swarm.task("T").status(), TaskStatus::NeedsPerson);
    }
    #[test]
    fn an_outage_takes_no_task_from_whoever_worked_on_meanwhile() {
        for outage in [STALE_AFTER, CAP] {
            let mut swarm = assigned();
            swarm.wait(outage);
            swarm.ok(Serve { starting: true });
            swarm.ok(EndOverdue);
            swarm.wait(STALE_AFTER - TICK);
            beat(&mut swarm);
            assert_eq!(swarm.ok(EndOverdue).done, 0, "its time has begun anew");
            swarm.ok(complete("A", "T"));
            assert_eq!(swarm.task("T").retries, 0);
        }
        let mut swarm = assigned();
        swarm.wait(CAP);
        swarm.ok(Serve { starting: true });
        swarm.wait(STALE_AFTER);
        swarm.ok(EndOverdue);
        assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
    }
}

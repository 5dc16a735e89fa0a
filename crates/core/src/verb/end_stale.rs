//! Caretaker: claims that their agent has left behind go back as after a crash.
//!
//! An agent that says it is idle, or took up something else, and has not named a task it holds for long has lost it:
//! its process was started anew, or forgot. Tasks that are held over the bus are watched by other rules, and who is there by
//! a door that keeps what it holds is not asked what it does.

use std::time::Duration;

use super::ending::GiveBack;
use super::{Sweep, Verb};
use crate::agent::Agent;
use crate::changes::Changes;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndStale {
    /// For so long it was not named, which is no less than two minutes; or for twice its estimate, if that is longer.
    pub after: Duration,
}

/// Agents whose claims are ended in one step.
const STEP: usize = 16;
const STALE: GiveBack = GiveBack {
    crashed: true,
    why: "stale: its agent no longer works on it",
};
const MINUTE: Duration = Duration::from_secs(60);

impl Verb for EndStale {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for (_, tasks) in self.stale(want, now) {
            for task in tasks {
                STALE.asks(want, task);
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut changes = Changes::default();
        let stale = self.stale(&mut Want::new(slice), now);
        for (agent, tasks) in &stale {
            let mut agent = (*agent).clone();
            for task in tasks {
                STALE.apply(slice, &mut changes, task, &mut agent, now);
            }
            changes.put(agent);
        }
        let done = stale.len();
        Ok((
            Sweep {
                done,
                more: done == STEP,
            },
            changes,
        ))
    }
}

impl EndStale {
    /// Agents with what each has left behind for too long.
    fn stale<'a>(&self, want: &mut Want<'a>, now: Timestamp) -> Vec<(&'a Agent, Vec<&'a Task>)> {
        let present = want.present_agents().unwrap_or_default();
        let agents: Vec<&Agent> = present.iter().filter_map(|id| want.agent(id)).collect();
        let floor = want.slice().head.floor;
        let mut stale = Vec::new();
        let keeps = |agent: &Agent| agent.doors.iter().any(|door| door.policy().keeps);
        let tells = |agent: &&Agent| agent.is_live() && !keeps(agent);
        for agent in agents.into_iter().filter(tells) {
            let left = agent.holds.iter().filter(|id| agent.has_left(id));
            let tasks: Vec<&Task> = left.filter_map(|id| want.task(id)).collect();
            let tasks: Vec<&Task> = tasks
                .into_iter()
                .filter(|task| task.watch.is_none() && self.is_stale(task, floor, now))
                .collect();
            if !tasks.is_empty() {
                stale.push((agent, tasks));
            }
            if stale.len() == STEP {
                break;
            }
        }
        stale
    }

    /// Whatever names a task moves its row. Time in which nobody served the ledger does not count.
    fn is_stale(&self, task: &Task, floor: Timestamp, now: Timestamp) -> bool {
        let estimate = task.about.estimated_minutes.unwrap_or(0);
        let named = limits::NAMED_EVERY * 2;
        let limit = self.after.max(MINUTE * 2 * estimate).max(named);
        now >= task.updated_at.max(floor) + limit
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, progress, task_with};
    use super::super::{Assign, Heartbeat, ReportedTask, Serve};
    use super::*;
    use crate::agent::Doing;
    use crate::task::TaskStatus;

    const VERB: EndStale = EndStale {
        after: limits::STALE_AFTER,
    };
    const TICK: Duration = Duration::from_millis(1);

    fn beat(doing: Doing, task: Option<&str>) -> Heartbeat {
        Heartbeat {
            agent: "A".into(),
            doing,
            task: task.map(|id| ReportedTask {
                id: id.into(),
                percent: None,
                phase: None,
                note: None,
            }),
            metrics: None,
        }
    }

    /// `A` holds `T` and says this in between, then time goes on.
    fn after(wait: Duration, said: &[Heartbeat]) -> Swarm {
        let mut swarm = Swarm::with_task(TaskStatus::InProgress);
        for heartbeat in said {
            swarm.ok(heartbeat.clone());
        }
        swarm.wait(wait);
        swarm
    }

    #[test]
    fn a_claim_goes_back_once_its_idle_agent_has_not_named_it_for_an_hour() {
        let idle = [beat(Doing::Idle, None)];
        for (wait, status) in [
            (limits::STALE_AFTER - TICK, TaskStatus::InProgress),
            (limits::STALE_AFTER, TaskStatus::Ready),
            (limits::STALE_AFTER + TICK, TaskStatus::Ready),
        ] {
            let mut swarm = after(wait, &idle);
            swarm.ok(VERB);
            let task = swarm.task("T");
            assert_eq!(task.status(), status, "{wait:?}");
            let spent = u32::from(status == TaskStatus::Ready);
            assert_eq!(
                (task.retries, task.previous_agents.len()),
                (spent, spent as usize)
            );
            assert_eq!(swarm.ok(VERB).done, 0, "once is enough");
            assert!(swarm.agent("A").is_live(), "only the claim is lost");
        }
    }

    #[test]
    fn who_is_at_it_or_names_it_keeps_it() {
        let day = Duration::from_secs(24 * 3600);
        let mut swarm = after(day, &[beat(Doing::Busy, None)]);
        assert_eq!(swarm.ok(VERB).done, 0, "it never said anything else");
        swarm.ok(beat(Doing::Idle, Some("T")));
        assert_eq!(swarm.ok(VERB).done, 0, "it has just named it");
        swarm.wait(limits::STALE_AFTER);
        swarm.ok(progress("A", "T"));
        assert_eq!(swarm.ok(VERB).done, 0, "it has just reported on it");
    }

    #[test]
    fn who_took_another_since_has_left_it_also_when_that_is_done() {
        for is_done in [false, true] {
            let mut swarm = Swarm::with_task(TaskStatus::Claimed);
            swarm.add("next");
            swarm.hold("A", "next");
            if is_done {
                swarm.ok(super::super::testing::complete("A", "next"));
            }
            swarm.wait(limits::STALE_AFTER);
            if !is_done {
                swarm.ok(beat(Doing::Busy, Some("next")));
            }
            assert_eq!(swarm.ok(VERB).done, 1, "done: {is_done}");
            assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
            assert_eq!(swarm.agent("A").holds.len(), usize::from(!is_done));
        }
    }

    #[test]
    fn twice_the_estimate_counts_if_it_is_longer() {
        for (estimate, limit) in [(29, 60), (30, 60), (31, 62)] {
            let mut swarm = Swarm::new();
            swarm.join("A", &[]);
            swarm.create(task_with("T", |task| {
                task.about.estimated_minutes = Some(estimate)
            }));
            swarm.hold("A", "T");
            swarm.ok(beat(Doing::Idle, None));
            swarm.wait(MINUTE * limit - TICK);
            assert_eq!(swarm.ok(VERB).done, 0, "{estimate}");
            swarm.wait(TICK);
            assert_eq!(swarm.ok(VERB).done, 1, "{estimate}");
        }
    }

    #[test]
    fn what_the_bus_watches_and_what_an_outage_hid_is_left_alone() {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        swarm.ok(Assign {
            claim: super::super::testing::claim("A"),
            cap: limits::STALE_AFTER * 10,
            stale_after: limits::STALE_AFTER * 10,
        });
        swarm.ok(beat(Doing::Idle, None));
        swarm.wait(limits::STALE_AFTER);
        assert_eq!(swarm.ok(VERB).done, 0);

        let mut swarm = after(limits::STALE_AFTER, &[beat(Doing::Idle, None)]);
        swarm.ok(Serve { starting: true });
        assert_eq!(swarm.ok(VERB).done, 0);
    }
}

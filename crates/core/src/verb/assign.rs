//! A task is pushed to an agent that waits on a stream: a claim that is watched.
//!
//! The hub asks for it, not the agent: so it is no sign of life, and who has fallen silent gets nothing.

use std::borrow::Cow;
use std::time::Duration;

use super::{Claim, Claimed, NoTask, Verb, speaker};
use crate::agent::Agent;
use crate::changes::Changes;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Assign {
    pub claim: Claim,
    /// The whole cycle of one claim takes no longer.
    pub cap: Duration,
    /// Without progress for this long it is given back.
    pub stale_after: Duration,
}

impl Verb for Assign {
    type Reply = Claimed;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Some(agent) = want.agent(&self.claim.agent) {
            self.claim_for(agent, now).asks(want, now);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Claimed, Changes), Refusal> {
        let known = speaker(slice, &self.claim.agent)?;
        if !known.is_live() {
            let none = Claimed::None(NoTask::NoMatchingTasks.into());
            return Ok((none, Changes::default()));
        }
        let (claimed, mut changes) = self.claim_for(known, now).decide(slice, now)?;
        changes.pulses.clear();
        for row in changes.rows_mut::<Agent>().filter(|row| row.id == known.id) {
            row.seen_at = known.seen_at;
        }
        let Claimed::Task(task) = claimed else {
            return Ok((claimed, changes));
        };
        let task = task.watched(self.cap, self.stale_after, now);
        for row in changes.rows_mut::<Task>().filter(|row| row.id == task.id) {
            row.watch = task.watch;
        }
        Ok((Claimed::Task(Box::new(task)), changes))
    }
}

impl Assign {
    /// Without what was taken back from it a moment ago.
    fn claim_for(&self, agent: &Agent, now: Timestamp) -> Cow<'_, Claim> {
        let mut claim = Cow::Borrowed(&self.claim);
        for spared in agent.spared(now) {
            let excluded = &mut claim.to_mut().filter.excluded;
            excluded.insert(spared.task.clone());
        }
        claim
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, assign, complete};
    use super::super::{MarkSilent, ReleaseTask};
    use super::*;
    use crate::limits;
    use crate::task::{TaskStatus, Watch};

    const MINUTE: Duration = Duration::from_secs(60);
    const TICK: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_pushed_is_claimed_and_watched_until_the_claim_ends() {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        let Claimed::Task(task) = swarm.ok(assign("A")) else {
            panic!("there is one");
        };
        let watch = Watch {
            deadline_at: swarm.now + MINUTE * 10,
            stale_after: MINUTE,
            look_at: swarm.now + MINUTE,
        };
        assert_eq!((task.epoch, task.watch), (1, Some(watch)));
        assert_eq!(swarm.task("T").watch, Some(watch));
        assert!(matches!(swarm.ok(assign("B")), Claimed::None(_)));
        swarm.ok(complete("A", "T"));
        assert_eq!(swarm.task("T").watch, None);
    }

    #[test]
    fn what_a_person_took_back_is_not_pushed_to_that_worker_for_a_while() {
        for (by, after, pushed) in [
            (Some("A".into()), Duration::ZERO, true),
            (None, Duration::ZERO, false),
            (None, limits::TAKEN_BACK_FOR - TICK, false),
            (None, limits::TAKEN_BACK_FOR, true),
        ] {
            let mut swarm = Swarm::with_task(TaskStatus::Ready);
            assert!(matches!(swarm.ok(assign("A")), Claimed::Task(_)));
            swarm.ok(ReleaseTask {
                task: "T".into(),
                agent: by.clone(),
                epoch: None,
            });
            swarm.wait(after);
            let again = matches!(swarm.ok(assign("A")), Claimed::Task(_));
            assert_eq!(again, pushed, "{by:?}, {after:?}");
            if !again {
                assert!(matches!(swarm.ok(assign("B")), Claimed::Task(_)));
            }
        }
    }

    #[test]
    fn what_is_remembered_of_orders_is_bounded() {
        let most = limits::TAKEN_BACK_MAX;
        for (orders, kept) in [(most - 1, most - 1), (most, most), (most + 1, most)] {
            let mut swarm = Swarm::with_task(TaskStatus::Ready);
            for at in 0..orders {
                let id = format!("x{at}");
                swarm.add(&id);
                let now = swarm.now;
                swarm
                    .agents
                    .values_mut()
                    .for_each(|agent| agent.spare(&id.as_str().into(), now));
            }
            assert_eq!(swarm.agent("A").spared(swarm.now).count(), kept, "{orders}");
        }
    }

    #[test]
    fn nobody_lives_on_because_tasks_are_looked_for_on_its_behalf() {
        // agentbus.heartbeat.ttl
        let mut swarm = Swarm::with_task(TaskStatus::Completed);
        for _ in 0..2 {
            swarm.wait(limits::SILENT_AFTER / 2);
            assert!(matches!(swarm.ok(assign("A")), Claimed::None(_)));
        }
        swarm.add("next");
        assert!(matches!(swarm.ok(assign("A")), Claimed::Task(_)));
        swarm.wait(Duration::from_millis(1));
        swarm.ok(MarkSilent);
        assert_eq!(swarm.task("next").status(), TaskStatus::Ready);
        assert!(matches!(swarm.ok(assign("A")), Claimed::None(_)));
        assert!(
            !swarm.agent("A").is_live(),
            "only the agent itself can return"
        );
        assert_eq!(swarm.task("next").status(), TaskStatus::Ready);
    }
}

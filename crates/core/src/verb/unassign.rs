//! A task that was pushed to a worker goes back, because the worker does not say that it is at it; no retry is spent.
//!
//! An offer that was not answered may be pushed to the same worker again. What it had accepted goes to others first.

use super::Verb;
use super::ending::GiveBack;
use crate::changes::Changes;
use crate::id::TaskId;
use crate::refusal::{NotYours, Refusal};
use crate::slice::Slice;
use crate::task::TaskStatus;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unassign {
    pub task: TaskId,
    /// The claim that it is about; a later one is left alone.
    pub epoch: u64,
}

const BACK: GiveBack = GiveBack {
    crashed: false,
    why: "its worker did not confirm that it works on it",
};

impl Verb for Unassign {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(task) = want.task(&self.task)
            && task.holder().is_some()
        {
            BACK.asks(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        let Some(holder) = task.holder().filter(|_| task.epoch == self.epoch) else {
            return Err(Refusal::TaskNotYours {
                task: task.id.clone(),
                why: NotYours::StaleEpoch {
                    current: task.epoch,
                },
            });
        };
        let mut changes = Changes::default();
        let row = slice.agent(holder).expect("whoever holds a task is known");
        let mut agent = row.clone();
        BACK.apply(slice, &mut changes, task, &mut agent, now);
        if task.status() == TaskStatus::InProgress {
            agent.spare(&task.id, now);
        }
        changes.put(agent);
        Ok(((), changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, assign, word};
    use super::*;
    use crate::attempt::Outcome;
    use crate::verb::Claimed;

    #[test]
    fn only_the_claim_it_is_about_goes_back() {
        for status in TaskStatus::ALL {
            let is_held = matches!(status, TaskStatus::Claimed | TaskStatus::InProgress);
            for epoch in [0, 1, 2] {
                let mut swarm = Swarm::with_task(*status);
                let expected = if is_held && epoch == 1 {
                    "ok"
                } else {
                    "stale_epoch"
                };
                let task = "T".into();
                let outcome = swarm.run(Unassign { task, epoch });
                assert_eq!(word(&outcome), expected, "{status}, {epoch}");
            }
        }
    }

    #[test]
    fn an_unanswered_offer_may_be_pushed_again_and_what_was_accepted_goes_to_others_first() {
        // agentbus.reconnect.continuation
        for (status, again) in [(TaskStatus::Claimed, true), (TaskStatus::InProgress, false)] {
            let mut swarm = Swarm::with_task(status);
            let task = "T".into();
            swarm.ok(Unassign { task, epoch: 1 });
            assert_eq!(
                (swarm.task("T").retries, swarm.attempts[0].outcome),
                (0, Outcome::Released)
            );
            let pushed = matches!(swarm.ok(assign("A")), Claimed::Task(_));
            assert_eq!(pushed, again, "{status}");
            if !again {
                assert!(matches!(swarm.ok(assign("B")), Claimed::Task(_)));
            }
        }
    }
}

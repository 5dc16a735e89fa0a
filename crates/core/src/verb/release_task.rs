//! A held task goes back to the queue; no retry is spent.
//!
//! What a person takes away from a worker of the bus is not pushed to that worker again for a while.

use super::ending::{GiveBack, holder_of, put_holder};
use super::{Verb, check_holder, wake};
use crate::changes::Changes;
use crate::id::{AgentId, TaskId};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseTask {
    pub task: TaskId,
    /// The holder itself, or `None` for a person.
    pub agent: Option<AgentId>,
    pub epoch: Option<u64>,
}

const BACK: GiveBack = GiveBack {
    crashed: false,
    why: "released",
};

impl Verb for ReleaseTask {
    type Reply = Task;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(task) = want.task(&self.task)
            && task.holder().is_some()
        {
            BACK.asks(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Task, Changes), Refusal> {
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        let Some(holder) = task.holder() else {
            return Err(Refusal::WrongState {
                task: task.id.clone(),
                status: task.status(),
                wanted: "claimed or in_progress",
            });
        };
        let speaks = self.agent.as_ref().unwrap_or(holder);
        // A person lets go of the claim that is there.
        let epoch = self.epoch.or(self.agent.is_none().then_some(task.epoch));
        check_holder(task, speaks, epoch).map_err(|why| Refusal::TaskNotYours {
            task: task.id.clone(),
            why,
        })?;
        let mut changes = Changes::default();
        let mut agent = holder_of(slice, holder, now);
        if self.agent.is_some() {
            wake(&mut agent, &mut changes, now);
        }
        BACK.apply(slice, &mut changes, task, &mut agent, now);
        if self.agent.is_none() && task.watch.is_some() {
            agent.spare(&task.id, now);
        }
        put_holder(&mut changes, agent);
        let after = changes.rows::<Task>().next_back();
        let after = after.cloned().expect("giving back puts the task");
        Ok((after, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, word};
    use super::*;
    use crate::attempt::Outcome;
    use crate::task::TaskStatus;

    fn release(agent: Option<&str>, epoch: Option<u64>) -> ReleaseTask {
        ReleaseTask {
            task: "T".into(),
            agent: agent.map(AgentId::from),
            epoch,
        }
    }

    #[test]
    fn only_what_is_held_can_be_released() {
        for status in TaskStatus::ALL {
            let (holder, other, person) = match status {
                TaskStatus::Claimed | TaskStatus::InProgress => ("ok", "not_holder", "ok"),
                TaskStatus::Waiting
                | TaskStatus::Ready
                | TaskStatus::RetryWait
                | TaskStatus::NeedsPerson
                | TaskStatus::Completed
                | TaskStatus::Failed
                | TaskStatus::Canceled => ("wrong_state", "wrong_state", "wrong_state"),
            };
            for (who, expected) in [(Some("A"), holder), (Some("B"), other), (None, person)] {
                let outcome = Swarm::with_task(*status).run(release(who, None));
                assert_eq!(word(&outcome), expected, "{who:?}, {status}");
            }
        }
        assert_eq!(
            word(&Swarm::new().run(release(None, None))),
            "task_not_found"
        );
    }

    #[test]
    fn an_older_epoch_cannot_release() {
        for (epoch, expected) in [(0, "stale_epoch"), (1, "ok"), (2, "stale_epoch")] {
            let outcome =
                Swarm::with_task(TaskStatus::Claimed).run(release(Some("A"), Some(epoch)));
            assert_eq!(word(&outcome), expected, "{epoch}");
        }
    }

    #[test]
    fn no_retry_is_spent_and_the_same_agent_may_take_it_again() {
        let mut swarm = Swarm::with_task(TaskStatus::InProgress);
        swarm.lease("A", "src", Some("T"));
        let task = swarm.ok(release(Some("A"), None));
        assert_eq!(task.status(), TaskStatus::Ready);
        assert_eq!((task.retries, task.previous_agents.len()), (0, 0));
        assert!(swarm.leased().is_empty() && swarm.agent("A").holds.is_empty());
        assert_eq!(swarm.attempts[0].outcome, Outcome::Released);
        assert_eq!(
            swarm.said(),
            ["lease_released", "task_requeued", "task_ready"]
        );
        swarm.hold("A", "T");
        assert_eq!(swarm.task("T").epoch, 2);
    }
}

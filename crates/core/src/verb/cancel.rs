//! A person takes a task off the list.

use super::Verb;
use super::ending::{
    end_claim, holder_of, put_holder, tell_dependants, want_dependants_told, want_end,
};
use crate::attempt::Outcome;
use crate::changes::Changes;
use crate::id::TaskId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    pub task: TaskId,
    pub reason: String,
}

impl Verb for Cancel {
    type Reply = Task;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(task) = want.task(&self.task) {
            want_end(want, task);
            want_dependants_told(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Task, Changes), Refusal> {
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        if task.status().is_final() {
            return Err(Refusal::WrongState {
                task: task.id.clone(),
                status: task.status(),
                wanted: "a task that is not finished",
            });
        }
        let mut changes = Changes::default();
        if let Some(holder) = task.holder() {
            let mut agent = holder_of(slice, holder, now);
            end_claim(
                slice,
                &mut changes,
                task,
                Outcome::Canceled,
                &mut agent,
                now,
            );
            put_holder(&mut changes, agent);
        }
        let (after, event) = task.clone().cancel(&self.reason, now);
        changes.task((after.clone(), event));
        tell_dependants(slice, &mut changes, &self.task, now);
        Ok((after, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, task_with, word};
    use super::*;
    use crate::task::{OnDependencyFailure, TaskStatus};

    fn cancel(task: &str) -> Cancel {
        Cancel {
            task: task.into(),
            reason: "unwanted".to_owned(),
        }
    }

    #[test]
    fn everything_unfinished_can_be_canceled() {
        for status in TaskStatus::ALL {
            let mut swarm = Swarm::with_task(*status);
            let expected = if status.is_final() {
                "wrong_state"
            } else {
                "ok"
            };
            let before = swarm.task("T").state.clone();
            assert_eq!(word(&swarm.run(cancel("T"))), expected, "{status}");
            if status.is_final() {
                assert_eq!(swarm.task("T").state, before, "{status}");
            } else {
                assert_eq!(swarm.task("T").status(), TaskStatus::Canceled, "{status}");
            }
        }
        assert_eq!(word(&Swarm::new().run(cancel("T"))), "task_not_found");
    }

    #[test]
    fn the_holder_of_a_canceled_task_holds_nothing_of_it() {
        let mut swarm = Swarm::with_task(TaskStatus::InProgress);
        swarm.lease("A", "src", Some("T"));
        swarm.ok(cancel("T"));
        assert!(swarm.agent("A").holds.is_empty() && swarm.leased().is_empty());
        assert_eq!(swarm.attempts[0].outcome, Outcome::Canceled);
        assert_eq!(swarm.agent("A").failed, 0);
    }

    #[test]
    fn dependants_are_told_as_after_a_failure() {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        swarm.create(task_with("waits", |task| {
            task.dependencies = vec!["T".into()]
        }));
        swarm.create(task_with("falls", |task| {
            task.dependencies = vec!["T".into()];
            task.on_dependency_failure = OnDependencyFailure::Fail;
        }));
        swarm.ok(cancel("T"));
        assert_eq!(swarm.task("waits").status(), TaskStatus::Waiting);
        assert_eq!(swarm.task("falls").status(), TaskStatus::Failed);
        let told = swarm
            .said()
            .into_iter()
            .filter(|kind| *kind == "dependency_failed");
        assert_eq!(told.count(), 2);
    }
}

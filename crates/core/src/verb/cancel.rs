//! A person takes a task off the list.

use super::Verb;
use super::ending::{end_claim, tell_dependants, want_dependants_told, want_end};
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
            let mut agent = slice
                .agent(holder)
                .expect("whoever holds a task is known")
                .clone();
            end_claim(
                slice,
                &mut changes,
                task,
                Outcome::Canceled,
                &mut agent,
                now,
            );
            changes.agents.push(agent);
        }
        let (after, event) = task.clone().cancel(&self.reason, now);
        changes.task((after.clone(), event));
        tell_dependants(slice, &mut changes, &self.task, now);
        Ok((after, changes))
    }
}

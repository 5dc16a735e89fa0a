//! A held task goes back to the queue; no retry is spent.

use super::ending::GiveBack;
use super::{Verb, awake, check_holder};
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
        check_holder(task, speaks, self.epoch).map_err(|why| Refusal::TaskNotYours {
            task: task.id.clone(),
            why,
        })?;
        let mut changes = Changes::default();
        let row = slice.agent(holder).expect("whoever holds a task is known");
        let mut agent = if self.agent.is_some() {
            awake(row, &mut changes, now)
        } else {
            row.clone()
        };
        BACK.apply(slice, &mut changes, task, &mut agent, now);
        changes.agents.push(agent);
        let after = changes
            .tasks
            .last()
            .cloned()
            .expect("giving back puts the task");
        Ok((after, changes))
    }
}

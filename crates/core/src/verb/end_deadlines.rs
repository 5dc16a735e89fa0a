//! Caretaker: a task that another node gave has failed once its deadline is over, whether somebody holds it or not.

use super::distribute::{settle, want_settled};
use super::ending::{
    end_claim, holder_of, put_holder, tell_dependants, want_dependants_told, want_end,
};
use super::{Sweep, Verb};
use crate::attempt::Outcome;
use crate::changes::Changes;
use crate::contract::Deadline;
use crate::record::{Listed as _, Record};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Failure, FailureKind, Task};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndDeadlines;

impl Verb for EndDeadlines {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for due in want.due_privates::<Deadline>(now, 1) {
            if let Some(task) = want.task(&due.task) {
                want_end(want, task);
                want_dependants_told(want, task);
                want_settled(want, task);
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut changes = Changes::default();
        let due = Want::new(slice).due_privates::<Deadline>(now, 1);
        for deadline in &due {
            changes.remove::<Record>(Deadline::at(deadline.task.to_string()));
            let task = slice.task(&deadline.task);
            if let Some(task) = task {
                settle(slice, task, false, &mut changes, now);
            }
            if let Some(task) = task.filter(|task| !task.status().is_final()) {
                fail(slice, task, &mut changes, now);
            }
        }
        let done = due.len();
        Ok((
            Sweep {
                done,
                more: done > 0,
            },
            changes,
        ))
    }
}

fn fail(slice: &Slice, task: &Task, changes: &mut Changes, now: Timestamp) {
    if let Some(holder) = task.holder() {
        let mut agent = holder_of(slice, holder, now);
        end_claim(slice, changes, task, Outcome::Failed, &mut agent, now);
        agent.failed += 1;
        put_holder(changes, agent);
    }
    let failure = Failure {
        kind: FailureKind::TaskTimeout,
        message: "timeout: not done by its deadline".to_owned(),
    };
    changes.task(task.clone().fail(failure, now));
    tell_dependants(slice, changes, &task.id, now);
}

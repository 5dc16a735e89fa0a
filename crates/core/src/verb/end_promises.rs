//! Caretaker: a task of a capability that is not done by its ETA and a grace is for review. It goes on.

use super::open_reviews::fell_short;
use super::{Sweep, Verb};
use crate::changes::Changes;
use crate::limits;
use crate::outbox::FailureClass;
use crate::record::{Listed as _, Record};
use crate::refusal::Refusal;
use crate::skill_review::Promised;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPromises;

impl Verb for EndPromises {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for due in want.due_privates::<Promised>(now, limits::CARETAKER_STEP) {
            want.task(&due.task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let due = Want::new(slice).due_privates::<Promised>(now, limits::CARETAKER_STEP);
        let mut changes = Changes::default();
        for promised in &due {
            let open = slice.task(&promised.task);
            let open = open.filter(|task| !task.status().is_final());
            match open.and_then(|task| late_at(task).map(|at| (task, at))) {
                // Whoever claimed it meanwhile has promised anew.
                Some((_, at)) if at > now => changes.put(Promised {
                    task: promised.task.clone(),
                    at,
                }),
                found => {
                    changes.remove::<Record>(Promised::at(promised.task.to_string()));
                    if let Some((task, _)) = found {
                        fell_short(&mut changes, task, FailureClass::SlaBreach, now);
                    }
                }
            }
        }
        let done = due.len();
        let more = done == limits::CARETAKER_STEP;
        Ok((Sweep { done, more }, changes))
    }
}

/// Whether it is for review once it is late: its capability says how long it takes.
pub(super) fn promises(task: &Task) -> bool {
    let contract = task.contract.as_ref();
    contract.is_some_and(|contract| contract.eta_seconds.is_some())
}

/// When it is late, as things stand.
pub(super) fn late_at(task: &Task) -> Option<Timestamp> {
    let contract = task.contract.as_ref()?;
    let promise = contract.promise;
    let promise = promise.filter(|promise| promise.epoch == task.epoch);
    let begins_at = task.claimed_at().unwrap_or(task.created_at);
    let eta_at = promise.map_or_else(|| contract.eta_at(task, begins_at), |told| told.eta_at);
    Some(eta_at + contract.timings.grace())
}

//! Caretaker: leases whose time is over end by themselves.

use super::{Step, Verb};
use crate::changes::Changes;
use crate::event::Event;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireLeases;

impl Verb for ExpireLeases {
    type Reply = Step;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let _ = want.due_leases(now, limits::CARETAKER_STEP);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Step, Changes), Refusal> {
        let mut changes = Changes::default();
        for lease in Want::new(slice)
            .due_leases(now, limits::CARETAKER_STEP)
            .filter(|lease| lease.is_over(now))
        {
            changes.ended_leases.push(lease.path.clone());
            changes.event(Event::LeaseExpired {
                path: lease.path.to_string(),
                agent: lease.agent.clone(),
            });
        }
        let done = changes.ended_leases.len();
        Ok((
            Step {
                done,
                more: done == limits::CARETAKER_STEP,
            },
            changes,
        ))
    }
}

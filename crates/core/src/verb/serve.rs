//! A hub says that it serves the ledger; a gap means that nobody did, and then silence does not count.

use super::Verb;
use crate::changes::{Changes, Served};
use crate::event::Event;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serve {
    /// This process has just begun: whatever happened before, agents could not reach it.
    pub starting: bool,
    /// The clock jumped: the machine slept.
    pub slept: bool,
}

impl Verb for Serve {
    /// Whether an outage ended with this.
    type Reply = bool;

    fn asks(&self, _want: &mut Want<'_>, _now: Timestamp) {}

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(bool, Changes), Refusal> {
        let served_at = slice.head.served_at;
        let gap = now.since(served_at) > limits::SERVED_GAP_MAX;
        let outage = self.starting || self.slept || gap;
        let mut changes = Changes {
            served: Some(Served {
                at: now,
                floor: outage.then_some(now),
            }),
            ..Changes::default()
        };
        if (gap || self.slept) && served_at > Timestamp::ZERO {
            changes.event(Event::OutageEnded { served_at });
        }
        Ok((outage, changes))
    }
}

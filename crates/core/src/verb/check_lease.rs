//! Whether a path is free; a question that changes nothing.

use super::Verb;
use crate::changes::Changes;
use crate::id::AgentId;
use crate::lease::Lease;
use crate::path::LeasePath;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckLease {
    pub path: LeasePath,
    /// Whose own leases do not count.
    pub agent: Option<AgentId>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum LeaseState {
    Free,
    Held(Lease),
}

impl Verb for CheckLease {
    type Reply = LeaseState;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let _ = want.leases_near(&self.path);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(LeaseState, Changes), Refusal> {
        let held = Want::new(slice).leases_near(&self.path).find(|lease| {
            !lease.is_over(now)
                && lease.path.overlaps(&self.path)
                && self.agent.as_ref() != Some(&lease.agent)
        });
        let state = held.cloned().map_or(LeaseState::Free, LeaseState::Held);
        Ok((state, Changes::default()))
    }
}

//! The holder of a lease keeps it longer.

use std::time::Duration;

use super::acquire_lease::extended;
use super::{Verb, sign_of_life, speaker};
use crate::changes::Changes;
use crate::id::AgentId;
use crate::lease::Lease;
use crate::limits;
use crate::path::LeasePath;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendLease {
    pub agent: AgentId,
    pub path: LeasePath,
    pub lasts_for: Duration,
    pub fencing: Option<u64>,
}

impl Verb for ExtendLease {
    type Reply = Lease;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        let _ = want.leases_near(&self.path);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Lease, Changes), Refusal> {
        let agent = speaker(slice, &self.agent)?;
        let found = Want::new(slice)
            .leases_near(&self.path)
            .find(|lease| lease.path == self.path);
        let Some(lease) = found.filter(|lease| !lease.is_over(now)) else {
            return Err(Refusal::LeaseNotFound {
                path: self.path.to_string(),
            });
        };
        if lease.agent != self.agent {
            return Err(Refusal::LeaseNotYours {
                path: self.path.to_string(),
                held_by: lease.agent.clone(),
            });
        }
        if self.fencing.is_some_and(|fencing| fencing != lease.fencing) {
            return Err(Refusal::StaleFencingToken {
                path: self.path.to_string(),
                current: lease.fencing,
            });
        }
        let mut changes = Changes::default();
        sign_of_life(agent, &mut changes, now);
        let expires_at = now + self.lasts_for.min(limits::LEASE_FOR_MAX);
        let lease = extended(lease, None, expires_at, &mut changes);
        changes.leases.push(lease.clone());
        Ok((lease, changes))
    }
}

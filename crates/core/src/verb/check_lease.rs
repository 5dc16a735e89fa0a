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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Standing, Swarm};
    use super::*;

    #[test]
    fn a_path_is_held_while_a_lease_that_overlaps_lives() {
        let table = [
            ("src", None, 0, true),
            ("src/a.rs", None, 0, true),
            ("docs", None, 0, false),
            ("src", Some("A"), 0, false),
            ("src", Some("B"), 0, true),
            ("src", None, 599, true),
            ("src", None, 600, false),
        ];
        for (path, agent, after, held) in table {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.lease("A", "src", None);
            swarm.wait(Duration::from_secs(after));
            let state = swarm.ok(CheckLease {
                path: LeasePath::stored(path),
                agent: agent.map(AgentId::from),
            });
            let found = matches!(state, LeaseState::Held(_));
            assert_eq!(found, held, "{path} for {agent:?} after {after} s");
            assert!(swarm.said().is_empty(), "a question changes nothing");
        }
    }
}

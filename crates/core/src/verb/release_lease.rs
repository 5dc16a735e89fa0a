//! RELEASE_LEASE: the holder, or a person, frees a path.

use super::{Verb, sign_of_life, speaker};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::lease::Lease;
use crate::path::LeasePath;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseLease {
    /// The holder, or `None` for a person.
    pub agent: Option<AgentId>,
    pub path: LeasePath,
    pub fencing: Option<u64>,
}

impl Verb for ReleaseLease {
    /// Whether there was a lease to release.
    type Reply = bool;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(agent) = &self.agent {
            want.agent(agent);
        }
        let _ = want.leases_near(&self.path);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(bool, Changes), Refusal> {
        let mut changes = Changes::default();
        if let Some(agent) = &self.agent {
            sign_of_life(speaker(slice, agent)?, &mut changes, now);
        }
        let found = Want::new(slice)
            .leases_near(&self.path)
            .find(|lease| lease.path == self.path);
        let Some(lease) = found else {
            return Ok((false, changes));
        };
        let own = self
            .agent
            .as_ref()
            .is_none_or(|agent| *agent == lease.agent);
        if !own && !lease.is_over(now) {
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
        changes.remove::<Lease>(lease.path.clone());
        changes.event(Event::LeaseReleased {
            path: lease.path.to_string(),
            agent: lease.agent.clone(),
        });
        Ok((own, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Standing, Swarm, word};
    use super::*;

    fn release(agent: Option<&str>, path: &str, fencing: Option<u64>) -> ReleaseLease {
        ReleaseLease {
            agent: agent.map(AgentId::from),
            path: LeasePath::stored(path),
            fencing,
        }
    }

    #[test]
    fn who_may_release_by_table() {
        // jetpack.release.request_response, jetpack.lease_security.own_only
        let table = [
            (Some("A"), "src", None, "ok", true),
            (Some("A"), "src", Some(1), "ok", true),
            (Some("A"), "src", Some(9), "stale_fencing_token", false),
            (Some("A"), "other", None, "ok", false),
            (Some("B"), "src", None, "lease_not_yours", false),
            (Some("B"), "src/a.rs", None, "ok", false),
            (None, "src", None, "ok", true),
            (Some("nobody"), "src", None, "agent_not_registered", false),
        ];
        for (agent, path, fencing, expected, released) in table {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.join("B", &[]);
            swarm.lease("A", "src", None);
            let outcome = swarm.run(release(agent, path, fencing));
            assert_eq!(word(&outcome), expected, "{agent:?} {path} {fencing:?}");
            assert_eq!(outcome.unwrap_or(false), released, "{agent:?} {path}");
            assert_eq!(swarm.leases.is_empty(), released, "{agent:?} {path}");
        }
    }

    #[test]
    fn anyone_may_clear_what_is_over() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.lease("A", "src", None);
        swarm.wait(Duration::from_secs(600));
        assert!(!swarm.ok(release(Some("B"), "src", None)));
        assert!(swarm.leases.is_empty());
        assert_eq!(swarm.head.leases, 0);
    }
}

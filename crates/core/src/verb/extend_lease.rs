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
        changes.put(lease.clone());
        Ok((lease, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, word};
    use super::*;

    fn extend(agent: &str, path: &str, fencing: Option<u64>) -> ExtendLease {
        ExtendLease {
            agent: agent.into(),
            path: LeasePath::stored(path),
            lasts_for: Duration::from_secs(900),
            fencing,
        }
    }

    #[test]
    fn only_the_holder_extends_and_only_what_it_holds() {
        // jetpack.lease.extend_own
        let table = [
            ("A", "src", None, "ok"),
            ("A", "src", Some(1), "ok"),
            ("A", "src", Some(2), "stale_fencing_token"),
            ("A", "src/a.rs", None, "lease_not_found"),
            ("B", "src", None, "lease_not_yours"),
            ("nobody", "src", None, "agent_not_registered"),
        ];
        for (agent, path, fencing, expected) in table {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.join("B", &[]);
            swarm.lease("A", "src", None);
            let outcome = swarm.run(extend(agent, path, fencing));
            assert_eq!(word(&outcome), expected, "{agent} {path} {fencing:?}");
            if let Ok(lease) = outcome {
                assert_eq!(lease.expires_at, swarm.now + Duration::from_secs(900));
            }
        }
    }

    #[test]
    fn what_is_over_cannot_be_extended() {
        for (after, expected) in [
            (599, "ok"),
            (600, "lease_not_found"),
            (601, "lease_not_found"),
        ] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.lease("A", "src", None);
            swarm.wait(Duration::from_secs(after));
            assert_eq!(
                word(&swarm.run(extend("A", "src", None))),
                expected,
                "{after}"
            );
        }
    }

    #[test]
    fn an_extension_is_capped_like_a_new_lease() {
        // jetpack.lease_security.duration_cap
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.lease("A", "src", None);
        let lease = swarm.ok(ExtendLease {
            lasts_for: limits::LEASE_FOR_MAX * 2,
            ..extend("A", "src", None)
        });
        assert_eq!(lease.expires_at, swarm.now + limits::LEASE_FOR_MAX);
    }
}

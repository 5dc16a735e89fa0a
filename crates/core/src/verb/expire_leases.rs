//! Caretaker: leases whose time is over end by themselves.

use super::{Sweep, Verb};
use crate::changes::Changes;
use crate::event::Event;
use crate::lease::Lease;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireLeases;

impl Verb for ExpireLeases {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let _ = want.due_leases(now, limits::CARETAKER_STEP);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut changes = Changes::default();
        for lease in Want::new(slice)
            .due_leases(now, limits::CARETAKER_STEP)
            .filter(|lease| lease.is_over(now))
        {
            changes.remove::<Lease>(lease.path.clone());
            changes.event(Event::LeaseExpired {
                path: lease.path.to_string(),
                agent: lease.agent.clone(),
            });
        }
        let done = changes.drops.len();
        Ok((
            Sweep {
                done,
                more: done == limits::CARETAKER_STEP,
            },
            changes,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Standing, Swarm};
    use super::*;

    #[test]
    fn a_lease_ends_by_itself_when_its_time_is_over() {
        // jetpack.lease_security.auto_release
        for (after, done) in [(599, 0), (600, 1), (601, 1)] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.lease("A", "src", None);
            swarm.wait(Duration::from_secs(after));
            assert_eq!(
                swarm.ok(ExpireLeases),
                Sweep { done, more: false },
                "{after}"
            );
            assert_eq!(swarm.leases.len(), 1 - done);
            assert_eq!(swarm.said().len(), done);
            assert_eq!(swarm.ok(ExpireLeases).done, 0);
        }
    }

    #[test]
    fn one_step_is_bounded() {
        let step = limits::CARETAKER_STEP;
        for (leases, done, more) in [
            (step - 1, step - 1, false),
            (step, step, true),
            (step + 1, step, true),
        ] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            for at in 0..leases {
                swarm.lease("A", &format!("f{at}"), None);
            }
            swarm.wait(Duration::from_secs(600));
            assert_eq!(swarm.ok(ExpireLeases), Sweep { done, more }, "{leases}");
        }
    }
}

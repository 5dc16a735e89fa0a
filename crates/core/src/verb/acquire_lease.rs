//! ACQUIRE_LEASE: one agent at a time may edit what a path covers.

use std::time::Duration;

use super::{Verb, check_holder, refused_sign_of_life, sign_of_life, speaker};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, TaskId};
use crate::lease::Lease;
use crate::limits;
use crate::path::LeasePath;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireLease {
    pub agent: AgentId,
    pub task: Option<TaskId>,
    /// Of the claim of that task.
    pub epoch: Option<u64>,
    pub path: LeasePath,
    pub lasts_for: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum LeaseAnswer {
    Granted(Lease),
    /// Somebody else's lease covers some of it.
    Held(Lease),
}

impl Verb for AcquireLease {
    type Reply = LeaseAnswer;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        if let Some(task) = &self.task {
            want.task(task);
        }
        let _ = want.leases_near(&self.path);
        let _ = want.leases_of_agent(&self.agent);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(LeaseAnswer, Changes), Refusal> {
        let agent = speaker(slice, &self.agent)?;
        if let Some(id) = &self.task {
            let task = slice
                .task(id)
                .ok_or_else(|| Refusal::TaskNotFound { task: id.clone() })?;
            check_holder(task, &self.agent, self.epoch).map_err(|why| Refusal::TaskNotYours {
                task: id.clone(),
                why,
            })?;
        }
        let mut changes = Changes::default();
        sign_of_life(agent, &mut changes, now);
        let mut mine = None;
        for lease in Want::new(slice)
            .leases_near(&self.path)
            .filter(|lease| lease.path.overlaps(&self.path))
        {
            if lease.is_over(now) {
                changes.remove::<Lease>(lease.path.clone());
                changes.event(Event::LeaseExpired {
                    path: lease.path.to_string(),
                    agent: lease.agent.clone(),
                });
            } else if lease.agent != self.agent {
                let mut refused = Changes::default();
                refused_sign_of_life(agent, &mut refused, now);
                return Ok((LeaseAnswer::Held(lease.clone()), refused));
            } else if lease.path == self.path {
                mine = Some(lease);
            }
        }
        let expires_at = now + self.lasts_for.min(limits::LEASE_FOR_MAX);
        let lease = match mine {
            Some(lease) => extended(lease, self.task.as_ref(), expires_at, &mut changes),
            None => {
                if Want::new(slice).leases_of_agent(&self.agent).count()
                    >= limits::LEASES_PER_AGENT_MAX
                {
                    return Err(Refusal::TooMany {
                        what: "leases of one agent",
                        limit: limits::LEASES_PER_AGENT_MAX,
                    });
                }
                self.granted(slice.head.fencing + 1, expires_at, now, &mut changes)
            }
        };
        changes.put(lease.clone());
        Ok((LeaseAnswer::Granted(lease), changes))
    }
}

impl AcquireLease {
    fn granted(
        &self,
        fencing: u64,
        expires_at: Timestamp,
        now: Timestamp,
        changes: &mut Changes,
    ) -> Lease {
        changes.event(Event::LeaseAcquired {
            path: self.path.to_string(),
            agent: self.agent.clone(),
            task: self.task.clone(),
            fencing,
            until: expires_at,
        });
        Lease {
            path: self.path.clone(),
            spelled: None,
            agent: self.agent.clone(),
            task: self.task.clone(),
            acquired_at: now,
            expires_at,
            renewals: 0,
            fencing,
            rev: 0,
        }
    }
}

/// A lease never gets shorter by asking again.
pub(super) fn extended(
    lease: &Lease,
    task: Option<&TaskId>,
    expires_at: Timestamp,
    changes: &mut Changes,
) -> Lease {
    let mut lease = lease.clone();
    lease.expires_at = lease.expires_at.max(expires_at);
    lease.renewals += 1;
    lease.task = task.cloned().or(lease.task);
    changes.event(Event::LeaseExtended {
        path: lease.path.to_string(),
        agent: lease.agent.clone(),
        until: lease.expires_at,
    });
    lease
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, word};
    use super::*;
    use crate::task::TaskStatus;

    fn acquire(agent: &str, path: &str, lasts_for: Duration) -> AcquireLease {
        AcquireLease {
            agent: agent.into(),
            task: None,
            epoch: None,
            path: LeasePath::stored(path),
            lasts_for,
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn who_may_acquire_by_standing() {
        for standing in Standing::ALL {
            let outcome = Swarm::with_agent(standing).run(acquire("A", "src", MINUTE));
            let expected = match standing {
                Standing::Unknown | Standing::Gone => "agent_not_registered",
                Standing::Live | Standing::Stopping | Standing::Silent => "ok",
            };
            assert_eq!(word(&outcome), expected, "{standing:?}");
        }
    }

    #[test]
    fn a_lease_for_a_task_needs_the_task_in_hand() {
        // jetpack.lease.request_fields; null is allowed
        for status in TaskStatus::ALL {
            let expected = match status {
                TaskStatus::Claimed | TaskStatus::InProgress => "ok",
                TaskStatus::Waiting | TaskStatus::Ready | TaskStatus::NeedsPerson => "not_holder",
                TaskStatus::RetryWait => "task_reassigned",
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled => {
                    "already_finished"
                }
            };
            let outcome = Swarm::with_task(*status).run(AcquireLease {
                task: Some("T".into()),
                ..acquire("A", "src", MINUTE)
            });
            assert_eq!(word(&outcome), expected, "{status}");
        }
    }

    #[test]
    fn a_path_is_granted_extended_or_refused_by_who_holds_it() {
        // jetpack.lease.grant_free, jetpack.lease.extend_own, jetpack.lease.reject_held
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        let LeaseAnswer::Granted(first) = swarm.ok(acquire("A", "src/a.rs", MINUTE)) else {
            panic!("it was free");
        };
        assert_eq!((first.expires_at, first.fencing), (swarm.now + MINUTE, 1));
        swarm.wait(MINUTE / 2);
        let LeaseAnswer::Granted(second) = swarm.ok(acquire("A", "src/a.rs", MINUTE)) else {
            panic!("it is A's own");
        };
        assert_eq!(second.expires_at, swarm.now + MINUTE);
        assert_eq!((second.fencing, second.renewals), (1, 1));
        for path in ["src/a.rs", "src", "src/*.rs", "."] {
            let LeaseAnswer::Held(lease) = swarm.ok(acquire("B", path, MINUTE)) else {
                panic!("{path} overlaps with what A holds");
            };
            assert_eq!(
                (lease.agent.as_str(), lease.expires_at),
                ("A", second.expires_at)
            );
            assert!(swarm.said().is_empty());
        }
        let free = swarm.ok(acquire("B", "src/b.rs", MINUTE));
        assert!(matches!(free, LeaseAnswer::Granted(lease) if lease.fencing == 2));
        assert_eq!(swarm.head.leases, 2);
    }

    #[test]
    fn a_lease_that_ran_out_goes_to_the_next_asker() {
        // jetpack.lease.grant_expired
        for (after, granted) in [(59_999, false), (60_000, true), (60_001, true)] {
            for path in ["src/a.rs", "src"] {
                let mut swarm = Swarm::with_agent(Standing::Live);
                swarm.join("B", &[]);
                swarm.ok(acquire("A", "src/a.rs", MINUTE));
                swarm.wait(Duration::from_millis(after));
                let answer = swarm.ok(acquire("B", path, MINUTE));
                let got = matches!(answer, LeaseAnswer::Granted(_));
                assert_eq!(got, granted, "{path} after {after} ms");
                if granted {
                    assert_eq!(swarm.leased(), [(path, "B")]);
                    assert_eq!(swarm.said(), ["lease_expired", "lease_acquired"]);
                    assert_eq!(swarm.head.leases, 1);
                }
            }
        }
    }

    #[test]
    fn more_than_an_hour_is_granted_as_an_hour() {
        // jetpack.lease_security.duration_cap
        let tick = Duration::from_millis(1);
        for asked in [
            limits::LEASE_FOR_MAX - tick,
            limits::LEASE_FOR_MAX,
            limits::LEASE_FOR_MAX + tick,
        ] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            let LeaseAnswer::Granted(lease) = swarm.ok(acquire("A", "src", asked)) else {
                panic!("it was free");
            };
            assert_eq!(
                lease.expires_at,
                swarm.now + asked.min(limits::LEASE_FOR_MAX)
            );
        }
    }

    #[test]
    fn asking_again_for_less_does_not_shorten_a_lease() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.ok(acquire("A", "src", MINUTE * 2));
        let LeaseAnswer::Granted(lease) = swarm.ok(acquire("A", "src", MINUTE)) else {
            panic!("it is A's own");
        };
        assert_eq!(lease.expires_at, swarm.now + MINUTE * 2);
    }

    #[test]
    fn leases_of_one_agent_are_bounded() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        for at in 0..limits::LEASES_PER_AGENT_MAX {
            let answer = swarm.ok(acquire("A", &format!("f{at}"), MINUTE));
            assert!(matches!(answer, LeaseAnswer::Granted(_)), "lease {at}");
        }
        assert_eq!(
            word(&swarm.run(acquire("A", "one-more", MINUTE))),
            "too_many"
        );
        assert_eq!(
            word(&swarm.run(acquire("A", "f0", MINUTE))),
            "ok",
            "its own may be extended"
        );
    }
}

//! ACQUIRE_LEASE: one agent at a time may edit what a path covers.

use std::time::Duration;

use super::{Verb, check_holder, sign_of_life, speaker};
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
            check_holder(task, &self.agent, None).map_err(|why| Refusal::TaskNotYours {
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
                changes.ended_leases.push(lease.path.clone());
                changes.event(Event::LeaseExpired {
                    path: lease.path.to_string(),
                    agent: lease.agent.clone(),
                });
            } else if lease.agent != self.agent {
                let mut refused = Changes::default();
                sign_of_life(agent, &mut refused, now);
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
        changes.leases.push(lease.clone());
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

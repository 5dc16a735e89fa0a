//! Leases that were written by hand.

use std::time::Duration;

use super::{HandStep, Steps};
use crate::changes::Changes;
use crate::event::Event;
use crate::lease::Lease;
use crate::path::LeasePath;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::verb::{AcquireLease, LeaseAnswer, Verb};
use crate::want::Want;

pub(super) fn steps(steps: &mut Steps, path: &LeasePath, was: Option<&Lease>, is: Option<&Lease>) {
    let passed_on = |was: &Lease| is.is_none_or(|is| is.agent != was.agent);
    if was.is_some_and(passed_on) {
        steps.push(Box::new(LetGo { path: path.clone() }));
    }
    if let Some(is) = is {
        steps.push(Box::new(Take { is: is.clone() }));
    }
}

/// It is let go, or has run out.
struct LetGo {
    path: LeasePath,
}

impl HandStep for LetGo {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let _ = want.leases_near(&self.path);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let mut changes = Changes::default();
        // The hub may have ended it first.
        let Some(lease) = slice.lease(&self.path) else {
            return Ok(changes);
        };
        let (path, agent) = (lease.path.to_string(), lease.agent.clone());
        changes.event(if lease.is_over(now) {
            Event::LeaseExpired { path, agent }
        } else {
            Event::LeaseReleased { path, agent }
        });
        changes.remove::<Lease>(lease.path.clone());
        Ok(changes)
    }
}

/// Taken or renewed until the instant that the row says.
struct Take {
    is: Lease,
}

impl Take {
    /// Under the claim that there is: a row names none.
    fn acquire(&self, epoch: Option<u64>, now: Timestamp) -> AcquireLease {
        let lasts_for = self.is.expires_at.since(now);
        AcquireLease {
            agent: self.is.agent.clone(),
            task: self.is.task.clone(),
            epoch,
            path: self.is.path.clone(),
            lasts_for: lasts_for.max(Duration::from_millis(1)),
        }
    }
}

impl HandStep for Take {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        Verb::asks(&self.acquire(None, now), want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        // Where it leads was looked at when it was written, but not whether it makes sense as a glob.
        if let Err(message) = LeasePath::parse(self.is.path.as_str(), "") {
            let field = "file_path";
            return Err(Refusal::Invalid { field, message });
        }
        let task = self.is.task.as_ref().and_then(|task| slice.task(task));
        let epoch = task.map(|task| task.epoch);
        match Verb::decide(&self.acquire(epoch, now), slice, now)? {
            (LeaseAnswer::Granted(_), mut changes) => {
                for lease in changes.rows_mut::<Lease>() {
                    lease.spelled.clone_from(&self.is.spelled);
                }
                Ok(changes)
            }
            (LeaseAnswer::Held(other), _) => Err(Refusal::Invalid {
                field: "file_path",
                message: format!("{} is leased by {}", other.path, other.agent),
            }),
        }
    }
}

//! Caretaker: of what went wrong with tasks of capabilities it makes reviews, one for each way to fail.

use super::{Sweep, Verb};
use crate::capability::{Capability, CapabilityStatus};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::HUB;
use crate::incident::Resolved;
use crate::limits;
use crate::node::Gateway;
use crate::outbox::{FailureClass, own_id};
use crate::record::{Listed as _, Private as _, Record, RecordRange};
use crate::refusal::Refusal;
use crate::route::gateway;
use crate::skill_review::{Mishap, SkillReview};
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenReviews;

impl Verb for OpenReviews {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let due = want.due_privates::<Mishap>(now, limits::CARETAKER_STEP);
        if due.is_empty() {
            return;
        }
        want.private::<Gateway>("");
        want.privates::<SkillReview>(&all_open());
        for mishap in due {
            want.private::<Capability>(mishap.capability.to_string());
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut want = Want::new(slice);
        let due = want.due_privates::<Mishap>(now, limits::CARETAKER_STEP);
        let mut changes = Changes::default();
        let done = due.len();
        if done == 0 {
            return Ok((Sweep { done, more: false }, changes));
        }
        let here = gateway(&mut want)?;
        let open = want.privates::<SkillReview>(&all_open());
        let mut open: Vec<SkillReview> = open.into_iter().cloned().collect();
        for mishap in due {
            changes.remove::<Record>(Mishap::at(mishap.key()));
            let known = want.private::<Capability>(mishap.capability.to_string());
            let known = known.filter(|known| known.status != CapabilityStatus::Publishing);
            if let Some(capability) = known {
                let fresh = review(here, capability, mishap, now);
                note(fresh, mishap, &mut open, &mut changes, now);
            }
        }
        let more = done == limits::CARETAKER_STEP;
        Ok((Sweep { done, more }, changes))
    }
}

fn all_open() -> RecordRange {
    SkillReview::range(false, limits::REVIEWS_OPEN_MAX)
}

fn review(here: &Gateway, of: &Capability, mishap: &Mishap, now: Timestamp) -> SkillReview {
    let mut review = SkillReview {
        id: String::new(),
        capability: mishap.capability.clone(),
        delegation_version: of.manifest.delegation.version.clone(),
        executor_version: of.manifest.executor.version.clone(),
        class: mishap.class,
        corr_ids: Vec::new(),
        count: 0,
        created_at: now,
        last_at: now,
        resolved: None,
    };
    review.id = own_id("rev", &here.node_id, &review.subject(), now);
    review
}

fn note(
    mut fresh: SkillReview,
    mishap: &Mishap,
    open: &mut Vec<SkillReview>,
    changes: &mut Changes,
    now: Timestamp,
) {
    if let Some(known) = open.iter_mut().find(|one| one.subject() == fresh.subject()) {
        known.add(&mishap.corr_id, now);
        changes.put(known.clone());
        return;
    }
    if open.len() >= limits::REVIEWS_OPEN_MAX {
        let oldest = open.remove(0);
        let resolved = Resolved {
            by: HUB.to_owned(),
            why: format!("{} reviews are open", limits::REVIEWS_OPEN_MAX),
            at: now,
        };
        resolve(oldest, resolved, changes);
    }
    fresh.add(&mishap.corr_id, now);
    changes.event(Event::ReviewOpened {
        review: fresh.id.clone(),
        capability: fresh.capability.clone(),
        failure_class: fresh.class.to_string(),
    });
    changes.put(fresh.clone());
    open.push(fresh);
}

/// It is history from here on.
pub(super) fn resolve(
    mut review: SkillReview,
    resolved: Resolved,
    changes: &mut Changes,
) -> SkillReview {
    changes.event(Event::ReviewResolved {
        review: review.id.clone(),
        by: resolved.by.clone(),
        note: resolved.why.clone(),
    });
    changes.remove::<Record>(SkillReview::at(review.subject()));
    review.resolved = Some(resolved);
    changes.put(review.clone());
    review
}

/// A task of a capability did not come to what was promised.
pub(super) fn fell_short(changes: &mut Changes, task: &Task, class: FailureClass, now: Timestamp) {
    let contract = task.contract.as_ref();
    let named = contract.and_then(|contract| contract.capability.as_deref());
    if let Some(mishap) = Mishap::of(named, class, &task.corr_id, now) {
        changes.put(mishap);
    }
}

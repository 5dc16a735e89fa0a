//! A task went nowhere though it named capabilities that are in use: three times in ten minutes, and somebody should look.

use super::Verb;
use crate::capability::{Capability, is_granted};
use crate::changes::Changes;
use crate::id::CorrId;
use crate::limits;
use crate::outbox::FailureClass;
use crate::refusal::Refusal;
use crate::skill_review::{Mishap, Unrouted};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteUnrouted {
    /// What the task required.
    pub required: Vec<String>,
    pub corr_id: CorrId,
}

impl Verb for NoteUnrouted {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        for id in self.capabilities() {
            want.private::<Capability>(id.clone());
            want.private::<Unrouted>(id);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut want = Want::new(slice);
        let mut changes = Changes::default();
        for id in self.capabilities() {
            let known = want.private::<Capability>(id.clone());
            if !known.is_some_and(Capability::is_active) {
                continue;
            }
            let before = want.private::<Unrouted>(id.clone());
            let mut at = before.map_or_else(Vec::new, |before| before.at.clone());
            at.retain(|at| *at + limits::UNROUTED_WITHIN > now);
            at.push(now);
            if at.len() >= limits::UNROUTED_TIMES {
                at.clear();
                let class = FailureClass::CapabilityUnavailable;
                if let Some(mishap) = Mishap::of(Some(&id), class, &self.corr_id, now) {
                    changes.put(mishap);
                }
            }
            let capability = id.into();
            changes.put(Unrouted { capability, at });
        }
        Ok(((), changes))
    }
}

impl NoteUnrouted {
    fn capabilities(&self) -> impl Iterator<Item = String> {
        let named = self.required.iter().filter(|word| is_granted(word));
        named.map(|word| word.to_lowercase())
    }
}

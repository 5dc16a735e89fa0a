//! A person has reviewed a capability's skills.

use super::Verb;
use super::open_reviews::resolve;
use crate::changes::Changes;
use crate::incident::Resolved;
use crate::limits;
use crate::refusal::Refusal;
use crate::skill_review::SkillReview;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveReview {
    pub review: String,
    pub by: String,
    pub note: String,
}

impl Verb for ResolveReview {
    type Reply = SkillReview;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.privates::<SkillReview>(&SkillReview::range(false, limits::REVIEWS_OPEN_MAX));
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(SkillReview, Changes), Refusal> {
        let range = SkillReview::range(false, limits::REVIEWS_OPEN_MAX);
        let open = Want::new(slice).privates::<SkillReview>(&range);
        let found = open.into_iter().find(|one| one.id == self.review);
        let found = found.cloned().ok_or_else(|| Refusal::ReviewNotFound {
            review: self.review.clone(),
        })?;
        let resolved = Resolved {
            by: self.by.clone(),
            why: self.note.clone(),
            at: now,
        };
        let mut changes = Changes::default();
        Ok((resolve(found, resolved, &mut changes), changes))
    }
}

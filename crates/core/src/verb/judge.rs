//! Somebody says whether a claim holds.

use super::Verb;
use crate::assertion::{Assertion, AssertionStatus, Judged};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge {
    pub claim: u64,
    pub status: AssertionStatus,
    pub by: AgentId,
    pub why: String,
}

impl Verb for Judge {
    type Reply = Assertion;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Assertion>(Assertion::key_of(self.claim));
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Assertion, Changes), Refusal> {
        let known = Want::new(slice).private::<Assertion>(Assertion::key_of(self.claim));
        let Some(mut claim) = known.cloned() else {
            let number = self.claim;
            return Err(Refusal::ClaimNotFound { number });
        };
        claim.status = self.status;
        claim.judged = Some(Judged {
            by: self.by.clone(),
            why: self.why.clone(),
            at: now,
        });
        let mut changes = Changes::default();
        changes.event(Event::ClaimJudged {
            claim: claim.number,
            message: claim.message.clone(),
            line: claim.line,
            status: claim.status.to_string(),
            by: self.by.to_string(),
            why: self.why.clone(),
        });
        changes.put(claim.clone());
        Ok((claim, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, word};
    use super::*;

    #[test]
    fn only_a_claim_that_is_known_is_judged() {
        let mut swarm = Swarm::new();
        let judge = Judge {
            claim: 1,
            status: AssertionStatus::Confirmed,
            by: "architect".into(),
            why: "read it".to_owned(),
        };
        assert_eq!(word(&swarm.run(judge)), "claim_not_found");
        assert!(swarm.records.is_empty());
    }
}

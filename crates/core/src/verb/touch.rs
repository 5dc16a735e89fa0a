//! A sign of life from an agent that only reads.

use super::{Verb, sign_of_life, speaker};
use crate::changes::Changes;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    pub agent: AgentId,
}

impl Verb for Touch {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut changes = Changes::default();
        sign_of_life(speaker(slice, &self.agent)?, &mut changes, now);
        Ok(((), changes))
    }
}

//! A token stops working.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::TokenId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeToken {
    pub id: TokenId,
}

impl Verb for RevokeToken {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.token(&self.id);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let known = slice.ranges.tokens.get(&self.id).and_then(Option::as_ref);
        let mut token = known.cloned().ok_or(Refusal::TokenNotFound)?;
        let mut changes = Changes::default();
        if token.revoked_at.is_none() {
            token.revoked_at = Some(now);
            changes.event(Event::TokenRevoked {
                name: token.name.clone(),
            });
            changes.tokens.push(token);
        }
        Ok(((), changes))
    }
}

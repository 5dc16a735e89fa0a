//! A token stops working.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::TokenId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::token::Token;
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
        let known = slice.row::<Token>(&self.id);
        let mut token = known.cloned().ok_or(Refusal::TokenNotFound)?;
        let mut changes = Changes::default();
        if token.revoked_at.is_none() {
            token.revoked_at = Some(now);
            changes.event(Event::TokenRevoked {
                name: token.name.clone(),
            });
            changes.put(token);
        }
        Ok(((), changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::CreateToken;
    use super::super::testing::{Swarm, word};
    use super::*;
    use crate::token::Scope;

    #[test]
    fn a_token_stops_once_and_an_unknown_one_is_refused() {
        let mut swarm = Swarm::new();
        let revoke = || RevokeToken { id: "k".into() };
        assert_eq!(word(&swarm.run(revoke())), "token_not_found");
        let token = swarm.ok(CreateToken {
            id: "k".into(),
            name: "ci".to_owned(),
            scope: Scope::Viewer,
            agent: None,
            hash: [7; 32],
        });
        assert_eq!((token.created_at, token.revoked_at), (swarm.now, None));
        assert_eq!(swarm.said(), ["token_created"]);
        swarm.wait(Duration::from_secs(1));
        let revoked = swarm.now;
        swarm.ok(revoke());
        assert_eq!(swarm.said(), ["token_revoked"]);
        swarm.wait(Duration::from_secs(1));
        swarm.ok(revoke());
        assert!(swarm.said().is_empty());
        assert_eq!(swarm.tokens[&"k".into()].revoked_at, Some(revoked));
    }
}

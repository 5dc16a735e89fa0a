//! A token for a person or a program that is not an agent.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::TokenId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::token::{Scope, Token};
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateToken {
    pub id: TokenId,
    pub name: String,
    pub scope: Scope,
    pub hash: [u8; 32],
}

impl Verb for CreateToken {
    type Reply = Token;

    fn asks(&self, _want: &mut Want<'_>, _now: Timestamp) {}

    fn decide(&self, _slice: &Slice, now: Timestamp) -> Result<(Token, Changes), Refusal> {
        let token = Token {
            id: self.id.clone(),
            name: self.name.clone(),
            scope: self.scope,
            hash: self.hash,
            created_at: now,
            revoked_at: None,
        };
        let mut changes = Changes::default();
        changes.event(Event::TokenCreated {
            name: token.name.clone(),
            scope: token.scope.to_string(),
        });
        changes.tokens.push(token.clone());
        Ok((token, changes))
    }
}

//! A token: for a person, for a program, or for one agent.

use super::{Verb, check_unreserved};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, TokenId};
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
    /// Of scope `agent`: which one.
    pub agent: Option<AgentId>,
    pub hash: [u8; 32],
}

impl Verb for CreateToken {
    type Reply = Token;

    fn asks(&self, _want: &mut Want<'_>, _now: Timestamp) {}

    fn decide(&self, _slice: &Slice, now: Timestamp) -> Result<(Token, Changes), Refusal> {
        self.check()?;
        let token = Token {
            id: self.id.clone(),
            name: self.name.clone(),
            scope: self.scope,
            agent: self.agent.clone(),
            hash: self.hash,
            created_at: now,
            revoked_at: None,
        };
        let mut changes = Changes::default();
        changes.event(Event::TokenCreated {
            name: token.name.clone(),
            scope: token.grant(),
        });
        changes.put(token.clone());
        Ok((token, changes))
    }
}

impl CreateToken {
    /// A token of scope `agent` is that of one agent, any other of none.
    fn check(&self) -> Result<(), Refusal> {
        let wrong = |message: &str| {
            Err(Refusal::Invalid {
                field: "agent_id",
                message: message.to_owned(),
            })
        };
        match (self.scope, &self.agent) {
            (Scope::Agent, Some(agent)) => check_unreserved(agent),
            (Scope::Agent, None) => wrong("a token of scope agent requires the id of its agent"),
            (_, Some(_)) => wrong("only a token of scope agent may have an agent's id"),
            (_, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, word};
    use super::*;

    #[test]
    fn a_token_of_scope_agent_names_one_and_others_name_none() {
        for scope in Scope::ALL {
            for agent in [None, Some("A"), Some("steward"), Some("Ste\u{200b}ward")] {
                let outcome = Swarm::new().run(CreateToken {
                    id: "t".into(),
                    name: "n".to_owned(),
                    scope: *scope,
                    agent: agent.map(Into::into),
                    hash: [7; 32],
                });
                let fits = match scope {
                    Scope::Agent => agent == Some("A"),
                    _ => agent.is_none(),
                };
                assert_eq!(outcome.is_ok(), fits, "{scope} {agent:?}");
                if !fits {
                    assert_eq!(word(&outcome), "invalid");
                }
            }
        }
    }
}

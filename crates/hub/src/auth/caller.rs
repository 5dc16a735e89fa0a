//! A caller that is known, and what it may do.

use std::sync::Arc;

use switchboard_core::changes::Nonce;
use switchboard_core::token::{Scope, Token};
use switchboard_core::{AgentId, Message};
use switchboard_store::sqlite::door::Rank;
use switchboard_wire::signature::AgentKey;

use super::Mark;
use crate::http::Failure;

#[derive(Clone, Debug)]
pub struct Caller {
    pub principal: Principal,
    /// The signature that proved it; committed with what it asks for.
    nonce: Option<Nonce>,
    /// The same in the memory of what was used a moment ago.
    pub mark: Option<Mark>,
    pub proof: Proof,
}

/// What a caller is known by, so that it can be asked for again while an answer goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing is asked for, or what was shown never changes.
    Lasting,
    /// The hash of a token's secret.
    Token([u8; 32]),
    Key(AgentKey),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// A person: decides, approves, steers.
    Steward(Arc<str>),
    /// Reads.
    Viewer(Arc<str>),
    /// Another gateway.
    Node(Arc<str>),
    /// The public tables only, as any agent.
    Sql(Arc<str>),
    /// The public tables only, also as a person.
    SqlSteward(Arc<str>),
    /// Acts only as itself.
    Agent(AgentId),
}

impl Caller {
    /// Whoever reaches a hub that asks for nothing, or can read its master key.
    pub fn steward() -> Self {
        Caller {
            principal: Principal::Steward("steward".into()),
            nonce: None,
            mark: None,
            proof: Proof::Lasting,
        }
    }

    pub fn agent(agent: AgentId, nonce: Nonce, key: AgentKey) -> Self {
        Caller {
            principal: Principal::Agent(agent),
            nonce: Some(nonce),
            mark: None,
            proof: Proof::Key(key),
        }
    }

    pub fn bearer(token: &Token) -> Self {
        let name = token.id.as_str().into();
        let principal = match token.scope {
            Scope::Steward => Principal::Steward(name),
            Scope::Viewer => Principal::Viewer(name),
            Scope::Node => Principal::Node(name),
            Scope::Sql => Principal::Sql(name),
            Scope::SqlSteward => Principal::SqlSteward(name),
        };
        Caller {
            principal,
            nonce: None,
            mark: None,
            proof: Proof::Token(token.hash),
        }
    }

    /// The name that its idempotency keys are kept under, and that goes into the record.
    pub fn name(&self) -> &str {
        match &self.principal {
            Principal::Steward(name)
            | Principal::Viewer(name)
            | Principal::Node(name)
            | Principal::Sql(name)
            | Principal::SqlSteward(name) => name,
            Principal::Agent(agent) => agent.as_str(),
        }
    }

    /// The agent that this caller is, if it is one.
    pub fn is_agent(&self) -> Option<&AgentId> {
        match &self.principal {
            Principal::Agent(agent) => Some(agent),
            Principal::Steward(_)
            | Principal::Viewer(_)
            | Principal::Node(_)
            | Principal::Sql(_)
            | Principal::SqlSteward(_) => None,
        }
    }

    /// For the `part`th change of this call; one signature may stand over a batch of them.
    pub fn nonce(&self, part: Option<usize>) -> Option<Nonce> {
        let nonce = self.nonce.clone()?;
        Some(match part {
            None => nonce,
            Some(part) => Nonce {
                value: format!("{}/{part}", nonce.value).into(),
                ..nonce
            },
        })
    }

    /// An agent acts as itself, the steward as anyone.
    pub fn may_act_as(&self, agent: &AgentId) -> Result<(), Failure> {
        match &self.principal {
            Principal::Steward(_) => Ok(()),
            Principal::Agent(own) if own == agent => Ok(()),
            Principal::Agent(own) => Err(Failure::NotYou {
                caller: own.clone(),
                agent: agent.clone(),
            }),
            Principal::Viewer(_) => Err(Failure::Forbidden("a viewer only reads")),
            Principal::Node(_) => Err(Failure::Forbidden("a node does not act as an agent here")),
            Principal::Sql(_) | Principal::SqlSteward(_) => Err(Failure::Forbidden(SQL_ONLY)),
        }
    }

    /// Agents may make tasks too; they plan.
    pub fn may_create(&self) -> Result<(), Failure> {
        match &self.principal {
            Principal::Steward(_) | Principal::Agent(_) => Ok(()),
            Principal::Viewer(_) => Err(Failure::Forbidden("a viewer only reads")),
            Principal::Node(_) => Err(Failure::Forbidden("a node does not make tasks here")),
            Principal::Sql(_) | Principal::SqlSteward(_) => Err(Failure::Forbidden(SQL_ONLY)),
        }
    }

    /// What only a person decides.
    pub fn may_steer(&self) -> Result<(), Failure> {
        match &self.principal {
            Principal::Steward(_) => Ok(()),
            Principal::Agent(_) | Principal::Viewer(_) | Principal::Node(_) => Err(
                Failure::Forbidden("this takes a steward; bring a token of that scope"),
            ),
            Principal::Sql(_) | Principal::SqlSteward(_) => Err(Failure::Forbidden(SQL_ONLY)),
        }
    }

    pub fn may_read(&self) -> Result<(), Failure> {
        match &self.principal {
            Principal::Steward(_)
            | Principal::Viewer(_)
            | Principal::Node(_)
            | Principal::Agent(_) => Ok(()),
            Principal::Sql(_) | Principal::SqlSteward(_) => Err(Failure::Forbidden(SQL_ONLY)),
        }
    }

    /// Statements of its own, on the public tables, and as whom.
    pub fn may_send_sql(&self) -> Result<Rank, Failure> {
        match &self.principal {
            Principal::Sql(_) => Ok(Rank::Agent),
            Principal::SqlSteward(_) => Ok(Rank::Steward),
            Principal::Steward(_)
            | Principal::Viewer(_)
            | Principal::Node(_)
            | Principal::Agent(_) => Err(Failure::Forbidden(
                "this takes a token of scope sql; 'switchboard token create <name> --scope sql' makes one",
            )),
        }
    }

    /// Everybody's messages.
    pub fn may_read_messages(&self) -> Result<(), Failure> {
        match &self.principal {
            Principal::Steward(_) | Principal::Viewer(_) => Ok(()),
            Principal::Agent(_) | Principal::Node(_) => Err(Failure::Forbidden(
                "everyone's messages are for stewards and viewers",
            )),
            Principal::Sql(_) | Principal::SqlSteward(_) => Err(Failure::Forbidden(SQL_ONLY)),
        }
    }

    /// An agent sees what it sent or was sent, nothing else.
    pub fn may_read_message<'a>(
        &self,
        message: &Message,
        mut recipients: impl Iterator<Item = &'a AgentId>,
    ) -> Result<(), Failure> {
        match &self.principal {
            Principal::Agent(own) if message.from == *own || recipients.any(|to| to == own) => {
                Ok(())
            }
            Principal::Agent(_) => Err(Failure::Forbidden(
                "this message was neither sent by you nor to you",
            )),
            Principal::Steward(_)
            | Principal::Viewer(_)
            | Principal::Node(_)
            | Principal::Sql(_)
            | Principal::SqlSteward(_) => self.may_read_messages(),
        }
    }
}

const SQL_ONLY: &str = "a token for SQL opens the public tables and nothing else";

#[cfg(test)]
mod tests {
    use switchboard_core::{Timestamp, TokenId};
    use switchboard_wire::signature::MasterKey;

    use super::*;

    fn bearer(scope: Scope) -> Caller {
        Caller::bearer(&Token {
            id: TokenId::from("tok_1"),
            name: "n".to_owned(),
            scope,
            hash: [0; 32],
            created_at: Timestamp(0),
            revoked_at: None,
        })
    }

    fn agent(id: &str) -> Caller {
        let nonce = Nonce {
            agent: id.into(),
            value: "s".into(),
            valid_until: Timestamp(1),
        };
        Caller::agent(id.into(), nonce, MasterKey::new([1; 32]).agent_key(id, 1))
    }

    #[test]
    fn each_principal_may_do_its_part_and_no_more() {
        // act as a1, act as a2, create, steer, read, read all messages, send SQL
        let cases = [
            (
                Caller::steward(),
                [true, true, true, true, true, true, false],
            ),
            (
                bearer(Scope::Steward),
                [true, true, true, true, true, true, false],
            ),
            (agent("a1"), [true, false, true, false, true, false, false]),
            (
                bearer(Scope::Viewer),
                [false, false, false, false, true, true, false],
            ),
            (
                bearer(Scope::Node),
                [false, false, false, false, true, false, false],
            ),
            (
                bearer(Scope::Sql),
                [false, false, false, false, false, false, true],
            ),
            (
                bearer(Scope::SqlSteward),
                [false, false, false, false, false, false, true],
            ),
        ];
        for (caller, may) in cases {
            let found = [
                caller.may_act_as(&"a1".into()).is_ok(),
                caller.may_act_as(&"a2".into()).is_ok(),
                caller.may_create().is_ok(),
                caller.may_steer().is_ok(),
                caller.may_read().is_ok(),
                caller.may_read_messages().is_ok(),
                caller.may_send_sql().is_ok(),
            ];
            assert_eq!(found, may, "{:?}", caller.principal);
        }
    }

    #[test]
    fn an_agent_that_acts_as_another_is_told_so() {
        assert!(matches!(
            agent("a1").may_act_as(&"a2".into()),
            Err(Failure::NotYou { .. })
        ));
    }

    #[test]
    fn the_parts_of_a_batch_have_nonces_of_their_own() {
        let caller = agent("a1");
        assert_eq!(&*caller.nonce(None).unwrap().value, "s");
        assert_eq!(&*caller.nonce(Some(3)).unwrap().value, "s/3");
        assert_eq!(Caller::steward().nonce(None), None);
    }
}

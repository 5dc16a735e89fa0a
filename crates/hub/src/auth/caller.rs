//! A caller that is known, and what it may do.

use std::sync::Arc;

use switchboard_core::changes::Nonce;
use switchboard_core::rights::Right;
use switchboard_core::token::{Scope, Token};
use switchboard_core::{AgentId, Message, NodeId, Pass};
use switchboard_wire::signature::AgentKey;

use super::Mark;
use crate::call::Failure;

#[derive(Clone, Debug)]
pub struct Caller {
    pub principal: Principal,
    /// The signature that proved it; committed with what it asks for.
    pub(super) nonce: Option<Nonce>,
    /// The same in the memory of what was used a moment ago.
    pub mark: Option<Mark>,
    /// What lets an external agent in, this once.
    pub pass: Option<Arc<Pass>>,
    pub proof: Proof,
}

/// What a caller is known by, so that it can be asked for again while an answer goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing is asked for.
    Lasting,
    /// A token, by the hash of its secret.
    Token([u8; 32]),
    Key(AgentKey),
    /// A ticket of a node.
    Ticket,
    /// A session of an external agent.
    Session(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Principal {
    /// Acts only as itself.
    Agent(AgentId),
    /// A person or a program that is no agent, by the id of its token.
    Bearer(Scope, Arc<str>),
    /// Another hub of the swarm.
    Node(NodeId),
}

impl Caller {
    /// Whoever can read the master key, by the hash of the token that follows from it.
    pub fn local_steward(hash: [u8; 32]) -> Self {
        Caller {
            proof: Proof::Token(hash),
            ..Caller::steward()
        }
    }

    /// Whoever reaches a hub that asks for nothing.
    pub fn steward() -> Self {
        Caller {
            principal: Principal::Bearer(Scope::Steward, "steward".into()),
            nonce: None,
            mark: None,
            pass: None,
            proof: Proof::Lasting,
        }
    }

    pub fn agent(agent: AgentId, nonce: Nonce, key: AgentKey) -> Self {
        Caller {
            nonce: Some(nonce),
            ..Caller::key(agent, key)
        }
    }

    /// Whoever has an agent's key.
    pub fn key(agent: AgentId, key: AgentKey) -> Self {
        Caller {
            principal: Principal::Agent(agent),
            nonce: None,
            mark: None,
            pass: None,
            proof: Proof::Key(key),
        }
    }

    pub fn bearer(token: &Token) -> Self {
        let principal = match (token.scope, &token.agent) {
            (_, Some(agent)) => Principal::Agent(agent.clone()),
            // Without its agent, which the rules never write, it may do little.
            (Scope::Agent, None) => Principal::Bearer(Scope::Node, token.id.as_str().into()),
            (scope, None) => Principal::Bearer(scope, token.id.as_str().into()),
        };
        Caller {
            principal,
            nonce: None,
            mark: None,
            pass: None,
            proof: Proof::Token(token.hash),
        }
    }

    /// A node that is joined.
    pub fn joined(node: NodeId) -> Self {
        Caller {
            principal: Principal::Node(node),
            nonce: None,
            mark: None,
            pass: None,
            proof: Proof::Ticket,
        }
    }

    /// An external agent, by the token that it showed.
    pub fn external(pass: Pass) -> Self {
        Caller {
            proof: Proof::Session(pass.session.clone()),
            principal: Principal::Agent(pass.agent.clone()),
            pass: Some(Arc::new(pass)),
            nonce: None,
            mark: None,
        }
    }

    /// The node that this caller is, if it is one.
    pub fn node(&self) -> Option<&NodeId> {
        match &self.principal {
            Principal::Node(node) => Some(node),
            Principal::Agent(_) | Principal::Bearer(..) => None,
        }
    }

    /// The name that its idempotency keys are kept under, and that goes into the record.
    pub fn name(&self) -> &str {
        match &self.principal {
            Principal::Bearer(_, name) => name,
            Principal::Agent(agent) => agent.as_str(),
            Principal::Node(node) => node.as_str(),
        }
    }

    /// The agent that this caller is, if it is one.
    pub fn is_agent(&self) -> Option<&AgentId> {
        match &self.principal {
            Principal::Agent(agent) => Some(agent),
            Principal::Bearer(..) | Principal::Node(_) => None,
        }
    }

    fn scope(&self) -> Scope {
        match &self.principal {
            Principal::Agent(_) => Scope::Agent,
            Principal::Bearer(scope, _) => *scope,
            Principal::Node(_) => Scope::Node,
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

    pub fn may(&self, right: Right) -> Result<(), Failure> {
        let scope = self.scope();
        if scope.may(right) {
            return Ok(());
        }
        // Whatever it asks for, a token for SQL is told what it is for.
        let missing = match scope.may(Right::Sql) && right != Right::SqlSteward {
            true => Right::Read,
            false => right,
        };
        Err(Failure::Forbidden(refusal(missing)))
    }

    /// An agent acts as itself, the steward as anyone.
    pub fn may_act_as(&self, agent: &AgentId) -> Result<(), Failure> {
        self.may(Right::Act)?;
        match &self.principal {
            Principal::Agent(own) if own != agent => Err(Failure::NotYou {
                caller: own.clone(),
                agent: agent.clone(),
            }),
            Principal::Agent(_) => Ok(()),
            Principal::Bearer(..) | Principal::Node(_) => self.may(Right::ActAsAnyone),
        }
    }

    /// Statements of its own, on the public tables, and by which right.
    pub fn may_send_sql(&self) -> Result<Right, Failure> {
        self.may(Right::Sql)?;
        match self.scope().may(Right::SqlSteward) {
            true => Ok(Right::SqlSteward),
            false => Ok(Right::Sql),
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
                "you are neither the sender nor a recipient of this message",
            )),
            Principal::Bearer(..) | Principal::Node(_) => self.may(Right::AllMessages),
        }
    }
}

/// What is said to who may not.
pub(super) fn refusal(right: Right) -> &'static str {
    match right {
        Right::Read => "a token for SQL works only for SQL on the public tables",
        Right::Messages => "only agents, stewards and viewers may read messages",
        Right::AllMessages => "only stewards and viewers may read everyone's messages",
        Right::Act | Right::ActAsAnyone => {
            "this requires an agent's key, a token of scope agent, or a steward's token"
        }
        Right::Create => "only agents and stewards may create tasks",
        Right::Operate => "this requires a token of scope operator or steward",
        Right::Steer => "this requires a token of scope steward",
        Right::Exchange => "this requires a ticket of a node, or a token of scope steward",
        Right::Sql | Right::SqlSteward => {
            "this requires a token of scope sql in Authorization: Bearer; create one with 'switchboard token create <name> --scope sql'"
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_core::Timestamp;
    use switchboard_wire::signature::MasterKey;

    use super::*;

    fn agent(id: &str) -> Caller {
        let nonce = Nonce {
            agent: id.into(),
            value: "s".into(),
            valid_until: Timestamp(1),
        };
        Caller::agent(id.into(), nonce, MasterKey::new([1; 32]).agent_key(id, 1))
    }

    fn bearer(scope: Scope, agent: Option<&str>) -> Caller {
        Caller::bearer(&Token {
            id: "tok_1".into(),
            name: "n".to_owned(),
            scope,
            agent: agent.map(Into::into),
            hash: [0; 32],
            created_at: Timestamp(0),
            revoked_at: None,
        })
    }

    #[test]
    fn an_agent_acts_as_itself_and_a_steward_as_anyone() {
        let a1 = AgentId::from("a1");
        for caller in [
            agent("a1"),
            bearer(Scope::Agent, Some("a1")),
            bearer(Scope::Steward, None),
            Caller::steward(),
        ] {
            assert!(caller.may_act_as(&a1).is_ok(), "{caller:?}");
        }
        for caller in [agent("a2"), bearer(Scope::Agent, Some("a2"))] {
            let refused = caller.may_act_as(&a1);
            assert!(matches!(refused, Err(Failure::NotYou { .. })), "{caller:?}");
        }
        for scope in Scope::ALL {
            let caller = bearer(*scope, None);
            let is_steward = *scope == Scope::Steward;
            assert_eq!(caller.may_act_as(&a1).is_ok(), is_steward, "{scope}");
        }
    }

    #[test]
    fn the_parts_of_a_batch_have_nonces_of_their_own() {
        let caller = agent("a1");
        assert_eq!(&*caller.nonce(None).unwrap().value, "s");
        assert_eq!(&*caller.nonce(Some(3)).unwrap().value, "s/3");
        assert_eq!(Caller::steward().nonce(None), None);
    }
}

//! Tokens of people and programs that are not agents. Only a hash of the secret is kept.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, TokenId};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub name: String,
    pub scope: Scope,
    /// The one that it acts as; of scope `agent`, and of no other.
    pub agent: Option<AgentId>,
    pub hash: [u8; 32],
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Scope {
        Steward = "steward",
        Viewer = "viewer",
        Node = "node",
        Sql = "sql",
        SqlSteward = "sql:steward",
        /// One agent.
        Agent = "agent",
        /// An operator of the bus.
        Operator = "operator",
    }
}

impl Token {
    /// Its scope and its agent in one text, as they are kept: `viewer`, `agent:worker-3`.
    pub fn grant(&self) -> String {
        match &self.agent {
            Some(agent) => format!("{}:{agent}", self.scope),
            None => self.scope.to_string(),
        }
    }

    /// Reads what [`Token::grant`] wrote.
    pub fn read_grant(text: &str) -> Option<(Scope, Option<AgentId>)> {
        if let Some(scope) = Scope::parse(text) {
            return Some((scope, None));
        }
        let (scope, agent) = text.split_once(':')?;
        let scope = Scope::parse(scope).filter(|scope| *scope == Scope::Agent)?;
        Some((scope, Some(agent.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_read_as_it_was_written() {
        let of = |scope, agent: Option<&str>| Token {
            id: "t".into(),
            name: "n".to_owned(),
            scope,
            agent: agent.map(Into::into),
            hash: [0; 32],
            created_at: Timestamp(0),
            revoked_at: None,
        };
        for scope in Scope::ALL {
            let grant = of(*scope, None).grant();
            assert_eq!(Token::read_grant(&grant), Some((*scope, None)));
        }
        for agent in ["worker-3", "a:b", "steward"] {
            let grant = of(Scope::Agent, Some(agent)).grant();
            let read = Some((Scope::Agent, Some(agent.into())));
            assert_eq!(Token::read_grant(&grant), read);
        }
        for none in ["", "agents", "viewer:a", ":a"] {
            assert_eq!(Token::read_grant(none), None, "{none}");
        }
    }
}

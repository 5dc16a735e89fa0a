//! What each kind of credential may do. The hub checks by this table, and prints it.

use serde::{Deserialize, Serialize};

use crate::token::Scope;

words! {
    /// Something that a caller may or may not do, through whatever door.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Right {
        /// See tasks, agents, leases, events, quality, memory.
        Read = "read",
        /// See messages that one sent or was sent.
        Messages = "read one's messages",
        /// See everybody's.
        AllMessages = "read all messages",
        /// Register, claim, report, send and receive as oneself.
        Act = "act as oneself",
        /// The same as any agent.
        ActAsAnyone = "act as anyone",
        /// Make tasks.
        Create = "create tasks",
        /// Pause and resume; the orders of the bus.
        Operate = "operate",
        /// What a person decides: change, cancel, approve, tokens, keys, the baseline.
        Steer = "steer",
        /// Read outboxes, and bring one's own, as a node or as who looks after one.
        Exchange = "exchange events between nodes",
        /// Statements on the public tables, as any agent.
        Sql = "SQL",
        /// The same as a steward.
        SqlSteward = "SQL as steward",
    }
}

/// All that a scope may do. An agent that signs with its key has scope `agent`; whoever can read the hub's master key, or
/// reaches a hub that asks for nothing, has scope `steward`.
const fn rights(scope: Scope) -> &'static [Right] {
    use Right::{
        Act, ActAsAnyone, AllMessages, Create, Exchange, Messages, Operate, Read, Sql, SqlSteward,
        Steer,
    };
    match scope {
        Scope::Steward => &[
            Read,
            Messages,
            AllMessages,
            Act,
            ActAsAnyone,
            Create,
            Operate,
            Steer,
            Exchange,
        ],
        Scope::Viewer => &[Read, Messages, AllMessages],
        Scope::Node => &[Read, Exchange],
        Scope::Agent => &[Read, Messages, Act, Create],
        Scope::Operator => &[Read, Operate],
        Scope::Sql => &[Sql],
        Scope::SqlSteward => &[Sql, SqlSteward],
    }
}

impl Scope {
    pub fn may(self, right: Right) -> bool {
        rights(self).contains(&right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_but_a_steward_steers_and_sql_opens_nothing_else() {
        for scope in Scope::ALL {
            let is_sql = scope.may(Right::Sql);
            assert_eq!(scope.may(Right::Steer), *scope == Scope::Steward, "{scope}");
            for right in Right::ALL {
                let of_sql = matches!(right, Right::Sql | Right::SqlSteward);
                assert!(!scope.may(*right) || of_sql == is_sql, "{scope} {right}");
            }
        }
    }
}

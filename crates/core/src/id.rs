//! Ids as types, so that two of them cannot be swapped. Cheap to clone.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

/// Who a person is to the agents.
pub const STEWARD: &str = "steward";
/// Who speaks when the hub itself does.
pub const HUB: &str = "switchboard";

impl AgentId {
    /// Whether no agent can have this id, because somebody else speaks under it.
    pub fn is_reserved(&self) -> bool {
        [STEWARD, HUB].contains(&self.as_str())
    }
}

ids! {
    /// One namespace for the agents of all dialects.
    AgentId,
    TaskId,
    MessageId,
    /// Ties together a task or message and everything said about it, across dialects.
    CorrId,
    CommandId,
    SnapshotId,
    LearningId,
    EngramId,
    TokenId,
    /// What an agent calls a request for a budget.
    RequestId,
    GrantId,
}

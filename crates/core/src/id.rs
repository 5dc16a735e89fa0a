//! Ids as types, so that two of them cannot be swapped. Cheap to clone.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::doors::SLOTS;

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

/// The person in front of the screen, and the one behind a phone: both have a mailbox.
pub const USER: &str = "user";
pub const TELEGRAM: &str = "telegram";
/// Who speaks when the hub does, to those who speak by roles.
pub const HUB_ROLE: &str = "hub";

/// Names that no agent has.
pub const RESERVED: [&str; 7] = [STEWARD, HUB, USER, TELEGRAM, HUB_ROLE, "cli", "all"];

impl AgentId {
    /// Whether it is one of the background agents.
    pub fn is_slot(&self) -> bool {
        SLOTS.contains(&self.as_str())
    }

    /// Whether somebody speaks under this id who is no agent.
    pub fn is_no_agent(&self) -> bool {
        RESERVED.contains(&self.as_str()) || self.is_slot()
    }

    /// Whether no agent can have this id: it is one of those, or a person would take it for one.
    pub fn is_reserved(&self) -> bool {
        let mut names = RESERVED.iter().chain(&SLOTS);
        names.any(|name| looks_like(&self.0, name))
    }
}

/// Whether the two differ in nothing but case, and characters that cannot be seen or only turn the others around.
fn looks_like(text: &str, name: &str) -> bool {
    let seen = text.chars().filter(|letter| !is_unseen(*letter));
    seen.flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .eq(name.chars())
}

/// What Unicode calls default ignorable, and the controls of direction.
fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
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
    /// An event between nodes, also when it is sent again.
    EventId,
    /// What an agent calls a request for a budget.
    RequestId,
    GrantId,
    /// A hub among those that are gateways of one swarm.
    NodeId,
    CapabilityId,
    JobId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_reads_like_a_reserved_one_is_reserved() {
        for id in [
            "steward",
            "Steward",
            "SWITCHBOARD",
            "\u{17f}teward",
            "\u{fb06}eward",
            "ste\u{200b}ward",
            "steward\u{feff}",
            "\u{202e}steward\u{202c}",
            "\u{2066}switch\u{ad}board\u{2069}",
            "s\u{fe0f}teward",
            "switchboard\u{e0041}",
        ] {
            assert!(AgentId::from(id).is_reserved(), "{id:?}");
        }
        for id in ["stewards", "steward-2", "switchboard1", "käthe", "s", ""] {
            assert!(!AgentId::from(id).is_reserved(), "{id:?}");
        }
        assert!(AgentId::from("steward").is_no_agent());
        assert!(!AgentId::from("Steward").is_no_agent(), "nobody is");
    }
}

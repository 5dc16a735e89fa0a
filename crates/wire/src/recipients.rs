//! Whom a message is for, where it names somebody: one agent's id, or a list of them.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// One agent, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Recipients {
    One(String),
    Several(Vec<String>),
}

impl Recipients {
    /// One of them may be named more than once.
    pub fn ids(&self) -> &[String] {
        match self {
            Recipients::One(id) => std::slice::from_ref(id),
            Recipients::Several(ids) => ids,
        }
    }
}

impl From<String> for Recipients {
    fn from(id: String) -> Self {
        Recipients::One(id)
    }
}

impl fmt::Display for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.ids().join(", "))
    }
}

// By hand: whoever sends something else shall read what would have been right.
impl<'de> Deserialize<'de> for Recipients {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Recipients;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an agent's id or a list of them")
            }

            fn visit_str<E>(self, id: &str) -> Result<Recipients, E> {
                Ok(Recipients::One(id.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Recipients, A::Error> {
                let mut ids = Vec::new();
                while let Some(id) = list.next_element()? {
                    ids.push(id);
                }
                Ok(Recipients::Several(ids))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

//! A kind that only tests write: it has all that a private row can have.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{History, Private};
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub name: String,
    pub owner: String,
    pub position: Option<i64>,
    pub due_at: Option<Timestamp>,
    /// The first version did not have it.
    #[serde(default)]
    pub text: String,
}

impl Private for Sample {
    const VERSION: u32 = 2;
    const HISTORY: Option<History> = Some(History {
        owner: "past",
        kept_for: Duration::from_secs(3600),
    });

    fn key(&self) -> Cow<'static, str> {
        Cow::Owned(self.name.clone())
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn position(&self) -> Option<i64> {
        self.position
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.due_at
    }
}

//! Programs that a coordinator runs: each is noted before it begins, so that none outlives a coordinator that was killed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::id::AgentId;
use crate::limits;
use crate::record::{Private, RecordRange};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// In the environment of the program and of whatever it starts.
    pub id: String,
    /// Whom it is run as.
    pub agent: AgentId,
    /// Where its processes are: whoever serves there next may look for them.
    pub place: String,
    /// The coordinator that runs it.
    pub by: String,
    pub began_at: Timestamp,
}

impl Private for Run {
    fn key(&self) -> Cow<'static, str> {
        self.id.clone().into()
    }

    fn position(&self) -> Option<i64> {
        Some(self.began_at.0)
    }
}

impl Run {
    /// All that are noted, oldest first.
    pub fn all() -> RecordRange {
        RecordRange::of::<Run>("", limits::RUNS_MAX)
    }
}

//! Small rows of which there is one each: what the director was told, what a budget has given out.

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, Resource};
use crate::time::Timestamp;

/// Which one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKey {
    Director,
    Budget(Resource),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    Director(Director),
    Budget(Budget),
}

/// What people told the director of the bus, for all coordinators and across restarts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Director {
    pub paused: Option<Paused>,
    /// No new work before this.
    pub cooldown_until: Option<Timestamp>,
    pub release: Option<Release>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub by: String,
    pub reason: String,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub id: String,
    pub branch: String,
    pub pr_number: Option<u64>,
    pub main_sha: Option<String>,
    pub image_tag: Option<String>,
}

impl RecordKey {
    /// The two words it is stored under.
    pub fn names(&self) -> (&'static str, &'static str) {
        match self {
            RecordKey::Director => ("director", ""),
            RecordKey::Budget(resource) => ("budget", resource.as_str()),
        }
    }
}

impl Record {
    pub fn key(&self) -> RecordKey {
        match self {
            Record::Director(_) => RecordKey::Director,
            Record::Budget(budget) => RecordKey::Budget(budget.resource),
        }
    }

    /// When somebody must look at it again.
    pub fn due_at(&self) -> Option<Timestamp> {
        match self {
            Record::Director(_) => None,
            Record::Budget(budget) => budget.next_at(),
        }
    }
}

impl Director {
    /// Whether new work may be handed out.
    pub fn hands_out(&self, now: Timestamp) -> bool {
        self.paused.is_none() && self.cooldown_until.is_none_or(|until| until <= now)
    }
}

//! Small rows of which there is one each: what the director was told, what a budget has given out, when nobody served, who does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, Resource};
use crate::served::ServedTime;
use crate::time::Timestamp;

/// Which one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKey {
    Director,
    Budget(Resource),
    ServedTime,
    Coordinators,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    Director(Director),
    Budget(Budget),
    ServedTime(ServedTime),
    Coordinators(Coordinators),
}

/// Who serves one ledger together, and when each last said so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinators {
    pub seen: BTreeMap<String, Timestamp>,
}

/// What people told the director of the bus, for all coordinators and across restarts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Director {
    pub paused: Option<Paused>,
    /// No new work before this.
    pub cooldown_until: Option<Timestamp>,
    /// Who ordered that, and why.
    pub cooldown: Option<Paused>,
    pub release: Option<Release>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub by: String,
    pub reason: String,
    pub at: Timestamp,
}

/// No new work for anybody, through whatever door; without an end, until somebody resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub by: String,
    pub why: String,
    pub until: Option<Timestamp>,
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
            RecordKey::ServedTime => ("served_time", ""),
            RecordKey::Coordinators => ("coordinators", ""),
        }
    }
}

impl Record {
    pub fn key(&self) -> RecordKey {
        match self {
            Record::Director(_) => RecordKey::Director,
            Record::Budget(budget) => RecordKey::Budget(budget.resource),
            Record::ServedTime(_) => RecordKey::ServedTime,
            Record::Coordinators(_) => RecordKey::Coordinators,
        }
    }

    /// When somebody must look at it again.
    pub fn due_at(&self) -> Option<Timestamp> {
        match self {
            Record::Director(director) => director.cooldown_until,
            Record::ServedTime(_) | Record::Coordinators(_) => None,
            Record::Budget(budget) => budget.next_at(),
        }
    }
}

impl Director {
    /// Whether new work may be handed out.
    pub fn hands_out(&self, now: Timestamp) -> bool {
        self.paused.is_none() && self.cooldown_until.is_none_or(|until| until <= now)
    }

    /// Of two, the one that lasts longer holds.
    pub fn cool_down(&mut self, until: Timestamp, told: Paused) {
        if self.cooldown_until.is_none_or(|known| known <= until) {
            self.cooldown_until = Some(until);
            self.cooldown = Some(told);
        }
    }

    pub fn end_cooldown(&mut self) {
        (self.cooldown_until, self.cooldown) = (None, None);
    }

    /// What holds new work back, if anything does.
    pub fn hold(&self, now: Timestamp) -> Option<Hold> {
        if self.hands_out(now) {
            return None;
        }
        let until = self.cooldown_until.filter(|_| self.paused.is_none());
        let told = self.paused.as_ref().or(self.cooldown.as_ref());
        Some(Hold {
            by: told.map(|told| told.by.clone()).unwrap_or_default(),
            why: told.map(|told| told.reason.clone()).unwrap_or_default(),
            until,
        })
    }
}

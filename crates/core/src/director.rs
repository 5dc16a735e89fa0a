//! What people told the director: whether work is handed out, and what is released.

use serde::{Deserialize, Serialize};

use crate::record::Private;
use crate::time::Timestamp;

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
    /// The number of the event that told of it.
    pub release_seq: u64,
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

impl Private for Director {
    /// Every claim asks for it.
    const LASTS: bool = true;

    fn due_at(&self) -> Option<Timestamp> {
        self.cooldown_until
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

//! Reviews: a capability whose tasks go wrong is looked at by a person. Of each capability, its versions and its way to
//! fail one is open; what goes wrong again is added to it.
//!
//! Whatever goes wrong leaves a [`Mishap`] in its own commit; a caretaker makes reviews of them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::capability::is_granted;
use crate::id::{CapabilityId, CorrId, TaskId};
use crate::incident::Resolved;
use crate::limits;
use crate::outbox::FailureClass;
use crate::record::{History, Private, RecordRange};
use crate::time::Timestamp;

/// Something went wrong with a task of a capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mishap {
    pub capability: CapabilityId,
    pub class: FailureClass,
    pub corr_id: CorrId,
    pub at: Timestamp,
}

impl Mishap {
    /// None if no capability chose who does it.
    pub(crate) fn of(
        named: Option<&str>,
        class: FailureClass,
        corr_id: &CorrId,
        at: Timestamp,
    ) -> Option<Mishap> {
        let capability = named.filter(|word| is_granted(word))?;
        Some(Mishap {
            capability: capability.to_lowercase().into(),
            class,
            corr_id: corr_id.clone(),
            at,
        })
    }
}

impl Private for Mishap {
    fn key(&self) -> Cow<'static, str> {
        let Mishap {
            capability,
            class,
            corr_id,
            at,
        } = self;
        format!("{capability}|{class}|{corr_id}|{}", at.0).into()
    }

    fn due_at(&self) -> Option<Timestamp> {
        Some(self.at)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillReview {
    /// `rev_` and a ULID.
    pub id: String,
    pub capability: CapabilityId,
    pub delegation_version: String,
    pub executor_version: String,
    pub class: FailureClass,
    /// The last ones.
    pub corr_ids: Vec<CorrId>,
    pub count: u64,
    pub created_at: Timestamp,
    pub last_at: Timestamp,
    pub resolved: Option<Resolved>,
}

const OPEN: &str = "open";
const RESOLVED: &str = "resolved";

impl Private for SkillReview {
    const HISTORY: Option<History> = Some(History {
        owner: RESOLVED,
        kept_for: limits::RESOLVED_REVIEWS_KEPT_FOR,
    });

    /// What is open has a key that says what it is about.
    fn key(&self) -> Cow<'static, str> {
        match self.resolved {
            Some(_) => self.id.clone().into(),
            None => self.subject().into(),
        }
    }

    fn owner(&self) -> &str {
        match self.resolved {
            None => OPEN,
            Some(_) => RESOLVED,
        }
    }

    fn position(&self) -> Option<i64> {
        let at = self.resolved.as_ref().map_or(self.created_at, |end| end.at);
        Some(at.0)
    }
}

impl SkillReview {
    pub(crate) fn subject(&self) -> String {
        let (capability, class) = (&self.capability, &self.class);
        let (one, other) = (&self.delegation_version, &self.executor_version);
        format!("{capability}|{one}|{other}|{class}")
    }

    /// Those that are open, oldest first, or those that are resolved, newest first.
    pub fn range(is_resolved: bool, limit: usize) -> RecordRange {
        let owner = if is_resolved { RESOLVED } else { OPEN };
        RecordRange {
            newest_first: is_resolved,
            ..RecordRange::of::<SkillReview>(owner, limit)
        }
    }

    /// The same went wrong once more.
    pub(crate) fn add(&mut self, corr_id: &CorrId, now: Timestamp) {
        self.count += 1;
        self.last_at = now;
        if !self.corr_ids.contains(corr_id) {
            if self.corr_ids.len() >= limits::REVIEW_SAMPLES_MAX {
                self.corr_ids.remove(0);
            }
            self.corr_ids.push(corr_id.clone());
        }
    }
}

/// When a task of a capability should be done at the latest, whether somebody holds it or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promised {
    pub task: TaskId,
    pub at: Timestamp,
}

impl Private for Promised {
    fn key(&self) -> Cow<'static, str> {
        self.task.to_string().into()
    }

    fn due_at(&self) -> Option<Timestamp> {
        Some(self.at)
    }
}

/// Tasks of a capability that went nowhere: when, the last few times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unrouted {
    pub capability: CapabilityId,
    pub at: Vec<Timestamp>,
}

impl Private for Unrouted {
    fn key(&self) -> Cow<'static, str> {
        self.capability.to_string().into()
    }
}

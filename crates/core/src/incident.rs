//! Incidents: what a person should look after. Of each kind and subject one is open; what happens again is counted there.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::changes::Changes;
use crate::event::Event;
use crate::id::{CorrId, HUB};
use crate::limits;
use crate::record::{History, Listed as _, Private, Record, RecordRange};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// Not `kind`, which says what kind of private row it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is about: an agent, a task, a node.
    pub subject: String,
    pub corr_id: Option<CorrId>,
    /// What was said the last time.
    pub message: String,
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    pub resolved: Option<Resolved>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    pub by: String,
    pub why: String,
    pub at: Timestamp,
}

/// Something that happened and makes an incident, or counts in the one that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    pub kind: &'static str,
    pub subject: String,
    pub corr_id: Option<CorrId>,
    pub message: String,
}

const OPEN: &str = "open";
const RESOLVED: &str = "resolved";

impl Private for Incident {
    const HISTORY: Option<History> = Some(History {
        owner: RESOLVED,
        kept_for: limits::RESOLVED_INCIDENTS_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        self.id().into()
    }

    fn owner(&self) -> &str {
        match self.resolved {
            None => OPEN,
            Some(_) => RESOLVED,
        }
    }

    fn position(&self) -> Option<i64> {
        let at = self.resolved.as_ref().map_or(self.first_at, |end| end.at);
        Some(at.0)
    }
}

impl Incident {
    /// By which people and programs name it. The one of an open incident is free again once it is resolved.
    pub fn id(&self) -> String {
        let (kind, subject) = (&self.kind, &self.subject);
        match &self.resolved {
            None => format!("{kind}:{subject}"),
            Some(end) => format!("{kind}:{subject}@{}", end.at.0),
        }
    }

    /// Those that are open, oldest first, or those that are resolved, newest first.
    pub fn range(is_resolved: bool, limit: usize) -> RecordRange {
        let owner = if is_resolved { RESOLVED } else { OPEN };
        RecordRange {
            newest_first: is_resolved,
            ..RecordRange::of::<Incident>(owner, limit)
        }
    }

    /// Ends one that is open: it is history from here on.
    pub(crate) fn resolve(mut self, changes: &mut Changes, resolved: Resolved) -> Incident {
        changes.event(Event::IncidentResolved {
            incident: self.id(),
            by: resolved.by.clone(),
            why: resolved.why.clone(),
        });
        changes.remove::<Record>(Incident::at(self.id()));
        self.resolved = Some(resolved);
        changes.put(self.clone());
        self
    }
}

impl Alarm {
    pub fn asks(&self, want: &mut Want<'_>) {
        if want
            .private::<Incident>(self.opens(Timestamp::ZERO).id())
            .is_none()
        {
            want.privates::<Incident>(&all_open());
        }
    }

    pub fn raise(&self, slice: &Slice, changes: &mut Changes, now: Timestamp) {
        let opened = self.opens(now);
        let mut want = Want::new(slice);
        if let Some(open) = want.private::<Incident>(opened.id()) {
            changes.put(Incident {
                count: open.count + 1,
                first_at: open.first_at,
                ..opened
            });
            return;
        }
        let open = want.privates::<Incident>(&all_open());
        if open.len() >= limits::INCIDENTS_OPEN_MAX
            && let Some(oldest) = open.first().copied().cloned()
        {
            let resolved = Resolved {
                by: HUB.to_owned(),
                why: format!("{} incidents are open", open.len()),
                at: now,
            };
            oldest.resolve(changes, resolved);
        }
        changes.event(Event::IncidentOpened {
            incident: opened.id(),
            kind: opened.kind.clone(),
            subject: opened.subject.clone(),
            message: opened.message.clone(),
        });
        changes.put(opened);
    }

    fn opens(&self, now: Timestamp) -> Incident {
        Incident {
            kind: self.kind.to_owned(),
            subject: limits::cut(&self.subject, limits::NAME_BYTES_MAX).to_owned(),
            corr_id: self.corr_id.clone(),
            message: limits::cut(&self.message, limits::NOTE_BYTES_MAX).to_owned(),
            count: 1,
            first_at: now,
            last_at: now,
            resolved: None,
        }
    }
}

fn all_open() -> RecordRange {
    Incident::range(false, limits::INCIDENTS_OPEN_MAX)
}

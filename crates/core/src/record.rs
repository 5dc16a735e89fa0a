//! Private rows: nouns that are few or slow, and that no SQL of strangers sees, share one table.
//!
//! Such a noun is a file of its own, with the type, its serde form and what [`Private`] asks for, and a line in the list
//! at the end of this one. Load, save, ranges, the next due instant, retention and the copy between engines follow.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::assertion::{Asserting, Assertion};
use crate::audit::AuditEntry;
use crate::budget::Budget;
use crate::capability::{Capability, Granted, Policies, Release};
use crate::contract::{Deadline, Notice};
use crate::coordinators::Coordinators;
use crate::cursor::{Announced, Cursor, FarAgent, Neighbour, Subscriber, Watermark};
use crate::director::Director;
use crate::distribution::Distribution;
use crate::duty::Duty;
use crate::engram::{EngramEntry, EngramText};
use crate::external::{AgentInvite, ExternalSession, SessionCount, Visitor};
use crate::incident::Incident;
use crate::job::{Job, JobDirectory, JobShelf, JobSpec};
use crate::job_history::{Exchange, Interaction, JobEntry, RecoveryPoint};
use crate::node::{Gateway, Node, NodeInvite};
use crate::order::{Order, Ordered};
use crate::outbox::{Declined, Outgoing};
use crate::recurrence::Recurrence;
use crate::release_gate::ReleaseGate;
use crate::root::Root;
use crate::row::Row;
use crate::run::Run;
use crate::served::ServedTime;
use crate::skill_review::{Mishap, Promised, SkillReview, Unrouted};
use crate::talk::{Chat, Counted, Holders, Owed, Refused, Session, Spoken};
use crate::time::Timestamp;

#[cfg(any(test, feature = "ledger"))]
mod sample;

#[cfg(any(test, feature = "ledger"))]
pub use sample::Sample;

/// A noun that is kept as a private row.
pub trait Private: Sized {
    /// Of its serde form. A build reads what has this version or a lower one: what was added has a default.
    const VERSION: u32 = 1;
    /// Whether the working set keeps it from batch to batch.
    const LASTS: bool = false;
    const HISTORY: Option<History> = None;

    /// What tells it from others of its kind.
    fn key(&self) -> Cow<'static, str> {
        Cow::Borrowed("")
    }

    /// Rows of a kind are listed by owner.
    fn owner(&self) -> &str {
        ""
    }

    /// Its place among those of its owner. Without one it is in no list.
    fn position(&self) -> Option<i64> {
        None
    }

    /// When somebody must look at it again.
    fn due_at(&self) -> Option<Timestamp> {
        None
    }
}

/// Rows that are of the past, and how long they are kept: those of this owner, whose position is an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    pub owner: &'static str,
    pub kept_for: Duration,
}

/// Names one private row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    pub kind: Kind,
    pub key: Cow<'static, str>,
}

/// A stretch of the rows of one kind and owner, by position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordRange {
    pub kind: Kind,
    pub owner: Cow<'static, str>,
    /// Rows behind this one.
    pub after: Option<Place>,
    pub newest_first: bool,
    pub limit: usize,
}

/// Where a row is among those of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub position: i64,
    /// Of two with the same position.
    pub key: Cow<'static, str>,
}

impl RecordRange {
    /// The first ones of an owner.
    pub fn of<T: Listed>(owner: impl Into<Cow<'static, str>>, limit: usize) -> RecordRange {
        RecordRange {
            kind: T::KIND,
            owner: owner.into(),
            after: None,
            newest_first: false,
            limit,
        }
    }

    /// The last ones of an owner, the last one first.
    pub fn newest<T: Listed>(owner: impl Into<Cow<'static, str>>, limit: usize) -> RecordRange {
        RecordRange {
            newest_first: true,
            ..RecordRange::of::<T>(owner, limit)
        }
    }

    /// The place that all rows of the range lie behind.
    pub fn begins_after(&self) -> (i64, &str) {
        match (&self.after, self.newest_first) {
            (Some(place), _) => (place.position, &place.key),
            (None, false) => (i64::MIN, ""),
            (None, true) => (i64::MAX, "\u{10FFFF}"),
        }
    }
}

/// Written as people and URLs carry it: `position.key`.
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.position, self.key)
    }
}

impl std::str::FromStr for Place {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Place, Self::Err> {
        let (position, key) = text.split_once('.').unwrap_or((text, ""));
        Ok(Place {
            position: position.parse()?,
            key: Cow::Owned(key.to_owned()),
        })
    }
}

impl Record {
    pub fn place(&self) -> Option<Place> {
        let key = self.key().key;
        self.position().map(|position| Place { position, key })
    }
}

/// What the list makes of a noun.
pub trait Listed: Private + Into<Record> + Into<Row> {
    const KIND: Kind;

    fn of(record: &Record) -> Option<&Self>;
    fn out_of(record: Record) -> Option<Self>;

    fn at(key: impl Into<Cow<'static, str>>) -> RecordKey {
        RecordKey {
            kind: Self::KIND,
            key: key.into(),
        }
    }
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident = $kind:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind { $($(#[$meta])* $name,)* }

        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum Record { $($(#[$meta])* #[serde(rename = $kind)] $name($name),)* }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$($(#[$meta])* Kind::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self { $($(#[$meta])* Kind::$name => $kind,)* }
            }

            pub fn version(self) -> u32 {
                match self { $($(#[$meta])* Kind::$name => $name::VERSION,)* }
            }

            pub(crate) fn lasts(self) -> bool {
                match self { $($(#[$meta])* Kind::$name => $name::LASTS,)* }
            }

            pub(crate) fn history(self) -> Option<History> {
                match self { $($(#[$meta])* Kind::$name => $name::HISTORY,)* }
            }
        }

        impl Record {
            pub fn key(&self) -> RecordKey {
                match self { $($(#[$meta])* Record::$name(row) => $name::at(Private::key(row)),)* }
            }

            pub fn owner(&self) -> &str {
                match self { $($(#[$meta])* Record::$name(row) => row.owner(),)* }
            }

            pub fn position(&self) -> Option<i64> {
                match self { $($(#[$meta])* Record::$name(row) => row.position(),)* }
            }

            pub fn due_at(&self) -> Option<Timestamp> {
                match self { $($(#[$meta])* Record::$name(row) => row.due_at(),)* }
            }

            pub fn kind(&self) -> Kind {
                match self { $($(#[$meta])* Record::$name(_) => Kind::$name,)* }
            }
        }

        $(
            $(#[$meta])*
            impl From<$name> for Record {
                fn from(row: $name) -> Record {
                    Record::$name(row)
                }
            }

            $(#[$meta])*
            impl From<$name> for Row {
                fn from(row: $name) -> Row {
                    Record::$name(row).into()
                }
            }

            $(#[$meta])*
            impl Listed for $name {
                const KIND: Kind = Kind::$name;

                fn of(record: &Record) -> Option<&Self> {
                    match record { Record::$name(row) => Some(row), _ => None }
                }

                fn out_of(record: Record) -> Option<Self> {
                    match record { Record::$name(row) => Some(row), _ => None }
                }
            }
        )*
    };
}

kinds! {
    Director = "director";
    Budget = "budget";
    ServedTime = "served_time";
    Coordinators = "coordinators";
    Incident = "incident";
    EngramEntry = "engram";
    EngramText = "engram_text";
    Duty = "duty";
    Root = "root";
    Session = "session";
    Holders = "holders";
    Spoken = "spoken";
    Counted = "counted";
    Owed = "owed";
    Refused = "refused";
    Chat = "chat";
    ReleaseGate = "release_gate";
    Assertion = "assertion";
    Asserting = "asserting";
    Recurrence = "recurrence";
    Run = "run";
    Gateway = "gateway";
    Node = "node";
    NodeInvite = "node_invite";
    Outgoing = "outgoing";
    Declined = "declined";
    Watermark = "watermark";
    Cursor = "cursor";
    Subscriber = "subscriber";
    FarAgent = "far_agent";
    Announced = "announced";
    Order = "order";
    Ordered = "ordered";
    Deadline = "deadline";
    Notice = "notice";
    Neighbour = "neighbour";
    Capability = "capability";
    Release = "release";
    Granted = "granted";
    Policies = "policies";
    AgentInvite = "agent_invite";
    ExternalSession = "external_session";
    Visitor = "visitor";
    SessionCount = "session_count";
    AuditEntry = "audit";
    Distribution = "distribution";
    Promised = "promised";
    Mishap = "mishap";
    SkillReview = "skill_review";
    Unrouted = "unrouted";
    Job = "job";
    JobSpec = "job_spec";
    JobShelf = "job_shelf";
    JobDirectory = "job_directory";
    Interaction = "interaction";
    Exchange = "exchange";
    RecoveryPoint = "recovery_point";
    JobEntry = "job_entry";
    #[cfg(any(test, feature = "ledger"))]
    Sample = "sample";
}

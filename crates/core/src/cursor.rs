//! How far nodes are in each other's outboxes.
//!
//! A [`Cursor`] is this node's place in another's outbox, moved in the commit of what it took in. A [`Subscriber`] is
//! another node's place in this one's, as that node said when it last asked.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, EventId, NodeId};
use crate::limits;
use crate::record::{Private, RecordRange};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub source: NodeId,
    /// All up to here is durable here.
    pub last_seq: u64,
    /// The event at that place: another one there means another outbox.
    pub last_event: Option<EventId>,
    /// Of the source's outbox; nothing is known of it before the first page.
    pub epoch: Option<String>,
    pub status: CursorStatus,
    /// Since when the next event is missing.
    pub gap_since: Option<Timestamp>,
    pub updated_at: Timestamp,
    /// Events of kinds that this build does not know.
    pub passed_over: u64,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum CursorStatus {
        Active = "active",
        /// The next event is missing.
        Gap = "gap",
        /// A person must look: events are lost, or the outbox is another one.
        Halted = "halted",
        /// The source no longer has what comes next.
        Expired = "expired",
    }
}

words! {
    /// What is done once a missing event has been waited for.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum GapPolicy {
        Halt = "halt",
        Skip = "skip",
        /// As skip, and each missing number is an incident of its own.
        Tombstone = "tombstone",
    }
}

const OWNER: &str = "cursors";

impl Private for Cursor {
    const LASTS: bool = true;

    fn key(&self) -> Cow<'static, str> {
        self.source.to_string().into()
    }

    fn owner(&self) -> &str {
        OWNER
    }

    fn position(&self) -> Option<i64> {
        Some(0)
    }
}

impl Cursor {
    /// Before anything of the source was read.
    pub fn new(source: NodeId, now: Timestamp) -> Cursor {
        Cursor {
            source,
            last_seq: 0,
            last_event: None,
            epoch: None,
            status: CursorStatus::Active,
            gap_since: None,
            updated_at: now,
            passed_over: 0,
        }
    }

    /// Of every source.
    pub fn all() -> RecordRange {
        RecordRange::of::<Cursor>(OWNER, limits::NODES_MAX)
    }

    pub(crate) fn advance(&mut self, seq: u64, event: &EventId, now: Timestamp) {
        self.last_seq = seq;
        self.last_event = Some(event.clone());
        self.status = CursorStatus::Active;
        self.gap_since = None;
        self.updated_at = now;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscriber {
    pub node: NodeId,
    pub last_seq: u64,
    /// Until then what it has not read is kept for it.
    pub lease_until: Timestamp,
    pub updated_at: Timestamp,
}

impl Private for Subscriber {
    const LASTS: bool = true;

    fn key(&self) -> Cow<'static, str> {
        self.node.to_string().into()
    }

    fn owner(&self) -> &str {
        OWNER
    }

    fn position(&self) -> Option<i64> {
        Some(0)
    }
}

impl Subscriber {
    pub fn all() -> RecordRange {
        RecordRange::of::<Subscriber>(OWNER, limits::NODES_MAX)
    }

    pub fn is_active(&self, now: Timestamp) -> bool {
        now < self.lease_until
    }
}

/// Up to where this node's outbox was cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    /// The last number that is gone.
    pub seq: u64,
    /// Its event: who has read just so far may go on.
    pub event: Option<EventId>,
}

impl Private for Watermark {
    const LASTS: bool = true;
}

/// An agent that is at another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarAgent {
    /// As it is called here: where somebody else has its name, with its node behind it.
    pub agent: AgentId,
    /// As it is called there.
    pub home_id: AgentId,
    pub node: NodeId,
    pub rev: u64,
    pub is_live: bool,
}

impl Private for FarAgent {
    fn key(&self) -> Cow<'static, str> {
        self.agent.to_string().into()
    }

    fn owner(&self) -> &str {
        self.node.as_str()
    }

    fn position(&self) -> Option<i64> {
        Some(0)
    }
}

impl FarAgent {
    /// Those of a node.
    pub fn of_node(node: &NodeId, limit: usize) -> RecordRange {
        RecordRange::of::<FarAgent>(node.to_string(), limit)
    }
}

/// Another node, as far as it was heard of: what it owns is its own while it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    pub node: NodeId,
    pub heard_at: Timestamp,
    /// Rows that are kept of its agents.
    pub agents: u32,
    /// It left: what is known of it goes, a bounded number of rows at a time.
    pub is_gone: bool,
    /// The last order that was looked at for it, as it is printed.
    #[serde(default)]
    pub orders_upto: Option<String>,
}

const NEIGHBOURS: &str = "neighbours";

impl Private for Neighbour {
    const LASTS: bool = true;

    fn key(&self) -> Cow<'static, str> {
        self.node.to_string().into()
    }

    fn owner(&self) -> &str {
        NEIGHBOURS
    }

    fn position(&self) -> Option<i64> {
        Some(0)
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.is_gone.then_some(self.heard_at)
    }
}

impl Neighbour {
    pub fn all() -> RecordRange {
        RecordRange::of::<Neighbour>(NEIGHBOURS, 2 * limits::NODES_MAX)
    }

    pub fn new(node: NodeId, now: Timestamp) -> Neighbour {
        Neighbour {
            node,
            heard_at: now,
            agents: 0,
            is_gone: false,
            orders_upto: None,
        }
    }

    /// Whether what it owns is still its own.
    pub fn has_lease(&self, now: Timestamp) -> bool {
        !self.is_gone && now < self.heard_at + limits::OWNER_LEASE_FOR
    }
}

/// What other nodes were last told of an agent here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    pub agent: AgentId,
    pub rev: u64,
    pub is_live: bool,
}

const ANNOUNCED: &str = "announced";

impl Private for Announced {
    fn key(&self) -> Cow<'static, str> {
        self.agent.to_string().into()
    }

    fn owner(&self) -> &str {
        ANNOUNCED
    }

    fn position(&self) -> Option<i64> {
        Some(0)
    }
}

impl Announced {
    pub fn all(limit: usize) -> RecordRange {
        RecordRange::of::<Announced>(ANNOUNCED, limit)
    }
}

//! What this node tells others: events between nodes, numbered without a gap in the order of their commits.
//!
//! How an event looks outside is `wire`'s. Here it is data: what it is about, for whom, until when it counts.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::capability::{CapabilityStatus, Index, Manifest, Routing, SkillRef};
use crate::id::{AgentId, CapabilityId, CorrId, EventId, HUB, NodeId, TaskId};
use crate::limits;
use crate::node::Node;
use crate::record::{History, Place, Private, RecordRange};
use crate::talk::fnv;
use crate::task::{FailureKind, Priority};
use crate::time::Timestamp;

/// An event with its place in the outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outgoing {
    pub seq: u64,
    pub event: Dispatch,
}

/// An event between nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    pub id: EventId,
    pub from: AgentId,
    /// Its recipient, if it has one alone.
    pub to: Option<AgentId>,
    /// The node that is to act on it, if it is one alone.
    pub to_node: Option<NodeId>,
    pub corr_id: CorrId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// 1, and more for each time that it is sent again.
    pub attempt: u32,
    /// By what it was routed, if capabilities chose its node.
    #[serde(default)]
    pub policies: Option<Box<PolicyVersions>>,
    pub news: News,
}

/// What an index and a routing record said when an event was routed by them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyVersions {
    pub routing: String,
    pub capability: String,
}

/// What an event tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum News {
    Message(Letter),
    /// An answer to a message.
    Reply {
        to: EventId,
        /// Any JSON value.
        body: Box<str>,
        status: Option<String>,
    },
    TaskCreate(Box<Commission>),
    TaskAccept {
        task: TaskId,
        by: AgentId,
        eta_at: Timestamp,
        plan: Option<String>,
    },
    TaskUpdate {
        task: TaskId,
        status: Standing,
        percent: Option<u8>,
        note: Option<String>,
        revised_eta_at: Option<Timestamp>,
    },
    TaskComplete {
        task: TaskId,
        by: AgentId,
        /// What COMPLETE brought, as JSON.
        result: Option<Box<str>>,
        at: Timestamp,
    },
    TaskFailed {
        task: TaskId,
        by: AgentId,
        class: FailureClass,
        error: String,
        at: Timestamp,
    },
    Ack(Answer),
    /// A record of what all nodes know, as its writer has it now; the last `rev` counts.
    Signal {
        rev: u64,
        record: Control,
    },
    /// An event was given up.
    DeadLetter {
        event: EventId,
        kind: String,
        attempts: u32,
        reason: String,
    },
    /// Of a kind that this build does not know.
    Other {
        kind: String,
        payload: Box<str>,
        /// Why the payload is not what the kind says, if the kind is known.
        #[serde(default)]
        wrong: Option<String>,
    },
}

/// What all nodes know, each from the one that writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Control {
    Agent {
        agent: AgentId,
        /// It is there; otherwise it signed off or is not heard of.
        is_live: bool,
    },
    /// A version of a capability, and whether it is in use.
    Catalog {
        manifest: Box<Manifest>,
        status: CapabilityStatus,
        published_at: Timestamp,
    },
    /// Who is given its tasks.
    Index {
        capability: CapabilityId,
        index: Index,
    },
    /// Which nodes they go to.
    Routing {
        capability: CapabilityId,
        routing: Routing,
    },
    /// A node, as one that knows it first hand has it.
    Node(Box<Node>),
    /// Of a kind that this build does not know, or has no use for.
    Other { path: String, value: Box<str> },
}

/// A message to agents, wherever they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Letter {
    /// Each by its name, also if it was for all.
    pub to: Vec<AgentId>,
    /// The same by the node that each is at: one name may be somebody else's elsewhere. Who does not say is taken at its
    /// word everywhere.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// What is handed over, as JSON.
    pub payload: Box<str>,
    pub priority: Priority,
    pub expects_reply: bool,
}

/// Recipients at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    pub node: NodeId,
    pub agents: Vec<AgentId>,
}

impl Letter {
    /// Recipients at a node, if any are.
    pub fn at(&self, node: &NodeId) -> &[AgentId] {
        if self.routes.is_empty() {
            return &self.to;
        }
        let here = self.routes.iter().find(|route| route.node == *node);
        here.map_or(&[], |route| &route.agents)
    }
}

/// A task that is given to another node, or to agents by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commission {
    pub task: TaskId,
    pub title: String,
    pub description: Option<String>,
    pub to: Vec<AgentId>,
    pub required: Vec<String>,
    pub priority: Priority,
    pub requester: AgentId,
    pub response_required: bool,
    pub deadline_at: Option<Timestamp>,
    /// Each of those it is for is to install a skill.
    #[serde(default)]
    pub installs: Option<Box<Installs>>,
}

/// A skill that agents are to install, to delegate to a capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installs {
    pub capability: CapabilityId,
    pub skill: SkillRef,
    pub required_by: Timestamp,
}

/// What became of an event at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub to: EventId,
    pub kind: String,
    pub answer: AnswerKind,
    pub by: Vec<AgentId>,
    pub at: Timestamp,
    pub eta_at: Option<Timestamp>,
    /// Why it failed.
    pub reason: Option<String>,
    /// An acceptance of a task at the same time: by whom. It counts if it says when the task will be done.
    #[serde(default)]
    pub accepts: Option<(TaskId, AgentId)>,
}

impl Answer {
    /// Who took this task, and when it will be done, if that is what it says.
    pub fn accepted(&self, task: &TaskId) -> Option<(&AgentId, Timestamp)> {
        let (_, by) = self.accepts.as_ref().filter(|(id, _)| id == task)?;
        (self.answer == AnswerKind::Accepted).then_some((by, self.eta_at?))
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum AnswerKind {
        /// It is durable there.
        Accepted = "accepted",
        /// It has its outcome.
        Processed = "processed",
        /// It will never be done there.
        Failed = "failed_terminal",
    }
}

words! {
    /// Where a task is, for who waits for it.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Standing {
        InProgress = "in_progress",
        Pending = "pending",
        Blocked = "blocked",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum FailureClass {
        Unknown = "unknown",
        FailedTerminal = "failed_terminal",
        DependencyMissing = "dependency_missing",
        DependencyUnavailable = "dependency_unavailable",
        CapabilityUnavailable = "capability_unavailable",
        VersionIncompatible = "version_incompatible",
        ApprovalRequired = "approval_required",
        Timeout = "timeout",
        AuthzDenied = "authz_denied",
        InvalidTarget = "invalid_target",
        Overloaded = "overloaded",
        ExecutionError = "execution_error",
        PolicyBlocked = "policy_blocked",
        TransportError = "transport_error",
        SlaBreach = "sla_breach",
        ContractViolation = "contract_violation",
    }
}

impl From<FailureKind> for FailureClass {
    /// The first word of the row that both stand in.
    fn from(kind: FailureKind) -> FailureClass {
        match kind {
            FailureKind::TaskError => FailureClass::ExecutionError,
            FailureKind::QualityFailure => FailureClass::ContractViolation,
            FailureKind::TaskTimeout => FailureClass::Timeout,
            FailureKind::DependencyError => FailureClass::DependencyMissing,
            FailureKind::ResourceError => FailureClass::Overloaded,
            FailureKind::AgentCrash => FailureClass::TransportError,
        }
    }
}

impl From<FailureClass> for FailureKind {
    fn from(class: FailureClass) -> FailureKind {
        match class {
            FailureClass::Unknown
            | FailureClass::FailedTerminal
            | FailureClass::ApprovalRequired
            | FailureClass::AuthzDenied
            | FailureClass::InvalidTarget
            | FailureClass::ExecutionError
            | FailureClass::PolicyBlocked => FailureKind::TaskError,
            FailureClass::ContractViolation => FailureKind::QualityFailure,
            FailureClass::Timeout | FailureClass::SlaBreach => FailureKind::TaskTimeout,
            FailureClass::DependencyMissing
            | FailureClass::DependencyUnavailable
            | FailureClass::CapabilityUnavailable
            | FailureClass::VersionIncompatible => FailureKind::DependencyError,
            FailureClass::Overloaded | FailureClass::TransportError => FailureKind::ResourceError,
        }
    }
}

impl Private for Outgoing {
    fn key(&self) -> Cow<'static, str> {
        self.seq.to_string().into()
    }

    fn owner(&self) -> &str {
        OWNER
    }

    fn position(&self) -> Option<i64> {
        i64::try_from(self.seq).ok()
    }
}

pub(crate) const OWNER: &str = "outbox";

impl Outgoing {
    /// Those behind a number, in order.
    pub fn after(seq: u64, limit: usize) -> RecordRange {
        let place = Place {
            position: i64::try_from(seq).unwrap_or(i64::MAX),
            // Of all keys the last.
            key: "\u{10FFFF}".into(),
        };
        RecordRange {
            after: Some(place),
            ..RecordRange::of::<Outgoing>(OWNER, limit)
        }
    }
}

impl News {
    /// The word for what it is.
    pub fn kind(&self) -> &str {
        match self {
            News::Message(_) => "message",
            News::Reply { .. } => "reply",
            News::TaskCreate(_) => "task_create",
            News::TaskAccept { .. } => "task_accept",
            News::TaskUpdate { .. } => "task_update",
            News::TaskComplete { .. } => "task_complete",
            News::TaskFailed { .. } => "task_failed",
            News::Ack(_) => "ack",
            News::Signal { .. } => "signal",
            News::DeadLetter { .. } => "dead_letter",
            News::Other { kind, .. } => kind,
        }
    }

    /// The kind of message by which a requester hears of it, and who did it.
    pub fn tells_requester(&self) -> Option<(&'static str, &AgentId)> {
        match self {
            News::TaskAccept { by, .. } => Some(("task.accepted", by)),
            News::TaskComplete { by, .. } => Some(("task.completed", by)),
            News::TaskFailed { by, .. } => Some(("task.failed", by)),
            News::Message(_)
            | News::Reply { .. }
            | News::TaskCreate(_)
            | News::TaskUpdate { .. }
            | News::Ack(_)
            | News::Signal { .. }
            | News::DeadLetter { .. }
            | News::Other { .. } => None,
        }
    }

    /// Whether who gets it says so. What only tells of other events asks for nothing, so that two nodes that have nothing
    /// to say fall silent.
    pub fn is_answered(&self) -> bool {
        match self {
            News::Message(_)
            | News::Reply { .. }
            | News::TaskCreate(_)
            | News::TaskComplete { .. }
            | News::TaskFailed { .. } => true,
            News::TaskAccept { .. }
            | News::TaskUpdate { .. }
            | News::Ack(_)
            | News::Signal { .. }
            | News::DeadLetter { .. }
            | News::Other { .. } => false,
        }
    }
}

impl Dispatch {
    /// One of the hub's own. `salt` tells it from others of this node at this instant.
    pub fn own(here: &NodeId, salt: &str, corr_id: CorrId, news: News, now: Timestamp) -> Dispatch {
        // An outcome is waited for, however late it comes.
        let valid_for = match news.is_answered() {
            true => limits::DISPATCH_VALID_MAX,
            false => limits::DISPATCH_VALID_FOR,
        };
        Dispatch {
            id: own_id("evt", here, &format!("{}|{salt}", news.kind()), now).into(),
            from: HUB.into(),
            to: None,
            to_node: None,
            corr_id,
            created_at: now,
            expires_at: now + valid_for,
            attempt: 1,
            policies: None,
            news,
        }
    }
}

/// A word and a ULID: the instant, and 80 bits of a hash.
pub(crate) fn own_id(word: &str, here: &NodeId, salt: &str, now: Timestamp) -> String {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let instant = u128::from(now.0.unsigned_abs()) & 0xffff_ffff_ffff;
    let low = fnv(here.as_str().bytes().chain([0]).chain(salt.bytes()));
    let high = fnv(salt.bytes().chain([0]).chain(here.as_str().bytes()));
    let bits = instant << 80 | u128::from(high & 0xffff) << 64 | u128::from(low);
    let letter = |at: u32| char::from(LETTERS[(bits >> (at * 5)) as usize & 31]);
    let ulid: String = (0..26).rev().map(letter).collect();
    format!("{word}_{ulid}")
}

/// An event of another node that was answered with no. It stays so: what was sent again before the answer was heard is not
/// taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declined {
    pub event: EventId,
    pub source: NodeId,
    pub reason: String,
    pub at: Timestamp,
}

const DECLINED: &str = "declined";

impl Private for Declined {
    const HISTORY: Option<History> = Some(History {
        owner: DECLINED,
        kept_for: limits::ORDERS_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        self.event.to_string().into()
    }

    fn owner(&self) -> &str {
        DECLINED
    }

    fn position(&self) -> Option<i64> {
        Some(self.at.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_hubs_own_events_differ_by_node_salt_and_instant() {
        let id = |node: &str, salt, at| own_id("evt", &node.into(), salt, Timestamp(at));
        let first = id("node-a", "T|1", 1_760_000_000_000);
        assert_eq!(first.len(), 30, "{first}");
        assert_eq!(first, id("node-a", "T|1", 1_760_000_000_000));
        for other in [
            id("node-b", "T|1", 1_760_000_000_000),
            id("node-a", "T|2", 1_760_000_000_000),
            id("node-a", "T|1", 1_760_000_000_001),
        ] {
            assert_ne!(first, other);
        }
    }
}

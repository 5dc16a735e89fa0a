//! Why the rules said no. Each surface maps these to its own codes, in one place.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, CapabilityId, EventId, JobId, MessageId, NodeId, TaskId};
use crate::iso::Printed;
use crate::job::refusal::JobRefusal;
use crate::node::PROTOCOL_VERSION;
use crate::task::TaskStatus;
use crate::time::Timestamp;
use crate::verb::Complete;

#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    AgentNotRegistered {
        agent: AgentId,
    },
    AgentAlreadyRegistered {
        agent: AgentId,
        seen_at: Timestamp,
        /// The tasks it goes on with if it resumes.
        holds: Vec<TaskId>,
    },
    TaskNotFound {
        task: TaskId,
    },
    TaskAlreadyExists {
        task: TaskId,
    },
    TaskNotYours {
        task: TaskId,
        why: NotYours,
    },
    /// The task is in a state from which this step is not possible.
    WrongState {
        task: TaskId,
        status: TaskStatus,
        wanted: &'static str,
    },
    UnknownDependency {
        task: TaskId,
        dependency: TaskId,
    },
    /// The ids of the circle, in order.
    DependencyCycle {
        circle: Vec<TaskId>,
    },
    RecipientNotFound {
        agent: AgentId,
    },
    MessageNotFound {
        message: MessageId,
    },
    MessageAlreadyExists {
        message: MessageId,
    },
    NotARecipient {
        message: MessageId,
        agent: AgentId,
    },
    /// Who belongs to a role speaks to it alone.
    OwnerBinding {
        from: AgentId,
        to: AgentId,
    },
    LeaseNotYours {
        path: String,
        held_by: AgentId,
    },
    LeaseNotFound {
        path: String,
    },
    StaleFencingToken {
        path: String,
        current: u64,
    },
    KeyReused,
    /// A signed request that was seen before.
    Replayed,
    TokenNotFound,
    IncidentNotFound {
        incident: String,
        is_resolved: bool,
    },
    ClaimNotFound {
        number: u64,
    },
    /// Another coordinator does this now, or may.
    DutyLost {
        duty: &'static str,
    },
    SnapshotNotFound {
        task: TaskId,
    },
    NodeNotFound {
        node: NodeId,
    },
    /// A node may not join, or is none of those that did.
    NotAdmitted(NotAdmitted),
    /// An external agent may not.
    Denied(Denied),
    EventAlreadyExists {
        event: EventId,
    },
    /// It was not given up, or is not known.
    DeadLetterNotFound {
        event: EventId,
    },
    NoRoute(NoRoute),
    CapabilityNotFound {
        capability: CapabilityId,
    },
    /// Another manifest was published under this version.
    VersionExists {
        capability: CapabilityId,
        version: String,
    },
    /// Something is for its owner's node to do.
    WrongNode {
        node: NodeId,
        endpoint: Option<String>,
    },
    ReviewNotFound {
        review: String,
    },
    /// Its result must be compared with what was asked for, before it can be completed: given back to be completed with
    /// what that finds.
    Unjudged(Box<Complete>),
    Job {
        job: JobId,
        why: JobRefusal,
    },
    TooMany {
        what: &'static str,
        limit: usize,
    },
    Invalid {
        field: &'static str,
        message: String,
    },
}

words! {
    /// Why an event goes to nobody.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum NoRoute {
        /// Targets are named, and none of them is anybody.
        InvalidTargets = "invalid_targets",
        /// Neither targets nor capabilities are named.
        MissingRouteFields = "missing_route_fields",
        CapabilityUnavailable = "capability_unavailable",
        /// The nodes cannot reach each other.
        Unreachable = "unreachable",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotYours {
    /// It was taken away and is held, or was finished, by another.
    Reassigned {
        to: Option<AgentId>,
    },
    /// This agent never held it.
    NotHolder {
        holder: Option<AgentId>,
    },
    /// An older claim of the same agent.
    StaleEpoch {
        current: u64,
    },
    AlreadyFinished {
        status: TaskStatus,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    UnknownInvite,
    /// Since then.
    ExpiredInvite(Timestamp),
    /// By this node.
    UsedInvite(NodeId),
    /// Its major version is another.
    OtherProtocol(String),
    /// Its id belongs to another key, or to nobody who is joined.
    Mismatch(NodeId),
    /// Its signature does not fit.
    Unproven(NodeId),
    /// Its nonce was used before.
    Replayed,
}

/// Why an external agent is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    UnknownInvite,
    /// Since then.
    ExpiredInvite(Timestamp),
    UsedInvite,
    /// A proof or a nonce that was used before.
    Replayed,
    AccessToken,
    /// Since then.
    ExpiredAccess(Timestamp),
    RefreshToken,
    /// The proof of possession, and what is wrong with it.
    Proof(&'static str),
    /// Who may not do it, and what it would take.
    Scope(String),
    /// The token is another node's.
    OtherNode,
}

impl From<Denied> for Refusal {
    fn from(why: Denied) -> Refusal {
        Refusal::Denied(why)
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::UnknownInvite => f.write_str(
                "there is no such invite for this agent; ask for one, which 'switchboard agent invite' creates",
            ),
            Denied::ExpiredInvite(at) => write!(
                f,
                "the invite expired at {}; ask for another",
                Printed::new(*at).as_str()
            ),
            Denied::UsedInvite => f.write_str("the invite was used; ask for another"),
            Denied::Replayed => f.write_str(
                "this proof or this nonce was used before; make both anew for each call",
            ),
            Denied::AccessToken => f.write_str(
                "the access token is not one of this hub, or its session has ended; refresh it, or ask for another invite",
            ),
            Denied::ExpiredAccess(at) => write!(
                f,
                "the access token expired at {}; refresh it",
                Printed::new(*at).as_str()
            ),
            Denied::RefreshToken => f.write_str(
                "the refresh token does not count, or no longer; ask for another invite",
            ),
            Denied::Proof(why) => write!(f, "the proof of possession is not valid: {why}"),
            Denied::Scope(why) => f.write_str(why),
            Denied::OtherNode => f.write_str("the access token is for another node"),
        }
    }
}

impl From<NotAdmitted> for Refusal {
    fn from(why: NotAdmitted) -> Refusal {
        Refusal::NotAdmitted(why)
    }
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAdmitted::UnknownInvite => f.write_str(
                "there is no such invite; create one with 'switchboard node invite' at the node to be joined",
            ),
            NotAdmitted::ExpiredInvite(at) => write!(
                f,
                "the invite expired at {}; create another",
                Printed::new(*at).as_str()
            ),
            NotAdmitted::UsedInvite(by) => {
                write!(f, "the invite was used by node {by}; create another")
            }
            NotAdmitted::OtherProtocol(given) => write!(
                f,
                "the node speaks version {given:?} of the protocol, and this one {PROTOCOL_VERSION:?}; both need the same major version"
            ),
            NotAdmitted::Mismatch(node) => write!(
                f,
                "node {node} is not joined here, or is joined with another key"
            ),
            NotAdmitted::Unproven(node) => {
                write!(f, "the proof is not a signature by the key of node {node}")
            }
            NotAdmitted::Replayed => {
                f.write_str("this nonce was used before; sign each call with a new one")
            }
        }
    }
}

impl NotYours {
    /// A stable word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            NotYours::Reassigned { .. } => "task_reassigned",
            NotYours::NotHolder { .. } => "not_holder",
            NotYours::StaleEpoch { .. } => "stale_epoch",
            NotYours::AlreadyFinished { .. } => "already_finished",
        }
    }
}

impl fmt::Display for NotYours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotYours::Reassigned { to: Some(to) } => {
                write!(f, "it is now held by {to}; claim another")
            }
            NotYours::Reassigned { to: None } => f.write_str("it was taken back; claim another"),
            NotYours::NotHolder {
                holder: Some(holder),
            } => write!(f, "it is held by {holder}; claim another"),
            NotYours::NotHolder { holder: None } => f.write_str("nobody holds it; claim it first"),
            NotYours::StaleEpoch { current } => {
                write!(
                    f,
                    "this claim has ended, the task is at epoch {current}; claim another"
                )
            }
            NotYours::AlreadyFinished { status } => {
                write!(f, "it is already {status}; claim another")
            }
        }
    }
}

/// How many tasks a sentence names.
const NAMED_MAX: usize = 5;

fn named(tasks: &[TaskId]) -> String {
    let first: Vec<&str> = tasks.iter().take(NAMED_MAX).map(TaskId::as_str).collect();
    let word = if tasks.len() == 1 { "task" } else { "tasks" };
    let more = match tasks.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{word} {}{more}", first.join(", "))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::AgentNotRegistered { agent } => {
                write!(f, "agent {agent} is not registered; register it first")
            }
            Refusal::AgentAlreadyRegistered { agent, holds, .. } if !holds.is_empty() => write!(
                f,
                "agent {agent} is registered, alive, and holds {}; if this is the same agent after a restart, register with \"resume\": true beside \"agent\" to keep them, else use another id",
                named(holds)
            ),
            Refusal::AgentAlreadyRegistered { agent, .. } => write!(
                f,
                "agent {agent} is registered and alive; use another id, or wait until it has been silent for 2 minutes"
            ),
            Refusal::TaskNotFound { task } => write!(f, "there is no task {task}"),
            Refusal::DeadLetterNotFound { event } => write!(
                f,
                "event {event} was not given up; see 'switchboard node dead-letters'"
            ),
            Refusal::TaskAlreadyExists { task } => write!(
                f,
                "a task {task} already exists; omit the id or choose another"
            ),
            Refusal::TaskNotYours { task, why } => write!(f, "task {task}: {why}"),
            Refusal::WrongState {
                task,
                status,
                wanted,
            } => {
                write!(f, "task {task} is {status}; this requires {wanted}")
            }
            Refusal::UnknownDependency { task, dependency } => {
                write!(
                    f,
                    "task {task} depends on {dependency}, which does not exist"
                )
            }
            Refusal::DependencyCycle { circle } => {
                let names: Vec<&str> = circle.iter().map(TaskId::as_str).collect();
                write!(
                    f,
                    "these tasks depend on each other in a cycle: {}",
                    names.join(" → ")
                )
            }
            Refusal::RecipientNotFound { agent } => {
                write!(
                    f,
                    "agent {agent} has never registered; check the id in 'to'"
                )
            }
            Refusal::MessageNotFound { message } => write!(f, "there is no message {message}"),
            Refusal::MessageAlreadyExists { message } => {
                write!(f, "a message {message} already exists")
            }
            Refusal::NotARecipient { message, agent } => {
                write!(f, "message {message} was not sent to {agent}")
            }
            Refusal::OwnerBinding { from, to } => {
                write!(f, "{from} may not send to {to}: only its owner may")
            }
            Refusal::LeaseNotYours { path, held_by } => write!(f, "{path} is leased by {held_by}"),
            Refusal::LeaseNotFound { path } => {
                write!(f, "nobody holds a lease on {path}; acquire it first")
            }
            Refusal::StaleFencingToken { path, current } => {
                write!(
                    f,
                    "the lease on {path} now has fencing token {current}; acquire it again"
                )
            }
            Refusal::KeyReused => f.write_str(
                "this idempotency key was used for another body; use a new key for a new call",
            ),
            Refusal::Replayed => {
                f.write_str("this signature was used before; sign each request with a new nonce")
            }
            Refusal::TokenNotFound => f.write_str("there is no such token"),
            Refusal::IncidentNotFound {
                incident,
                is_resolved: true,
            } => write!(f, "incident {incident} is already resolved"),
            Refusal::IncidentNotFound { incident, .. } => {
                write!(f, "there is no open incident {incident}")
            }
            Refusal::ClaimNotFound { number } => write!(f, "there is no claim {number}"),
            Refusal::DutyLost { duty } => {
                write!(f, "the duty {duty:?} is no longer with this coordinator")
            }
            Refusal::SnapshotNotFound { task } => {
                write!(
                    f,
                    "task {task} has no quality snapshot; complete it with qualityMetrics first"
                )
            }
            Refusal::NodeNotFound { node } => write!(f, "there is no node {node}"),
            Refusal::NotAdmitted(why) => why.fmt(f),
            Refusal::Denied(why) => why.fmt(f),
            Refusal::EventAlreadyExists { event } => write!(
                f,
                "another event was published as {event}; use a new eventId for a new event"
            ),
            Refusal::NoRoute(NoRoute::InvalidTargets) => {
                f.write_str("none of the targets is an agent of this node or of a joined one")
            }
            Refusal::NoRoute(NoRoute::MissingRouteFields) => {
                f.write_str("name toAgents or requiredCapabilities")
            }
            Refusal::NoRoute(NoRoute::CapabilityUnavailable) => {
                f.write_str("no node has a live agent for the required capabilities")
            }
            Refusal::NoRoute(NoRoute::Unreachable) => {
                f.write_str("this node and the target's cannot reach each other")
            }
            Refusal::CapabilityNotFound { capability } => {
                write!(
                    f,
                    "there is no capability {capability}; see 'switchboard capability list'"
                )
            }
            Refusal::VersionExists {
                capability,
                version,
            } => write!(
                f,
                "another manifest of {capability} was published as {version}; publish this one under a higher version"
            ),
            Refusal::WrongNode { node, endpoint } => {
                write!(f, "this is for node {node} to do; ask it there")?;
                match endpoint {
                    Some(endpoint) => write!(f, ", at {endpoint}"),
                    None => Ok(()),
                }
            }
            Refusal::ReviewNotFound { review } => write!(
                f,
                "there is no open review {review}; see 'switchboard review list'"
            ),
            Refusal::Unjudged(complete) => write!(
                f,
                "the result of task {} was not checked against its contract; complete it again",
                complete.task
            ),
            Refusal::Job { job, why } => write!(f, "job {job}: {why}"),
            Refusal::TooMany { what, limit } => write!(f, "too many {what}: at most {limit}"),
            Refusal::Invalid { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for Refusal {}

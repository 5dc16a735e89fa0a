//! Messages, and one delivery for each recipient.

use serde::{Deserialize, Serialize};

use crate::doors::Door;
use crate::id::{AgentId, CorrId, MessageId, NodeId, TaskId};
use crate::limits;
use crate::node::Timings;
use crate::path::LeasePath;
use crate::talk::Given;
use crate::task::Priority;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: MessageId,
    /// Grows with every message; the order in which they are received.
    pub number: u64,
    pub from: AgentId,
    pub to: To,
    pub kind: String,
    /// Any JSON value, as it came.
    pub payload: Box<str>,
    pub ack_required: bool,
    pub corr_id: CorrId,
    /// The sender offers this task, claimed under this epoch; the recipient's acknowledgement takes it.
    pub handoff: Option<(TaskId, u64)>,
    /// Where recipients know messages by numbers, and its sender gives none.
    pub given: Option<Given>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub acknowledged: Option<(AgentId, Timestamp)>,
    pub delivered_at: Option<Timestamp>,
    /// Where it came from, if that is another node.
    pub afar: Option<Box<Afar>>,
    pub rev: u64,
}

/// The node that a message came from, and the one that it came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Afar {
    pub node: NodeId,
    pub here: NodeId,
    #[serde(default)]
    pub timings: Timings,
}

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// Everyone who is registered when it is sent, but for the sender.
    Everyone,
    One(AgentId),
    /// Two or more, each once.
    Several(Vec<AgentId>),
}

impl To {
    /// These agents, each once; `None` if there are none. Of too many, so many are kept that it can be told.
    pub fn agents(named: impl IntoIterator<Item = AgentId>) -> Option<To> {
        let mut agents = Vec::new();
        for agent in named {
            if agents.len() <= limits::MESSAGE_RECIPIENTS_MAX && !agents.contains(&agent) {
                agents.push(agent);
            }
        }
        match agents.len() {
            0 | 1 => agents.pop().map(To::One),
            _ => Some(To::Several(agents)),
        }
    }

    /// Those that are named.
    pub fn named(&self) -> &[AgentId] {
        match self {
            To::Everyone => &[],
            To::One(agent) => std::slice::from_ref(agent),
            To::Several(agents) => agents,
        }
    }

    /// What there is too much of in a list of names, and how much there may be.
    pub(crate) fn is_beyond(&self) -> Option<(&'static str, usize)> {
        let To::Several(list) = self else {
            return None;
        };
        let bytes: usize = list.iter().map(|id| id.as_str().len() + 1).sum();
        let bounds = [
            (
                list.len(),
                limits::MESSAGE_RECIPIENTS_MAX,
                "recipients of one message",
            ),
            (
                bytes,
                limits::MESSAGE_RECIPIENTS_BYTES_MAX,
                "bytes in the ids of one message's recipients",
            ),
        ];
        let mut bounds = bounds.into_iter();
        let beyond = bounds.find(|(count, limit, _)| count > limit);
        beyond.map(|(_, limit, what)| (what, limit))
    }

    pub fn one(&self) -> Option<&AgentId> {
        match self {
            To::One(agent) => Some(agent),
            To::Everyone | To::Several(_) => None,
        }
    }
}

impl From<Option<AgentId>> for To {
    fn from(agent: Option<AgentId>) -> To {
        agent.map_or(To::Everyone, To::One)
    }
}

/// What a message asks of the hub, beside being delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Meaning {
    #[default]
    Nothing,
    /// The sender offers a task that it holds; the recipient's acknowledgement takes it.
    Offer(TaskId),
    /// The sender wants a file: whoever holds it is the recipient.
    Wants(LeasePath),
    /// It is for everyone, and these are everyone: more than may be named.
    Among(Vec<AgentId>),
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    Agent(AgentId),
    /// Registers nowhere, holds nothing and is sent nothing.
    Person(AgentId),
}

impl Sender {
    /// What recipients see.
    pub fn id(&self) -> &AgentId {
        match self {
            Sender::Agent(id) | Sender::Person(id) => id,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub message: MessageId,
    pub number: u64,
    pub agent: AgentId,
    pub state: DeliveryState,
    /// Streams hand over the most urgent first.
    pub priority: Priority,
    /// The door that takes it up, handed it over or says why it failed.
    pub via: Option<Door>,
    /// The stream that takes it up or handed it over, if one did.
    pub stream: Option<Box<str>>,
    /// When it was last handed over, also if it is queued again.
    pub delivered_at: Option<Timestamp>,
    pub acknowledged_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    /// While it is queued: its stream is handing it over, and nobody else does until then.
    pub handing_until: Option<Timestamp>,
    /// Why it failed.
    pub reason: Option<Box<str>>,
}

/// A message as a recipient gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub message: Message,
    pub priority: Priority,
    /// It was handed over before, by a stream that ended before it was acknowledged.
    pub redelivered: bool,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum DeliveryState {
        /// Durable, no door took it yet.
        Queued = "queued",
        Handed = "delivered",
        Acknowledged = "acknowledged",
        Expired = "expired",
        /// No door will hand it over.
        Failed = "failed",
    }
}

impl Message {
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// As one recipient of several gets it: as its own.
    #[must_use]
    pub fn read_by(mut self, agent: &AgentId) -> Message {
        if let To::Several(_) = self.to {
            self.to = To::One(agent.clone());
        }
        self
    }
}

impl Delivery {
    /// Whether it was handed over and then queued again.
    pub fn is_redelivered(&self) -> bool {
        self.state == DeliveryState::Queued && self.delivered_at.is_some()
    }

    /// Whether it waits and no stream is about to hand it over.
    pub fn is_free(&self, now: Timestamp) -> bool {
        self.state == DeliveryState::Queued && self.handing_until.is_none_or(|until| until <= now)
    }

    /// Whether this stream takes it up, or handed it over.
    pub fn is_of(&self, stream: &str) -> bool {
        self.stream.as_deref() == Some(stream)
    }

    /// A door handed it over.
    pub(crate) fn hand_over(&mut self, via: Door, stream: Option<Box<str>>, now: Timestamp) {
        self.state = DeliveryState::Handed;
        self.via = Some(via);
        self.stream = stream;
        self.delivered_at = Some(now);
        self.handing_until = None;
    }

    /// It waits for whatever door comes next.
    pub(crate) fn wait_again(&mut self) {
        self.state = DeliveryState::Queued;
        self.via = None;
        self.stream = None;
        self.handing_until = None;
    }
}

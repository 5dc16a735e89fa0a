//! Messages, and one delivery for each recipient.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, CorrId, MessageId, TaskId};
use crate::path::LeasePath;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: MessageId,
    /// Grows with every message; the order in which they are received.
    pub number: u64,
    pub from: AgentId,
    /// `None` is a broadcast to everyone registered when it was sent.
    pub to: Option<AgentId>,
    pub kind: String,
    /// Any JSON value, as it came.
    pub payload: Box<str>,
    pub ack_required: bool,
    pub corr_id: CorrId,
    /// The sender offers this task, claimed under this epoch; the recipient's acknowledgement takes it.
    pub handoff: Option<(TaskId, u64)>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub acknowledged: Option<(AgentId, Timestamp)>,
    pub delivered_at: Option<Timestamp>,
    pub rev: u64,
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
    /// When it was last handed over, also if it is queued again.
    pub delivered_at: Option<Timestamp>,
    pub acknowledged_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    /// While it is queued: a door is handing it over, and nobody else does until then.
    pub handing_until: Option<Timestamp>,
}

/// A message as a recipient gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub message: Message,
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
    }
}

impl Message {
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

impl Delivery {
    /// Whether it was handed over and then queued again.
    pub fn is_redelivered(&self) -> bool {
        self.state == DeliveryState::Queued && self.delivered_at.is_some()
    }

    /// Whether it waits and no door is about to hand it over.
    pub fn is_free(&self, now: Timestamp) -> bool {
        self.state == DeliveryState::Queued && self.handing_until.is_none_or(|until| until <= now)
    }
}

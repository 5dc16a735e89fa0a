//! Every message of the bus: one file per family, one type per message, one table in which they all meet.
//!
//! [`MESSAGES`] says who may send what to whom. [`Inbound`] is what a director may receive, [`Outbound`] what it may
//! send; a client reads the second and writes the first.

mod budget;
mod error;
mod heartbeat;
mod mail;
mod memory;
mod operator;
mod proof;
mod protocol;
mod snapshot;
mod sync;
mod task;

pub use budget::{BudgetGrant, BudgetRequest, BudgetResult};
pub use error::{ErrorReport, WorkerError};
pub use heartbeat::{BranchState, Heartbeat, StepProgress, TaskProgress, WorkerState};
pub use mail::{AgentMessage, AgentMessageAck, MailState};
pub use memory::{
    CatalogDelta, CatalogRefreshRequest, CatalogSnapshot, CatalogVersion, EngramAnnounce,
    EngramContent, EngramRequest, MemoryEvent,
};
pub use operator::{OperatorAck, OperatorCommand, ReleasePublished};
pub use proof::{Credential, HelloAuth};
pub use protocol::{
    CAPABILITY_ASSIGN, CAPABILITY_BROWSER, CAPABILITY_MESSAGE, Hello, HelloRepo, HelloWorker,
    ProtocolError, ProtocolIncompatibility, SYNC_MAIN_AND_RESTART, Welcome, WelcomeDirector,
    WelcomeLimits, WorkerLeaving, WorkerProbe,
};
pub use snapshot::{
    DirectorStatus, ProjectStateSnapshot, QUEUE_SHOWN_MAX, Queue, Release, WorkerEntry,
};
pub use sync::{SyncPolicy, SyncRequired};
pub use task::{
    Accomplished, Quality, TaskAccepted, TaskAssigned, TaskDeclined, TaskResult, TaskResultAck,
    TaskRevoked,
};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::check::Checked;
use super::envelope::Envelope;
use super::fault::{Fault, Flag};
use super::words::Role;
use crate::malformed::{Malformed, parse};
use crate::object::Object;
use crate::words::words;

words! {
    /// The names of all messages.
    pub enum MessageType {
        ProtocolHello = "protocol_hello.v1",
        ProtocolWelcome = "protocol_welcome.v1",
        ProtocolIncompatibility = "protocol_incompatibility.v1",
        ProtocolError = "protocol_error.v1",
        WorkerProbe = "worker_probe.v1",
        WorkerLeaving = "worker_leaving.v1",
        Heartbeat = "heartbeat.v1",
        TaskProgress = "task_progress.v1",
        WorkerError = "worker_error.v1",
        ProjectStateSnapshot = "project_state_snapshot.v1",
        MemoryEvent = "memory_event.v1",
        EngramAnnounce = "engram_announce.v1",
        EngramCatalogSnapshot = "engram_catalog_snapshot.v1",
        EngramCatalogDelta = "engram_catalog_delta.v1",
        CatalogRefreshRequest = "catalog_refresh_request.v1",
        EngramRequest = "engram_request.v1",
        EngramContent = "engram_content.v1",
        SyncRequired = "sync_required.v1",
        ReleasePublished = "release_published.v1",
        OperatorCommand = "operator_command.v1",
        OperatorAck = "operator_ack.v1",
        BudgetRequest = "budget_request.v1",
        BudgetGrant = "budget_grant.v1",
        BudgetResult = "budget_result.v1",
        TaskAssigned = "task_assigned.v1",
        TaskAccepted = "task_accepted.v1",
        TaskDeclined = "task_declined.v1",
        TaskResult = "task_result.v1",
        TaskResultAck = "task_result_ack.v1",
        TaskRevoked = "task_revoked.v1",
        AgentMessage = "agent_message.v1",
        AgentMessageAck = "agent_message_ack.v1",
    }
}

/// Who may send a message, and who gets it.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub message: MessageType,
    pub from: &'static [Role],
    pub to: &'static [Role],
}

const D: Role = Role::Director;
const W: Role = Role::Worker;
const O: Role = Role::Operator;

/// All messages. What workers send and operators get too is passed on by the director.
#[rustfmt::skip]
pub const MESSAGES: &[Usage] = &[
    Usage { message: MessageType::ProtocolHello, from: &[W, O], to: &[D] },
    Usage { message: MessageType::ProtocolWelcome, from: &[D], to: &[W, O] },
    Usage { message: MessageType::ProtocolIncompatibility, from: &[D], to: &[W, O] },
    Usage { message: MessageType::ProtocolError, from: &[D], to: &[W, O] },
    Usage { message: MessageType::WorkerProbe, from: &[D], to: &[W] },
    Usage { message: MessageType::WorkerLeaving, from: &[W], to: &[D, O] },
    Usage { message: MessageType::Heartbeat, from: &[W], to: &[D, O] },
    Usage { message: MessageType::TaskProgress, from: &[W], to: &[D, O] },
    Usage { message: MessageType::WorkerError, from: &[W], to: &[D, O] },
    Usage { message: MessageType::ProjectStateSnapshot, from: &[D], to: &[O] },
    Usage { message: MessageType::MemoryEvent, from: &[W], to: &[D] },
    Usage { message: MessageType::EngramAnnounce, from: &[D], to: &[W, O] },
    Usage { message: MessageType::EngramCatalogSnapshot, from: &[D], to: &[W, O] },
    Usage { message: MessageType::EngramCatalogDelta, from: &[D], to: &[W, O] },
    Usage { message: MessageType::CatalogRefreshRequest, from: &[W, O], to: &[D] },
    Usage { message: MessageType::EngramRequest, from: &[W, O], to: &[D] },
    Usage { message: MessageType::EngramContent, from: &[D], to: &[W, O] },
    Usage { message: MessageType::SyncRequired, from: &[D], to: &[W] },
    Usage { message: MessageType::ReleasePublished, from: &[D, O], to: &[D, W, O] },
    // Passed on to the worker that it is for.
    Usage { message: MessageType::OperatorCommand, from: &[D, O], to: &[D, W] },
    Usage { message: MessageType::OperatorAck, from: &[D], to: &[O] },
    Usage { message: MessageType::BudgetRequest, from: &[W], to: &[D] },
    Usage { message: MessageType::BudgetGrant, from: &[D], to: &[W] },
    Usage { message: MessageType::BudgetResult, from: &[W], to: &[D] },
    Usage { message: MessageType::TaskAssigned, from: &[D], to: &[W] },
    Usage { message: MessageType::TaskAccepted, from: &[W], to: &[D, O] },
    Usage { message: MessageType::TaskDeclined, from: &[W], to: &[D, O] },
    Usage { message: MessageType::TaskResult, from: &[W], to: &[D, O] },
    Usage { message: MessageType::TaskResultAck, from: &[D], to: &[W] },
    Usage { message: MessageType::TaskRevoked, from: &[D], to: &[W] },
    Usage { message: MessageType::AgentMessage, from: &[D, W], to: &[D, W] },
    Usage { message: MessageType::AgentMessageAck, from: &[D, W], to: &[D, W] },
];

impl MessageType {
    /// Its line in [`MESSAGES`].
    pub fn usage(self) -> &'static Usage {
        // Both are declared in the same order; a test holds them to it.
        &MESSAGES[self as usize]
    }

    /// Whether this role may send it.
    pub fn may_come_from(self, role: Role) -> bool {
        self.usage().from.contains(&role)
    }
}

/// A message's body.
pub trait Payload: Serialize {
    const TYPE: MessageType;

    /// Ranges and lengths; the shape is held by the type.
    fn check(&self) -> Checked;
}

/// Anything that knows which message it is.
pub trait Message: Serialize {
    fn message_type(&self) -> MessageType;
}

impl<T: Payload> Message for T {
    fn message_type(&self) -> MessageType {
        T::TYPE
    }
}

/// Reads a payload and checks it; the field to blame is named from `payload` on.
pub fn read<'a, T: Payload + Deserialize<'a>>(payload: &'a RawValue) -> Result<T, Malformed> {
    match serde_json::from_str::<Object<T>>(payload.get()) {
        Ok(Object(message)) => message.check().map(|()| message),
        Err(error) => Err(parse::<T>(payload.get().as_bytes())
            .err()
            .unwrap_or_else(|| Malformed::whole(error.to_string()))),
    }
    .map_err(within_payload)
}

fn within_payload(malformed: Malformed) -> Malformed {
    let field = match malformed.field {
        Some(field) => format!("payload.{field}"),
        None => "payload".to_owned(),
    };
    Malformed::field(field, malformed.message)
}

/// Declares the messages of one direction; those with a lifetime borrow from their line.
macro_rules! direction {
    ($(#[$meta:meta])* pub enum $name:ident { borrowed: { $($short:ident($view:ident)),* $(,)? } owned: { $($long:ident($type:ident)),+ $(,)? } }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name<'a> { $($short($view<'a>),)* $($long($type)),+ }

        impl<'a> $name<'a> {
            /// Whether this direction has such a message.
            pub fn includes(message_type: MessageType) -> bool {
                [$(<$view<'_> as Payload>::TYPE,)* $(<$type as Payload>::TYPE),+].contains(&message_type)
            }

            /// Reads the payload of a message whose type is known; `None` for one of the other direction.
            pub fn read(message_type: MessageType, payload: &'a RawValue) -> Option<Result<Self, Malformed>> {
                $(if message_type == <$view<'_> as Payload>::TYPE {
                    return Some(read::<$view<'a>>(payload).map(Self::$short));
                })*
                $(if message_type == <$type as Payload>::TYPE {
                    return Some(read::<$type>(payload).map(Self::$long));
                })+
                None
            }

            /// Reads the message in an envelope; `None` if its type is unknown or of the other direction.
            pub fn decode(envelope: &Envelope<'a>) -> Option<Result<Self, Fault>> {
                let message_type = envelope.message_type.parse().ok()?;
                let read = Self::read(message_type, envelope.payload)?;
                Some(read.map_err(|malformed| {
                    Fault::new(Flag::BadPayload, malformed.to_string()).about(Some(envelope.seq))
                }))
            }

            /// Ranges and lengths, for whoever sends it.
            pub fn check(&self) -> Result<(), Malformed> {
                match self {
                    $(Self::$short(message) => message.check(),)*
                    $(Self::$long(message) => message.check(),)+
                }
            }

            /// Free of the line it came in.
            pub fn into_owned(self) -> $name<'static> {
                match self {
                    $(Self::$short(message) => $name::$short(message.into_owned()),)*
                    $(Self::$long(message) => $name::$long(message),)+
                }
            }
        }

        impl Message for $name<'_> {
            fn message_type(&self) -> MessageType {
                match self {
                    $(Self::$short(_) => <$view<'_> as Payload>::TYPE,)*
                    $(Self::$long(_) => <$type as Payload>::TYPE,)+
                }
            }
        }

        impl Serialize for $name<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$short(message) => message.serialize(serializer),)*
                    $(Self::$long(message) => message.serialize(serializer),)+
                }
            }
        }

        $(impl<'a> From<$view<'a>> for $name<'a> {
            fn from(message: $view<'a>) -> Self {
                Self::$short(message)
            }
        })*

        $(impl From<$type> for $name<'_> {
            fn from(message: $type) -> Self {
                Self::$long(message)
            }
        })+
    };
}

direction! {
    /// What a director may receive.
    #[allow(clippy::large_enum_variant)] // It is looked at and gone, and the heartbeat must not be boxed.
    pub enum Inbound {
        borrowed: { Heartbeat(Heartbeat) }
        owned: {
            Hello(Hello),
            WorkerLeaving(WorkerLeaving),
            TaskProgress(TaskProgress),
            WorkerError(WorkerError),
            MemoryEvent(MemoryEvent),
            CatalogRefreshRequest(CatalogRefreshRequest),
            EngramRequest(EngramRequest),
            ReleasePublished(ReleasePublished),
            OperatorCommand(OperatorCommand),
            BudgetRequest(BudgetRequest),
            BudgetResult(BudgetResult),
            TaskAccepted(TaskAccepted),
            TaskDeclined(TaskDeclined),
            TaskResult(TaskResult),
            AgentMessage(AgentMessage),
            AgentMessageAck(AgentMessageAck),
        }
    }
}

direction! {
    /// What a director may send, and what it passes on from workers to operators.
    #[allow(clippy::large_enum_variant)] // As above.
    pub enum Outbound {
        borrowed: { Heartbeat(Heartbeat) }
        owned: {
            TaskProgress(TaskProgress),
            WorkerError(WorkerError),
            Welcome(Welcome),
            Incompatible(ProtocolIncompatibility),
            Error(ProtocolError),
            Probe(WorkerProbe),
            WorkerLeaving(WorkerLeaving),
            Snapshot(ProjectStateSnapshot),
            EngramAnnounce(EngramAnnounce),
            CatalogSnapshot(CatalogSnapshot),
            CatalogDelta(CatalogDelta),
            EngramContent(EngramContent),
            SyncRequired(SyncRequired),
            ReleasePublished(ReleasePublished),
            OperatorCommand(OperatorCommand),
            OperatorAck(OperatorAck),
            BudgetGrant(BudgetGrant),
            TaskAssigned(TaskAssigned),
            TaskAccepted(TaskAccepted),
            TaskDeclined(TaskDeclined),
            TaskResult(TaskResult),
            TaskResultAck(TaskResultAck),
            TaskRevoked(TaskRevoked),
            AgentMessage(AgentMessage),
            AgentMessageAck(AgentMessageAck),
        }
    }
}

/// Counts that are left out where there is nothing to tell.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_message_once_in_the_order_of_the_words() {
        // agentbus.types.core, agentbus.types.memory, agentbus.types.compatibility
        let named: Vec<MessageType> = MESSAGES.iter().map(|usage| usage.message).collect();
        assert_eq!(named, MessageType::ALL);
        for message in MessageType::ALL {
            assert!(message.as_str().ends_with(".v1"), "{message}");
        }
    }

    #[test]
    fn what_a_director_gets_and_what_it_sends_follow_from_the_table() {
        for usage in MESSAGES {
            let (from_clients, passed_on) = (
                usage.to.contains(&D),
                usage.from != [D] && usage.to.contains(&O),
            );
            assert_eq!(
                Inbound::includes(usage.message),
                from_clients,
                "{}",
                usage.message
            );
            assert_eq!(
                Outbound::includes(usage.message),
                usage.from.contains(&D) || passed_on,
                "{}",
                usage.message
            );
        }
    }
}

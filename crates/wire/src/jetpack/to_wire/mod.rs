//! From rows and replies to messages. Pure copying: what is shown follows from the row alone.

mod agents;
mod claims;
mod events;
mod incidents;
mod leases;
mod memory;
mod messages;
mod pause;
mod quality;
mod release_gate;
mod roles;
mod tasks;
mod why;

use switchboard_core::Timestamp;

use crate::IsoTime;

pub use agents::{agent, command, heartbeat, registered};
pub use claims::claim;
pub use events::{event, event_json};
pub use incidents::incident;
pub use leases::{lease, lease_answer, lease_granted, lease_state};
pub use memory::{engram_found, learning};
pub use messages::{acknowledged, delivery, message, read_messages, received, sent};
pub use pause::{paused, steered};
pub use quality::{baseline, regression, snapshot, token};
pub use release_gate::release_gate;
pub use roles::{Known, role};
pub use tasks::{
    attempt, claimed, completed, failed, judged_task, progressed, running_attempt, task,
    task_counts,
};
pub use why::why;

impl From<Timestamp> for IsoTime {
    fn from(at: Timestamp) -> Self {
        Self(at.0)
    }
}

impl From<IsoTime> for Timestamp {
    fn from(at: IsoTime) -> Self {
        Self(at.0)
    }
}

/// Ids as text.
fn names<T: std::fmt::Display>(ids: &[T]) -> Vec<String> {
    ids.iter().map(T::to_string).collect()
}

//! The Runtime protocol, version 1: several hubs are gateways of one swarm.
//!
//! One file per family of messages, spelled as in `docs/runtime.md`. What is signed between nodes, and how, is in
//! [`proof`]; what a node shows with each call is a [`Ticket`].

mod capability;
pub mod capability_from_wire;
pub mod capability_to_wire;
mod event;
pub mod event_from_wire;
pub mod event_to_wire;
mod external;
pub mod external_to_wire;
pub mod from_wire;
mod invite;
pub mod invoke;
pub mod jose;
mod node;
pub mod proof;
mod step_from_wire;
mod ticket;
pub mod to_wire;

pub use capability::*;
pub use event::*;
pub use external::*;
pub use invite::Invite;
pub use jose::Jwk;
pub use node::*;
pub use ticket::Ticket;

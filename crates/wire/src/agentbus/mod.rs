//! AgentBus: the control plane over TCP, one JSON object per line.
//!
//! Pure: [`codec`] finds the lines, [`envelope`] reads and writes them, [`message`] has a type per message, [`session`]
//! decides frame by frame what a director does with a connection, in a time that is told to it. [`from_wire`] makes
//! verbs of messages, [`to_wire`] messages of rows. Sockets, clocks and the swarm itself are elsewhere. [`engram`] and
//! [`catalog`] are the files of the swarm's memory, [`redact`](crate::redact) keeps secrets out of them, [`shorten`] cuts
//! what is too long. Start with [`message::MESSAGES`], then [`session`].

mod check;
mod fault;
mod text;
mod utc;
mod version;
mod words;

pub mod catalog;
pub mod codec;
pub mod engram;
pub mod envelope;
pub mod from_wire;
pub mod message;
pub mod parts;
pub mod session;
pub mod shorten;
pub mod to_wire;

pub use check::{NUMBER_MAX, SECONDS_MAX};
pub use fault::{Fault, Flag, Flags};
pub use text::Text;
pub use utc::{NotUtc, UtcTime};
pub use version::{Agreed, NotAVersion, PROTOCOL_VERSION, Version};
pub use words::*;

//! SquidRun: roles that talk in numbered messages, over WebSocket frames or trigger files.
//!
//! Pure: [`frame`] reads and prints the frames, [`trigger`] the files, [`header`] and [`tags`] what stands in front of a
//! text, [`claims`] what it claims, [`Roles`] who can be named. [`from_wire`] makes a verb of what was said, [`to_wire`] frames of rows. Sockets,
//! directories and the clock are elsewhere. Start with [`frame::Inbound`], then [`from_wire`].

mod members;
mod roles;
mod words;

pub mod background;
pub mod claims;
pub mod frame;
pub mod from_wire;
pub mod header;
pub mod tags;
pub mod telegram;
pub mod to_wire;
pub mod trigger;

pub use from_wire::{Addressees, Refused, Saying};
pub use header::Header;
pub use roles::{CLI, Role, Roles, Target};
pub use tags::{End, Ending, Tags};
pub use words::{CheckStatus, HealthStatus, Status};

//! The Jetpack agent protocol, version 1.0: messages over HTTP, in files and in envelopes.
//!
//! One file per family of messages, named and spelled as in `docs/http-api.md`. A structure here is a promise to
//! strangers; the rules behind it are in `switchboard_core`. Start with [`Envelope`] and [`Request`].

mod admin;
mod agents;
mod claim;
mod claims;
mod envelope;
mod error;
mod events;
mod incidents;
mod leases;
mod memory;
mod messages;
mod mirror;
mod pause;
mod quality;
mod release_gate;
mod report;
mod roles;
mod route;
mod routes;
mod status;
mod tasks;
mod words;

pub mod from_wire;
pub mod to_wire;

pub use admin::*;
pub use agents::*;
pub use claim::*;
pub use claims::*;
pub use envelope::*;
pub use error::*;
pub use events::*;
pub use incidents::*;
pub use leases::*;
pub use memory::*;
pub use messages::*;
pub use pause::*;
pub use quality::*;
pub use release_gate::*;
pub use report::*;
pub use roles::*;
pub use route::{Answer, Method, RequestBody, Route, SchemaOf};
pub use routes::ROUTES;
pub use status::*;
pub use tasks::*;
pub use words::*;

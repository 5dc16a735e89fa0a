//! The protocols' bytes: messages, their checks, and the way to and from the rules in `core`.
//!
//! One folder per dialect. Nothing here opens a socket, reads a clock or decides anything about a task; a message is
//! parsed, its shape and ranges are checked with the field's name, and it becomes a verb. Start with [`jetpack`].

mod canonical;
mod exact;
mod fingerprint;
mod json;
mod malformed;
mod number;
mod object;
mod other;
mod query;
mod recipients;
mod time;
mod words;

pub mod agentbus;
pub mod hrana;
pub mod jetpack;
pub mod logist;
pub mod openapi;
pub mod redact;
pub mod runtime;
pub mod schema;
pub mod signature;
pub mod squidrun;

pub use canonical::canonical;
pub use fingerprint::Fingerprint;
pub use json::Json;
pub use malformed::{Malformed, in_words, parse};
pub use other::Other;
pub use query::{Parameter, Query};
pub use recipients::Recipients;
pub use switchboard_core::limits;
pub use time::IsoTime;
pub use words::UnknownWord;

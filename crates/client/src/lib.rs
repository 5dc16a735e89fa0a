//! The client: one typed method per call of the HTTP interface (`docs/http-api.md`).
//!
//! Transient errors are retried with backoff and the same idempotency key, so a call acts once however often it had to be
//! sent; permanent ones come back at once as [`Error::Refused`]. The event log can be followed across restarts of the
//! hub. What the messages look like is `switchboard_wire::jetpack`'s business.
//!
//! ```no_run
//! # async fn example() -> Result<(), switchboard_client::Error> {
//! use switchboard_client::{Client, jetpack::ClaimRequest};
//!
//! let hub = Client::new("http://127.0.0.1:7373")?;
//! let request = ClaimRequest { agent_id: "builder-1".into(), wait: Some(30), ..ClaimRequest::default() };
//! if let Some(task) = hub.tasks().claim(&request).await?.task {
//!     println!("working on {}", task.title);
//! }
//! # Ok(())
//! # }
//! ```

mod admin;
mod agents;
pub mod broker;
pub mod bus;
mod call;
mod capabilities;
mod claims;
mod client;
pub mod conformance;
mod error;
mod events;
mod external;
mod gate;
mod incidents;
mod jobs;
mod leases;
mod memory;
mod messages;
mod nodes;
mod quality;
mod retry;
mod roles;
mod sse;
mod tasks;
mod transport;
mod trust;
pub mod worker;

pub use admin::Admin;
pub use agents::Agents;
pub use capabilities::Capabilities;
pub use client::{Builder, Client};
pub use error::Error;
pub use events::{Events, REWOUND};
pub use external::{External, ExternalAgent};
pub use incidents::Incidents;
pub use jobs::{Jobs, check_response, is_valid_response};
pub use leases::Leases;
pub use memory::Memory;
pub use messages::Messages;
pub use nodes::Nodes;
pub use quality::Quality;
pub use retry::RetryPolicy;
pub use switchboard_wire::{Fingerprint, jetpack, logist, runtime};
pub use tasks::Tasks;

#[cfg(test)]
mod tests;

//! The bus from the side of workers and operators: one task that owns the connection, and a handle to it.
//!
//! [`Worker`] and [`Operator`] connect, say hello, and come back after every cut, with growing waits that are never the
//! same for two of them ([`Backoff`]). A worker's heartbeats are throttled ([`Throttle`]), what is not urgent rides with
//! them ([`Telemetry`]), and what must not get lost is sent again after a cut. The messages themselves are
//! `switchboard_wire::agentbus`; what a director makes of them is not known here.
//!
//! ```no_run
//! # async fn example() -> Result<(), switchboard_client::bus::BusError> {
//! use switchboard_client::bus::{Worker, WorkerConfig, WorkerEvent};
//!
//! let config = WorkerConfig::new("127.0.0.1:8731", "worker-3").taking_tasks(["rust"]);
//! let (worker, mut events) = Worker::connect(config)?;
//! while let Some(event) = events.recv().await {
//!     if let WorkerEvent::Assigned(task) = event {
//!         worker.accept(task.issue_number, task.epoch).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod backoff;
mod clock;
mod dial;
mod error;
mod link;
mod operator;
mod pending;
mod telemetry;
mod throttle;
pub mod tls;
mod worker;

pub use backoff::{Backoff, BackoffPolicy};
pub use clock::state;
pub use dial::TlsFiles;
pub use error::BusError;
pub use link::{Frame, Way};
pub use operator::{Operator, OperatorConfig, OperatorEvent, OperatorEvents, OperatorHandle};
pub use switchboard_wire::agentbus::message::Credential;
pub use telemetry::Telemetry;
pub use throttle::Throttle;
pub use worker::{Worker, WorkerConfig, WorkerEvent, WorkerEvents, WorkerHandle};

#[cfg(test)]
mod tests;

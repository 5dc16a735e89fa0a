//! From messages to verbs: shapes are settled by parsing, here ranges, lengths and ids are, each with its field.
//!
//! Nothing is looked up: whether a task exists or an agent may have it is for the rules to say.

mod agents;
pub(crate) mod check;
mod claims;
mod leases;
pub mod lists;
mod messages;
mod pause;
mod quality;
mod release_gate;
mod report;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::{AgentId, GatePolicy, verb};

use super::Request;
use crate::Malformed;

pub use agents::{command, heartbeat, register};
pub use check::{agent_id, idempotency_key, message_id, page_size, task_id, wait_for};
pub use claims::{ClaimFilter, claims, judge};
pub use leases::{acquire_lease, check_lease, extend_lease, lease_path, release_lease};
pub use messages::{Fetch, acknowledge, meaning, receive, receive_query, send};
pub use pause::{pause, resume};
pub(crate) use quality::NONCE_DIGITS;
pub use quality::{baseline, proof_nonce, token_name};
pub use release_gate::{open_gate, sign_gate};
pub use report::{complete, fail, has_verdict, progress};
pub use tasks::{TaskRef, cancel, change, claim, create, reason, reject, release, task_ref};

/// What a message needs beside its own bytes to become a verb.
pub struct Context<'a> {
    /// The project's absolute directory, which lease paths are relative to.
    pub root: &'a str,
    pub policy: &'a Arc<GatePolicy>,
    /// Makes a fresh id that begins with the given letters.
    pub fresh: &'a mut dyn FnMut(&'static str) -> String,
}

/// One of the ten operations, ready to be run.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Register(verb::Join),
    Heartbeat(verb::Heartbeat),
    Claim {
        claim: verb::Claim,
        wait_for: Duration,
    },
    Progress(verb::ReportProgress),
    Complete(verb::Complete),
    Fail(verb::Fail),
    Send(verb::Send),
    Receive {
        fetch: Fetch,
        wait_for: Duration,
    },
    AcquireLease(verb::AcquireLease),
    ReleaseLease {
        by: AgentId,
        release: verb::ReleaseLease,
    },
}

impl Call {
    /// Reads a request; `path_id` is the id in the path of its HTTP route, if it has one.
    pub fn new(
        request: Request,
        path_id: Option<&str>,
        context: &mut Context<'_>,
    ) -> Result<Self, Malformed> {
        Ok(match request {
            Request::Register(request) => Self::Register(register(request)?),
            Request::Heartbeat(request) => Self::Heartbeat(heartbeat(path_id, request)?),
            Request::Claim(request) => {
                let (claim, wait_for) = claim(request)?;
                Self::Claim { claim, wait_for }
            }
            Request::Progress(request) => Self::Progress(progress(path_id, request)?),
            Request::Complete(request) => Self::Complete(complete(path_id, request, context)?),
            Request::Fail(request) => Self::Fail(fail(path_id, request)?),
            Request::SendMessage(request) => Self::Send(send(request, context)?),
            Request::ReceiveMessages(request) => {
                let (fetch, wait_for) = receive(request)?;
                Self::Receive { fetch, wait_for }
            }
            Request::AcquireLease(request) => {
                Self::AcquireLease(acquire_lease(request, context.root)?)
            }
            Request::ReleaseLease(request) => {
                let (by, release) = release_lease(request, context.root)?;
                Self::ReleaseLease { by, release }
            }
        })
    }

    /// How long it may wait for something to come.
    pub fn wait_for(&self) -> Duration {
        match self {
            Self::Claim { wait_for, .. } | Self::Receive { wait_for, .. } => *wait_for,
            Self::Register(_)
            | Self::Heartbeat(_)
            | Self::Progress(_)
            | Self::Complete(_)
            | Self::Fail(_)
            | Self::Send(_)
            | Self::AcquireLease(_)
            | Self::ReleaseLease { .. } => Duration::ZERO,
        }
    }

    /// The same without waiting.
    pub fn at_once(mut self) -> Self {
        if let Self::Claim { wait_for, .. } | Self::Receive { wait_for, .. } = &mut self {
            *wait_for = Duration::ZERO;
        }
        self
    }

    /// Whether it only reads: then nothing is kept of its answer.
    pub fn is_read(&self) -> bool {
        let Self::Receive { fetch, .. } = self else {
            return false;
        };
        matches!(fetch, Fetch::Since(_))
    }

    /// The agent that this call acts as.
    pub fn agent(&self) -> &AgentId {
        match self {
            Self::Register(verb) => &verb.agent,
            Self::Heartbeat(verb) => &verb.agent,
            Self::Claim { claim, .. } => &claim.agent,
            Self::Progress(verb) => &verb.agent,
            Self::Complete(verb) => &verb.agent,
            Self::Fail(verb) => &verb.agent,
            Self::Send(verb) => verb.from.id(),
            Self::Receive { fetch, .. } => fetch.agent(),
            Self::AcquireLease(verb) => &verb.agent,
            Self::ReleaseLease { by, .. } => by,
        }
    }
}

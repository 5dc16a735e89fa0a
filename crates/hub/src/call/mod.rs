//! What every door does with a call: who sends it, how often it may, what makes it happen once, what comes of it, and
//! the answer in print.
//!
//! A door brings bytes and says where they came from. Of sockets and of HTTP nothing is known here. [`open`] reads
//! envelopes, [`crate::auth`] knows senders, [`rate`] counts, [`seal`] finds the key, [`perform`] runs and prints.

mod failure;
mod guard;
mod ids;
mod job;
mod long_poll;
pub mod open;
mod perform;
mod rate;
mod seal;

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use switchboard_core::GatePolicy;
use switchboard_wire::jetpack::from_wire::{self, Context};
use switchboard_wire::jetpack::{Envelope, Operation, Request};
use tokio_util::sync::CancellationToken;

pub use failure::{Failure, RETRY_AFTER};
pub use guard::{Guard, Outcome};
pub(crate) use ids::Ids;
pub(crate) use job::{Nothing, Render, VerbJob};
pub use rate::{Class, RateLimits};
pub use seal::Seal;

use crate::auth::Auth;
use crate::config::Config;
use crate::hub::Hub;

/// What calls have at hand, through whatever door they come.
pub struct Calls {
    pub hub: Hub,
    pub auth: Auth,
    pub limits: RateLimits,
    pub ids: Ids,
    /// What completions are held against.
    pub policy: Arc<GatePolicy>,
    /// The project's directory, which lease paths are relative to.
    pub root: String,
    pub stopping: CancellationToken,
}

/// One of the ten operations, read and understood.
pub struct Asked {
    pub envelope: Envelope,
    pub operation: Operation,
    pub call: from_wire::Call,
    /// It did not say which version it speaks.
    pub versionless: bool,
}

/// An answer in print.
#[derive(Debug)]
pub struct Answer {
    pub body: Bytes,
    /// It is that of the first time.
    pub replayed: bool,
}

impl Calls {
    pub fn new(config: &Config, hub: Hub, auth: Auth) -> Self {
        Calls {
            hub,
            auth,
            limits: RateLimits::new(&config.limits),
            ids: Ids::default(),
            policy: Arc::new(config.quality.clone()),
            root: config.project.to_string_lossy().into_owned(),
            stopping: CancellationToken::new(),
        }
    }

    /// Reads an envelope that names its operation. `beside` is the version that is told outside of the body.
    pub fn read(&self, body: &[u8], beside: Option<&str>) -> Result<Asked, Failure> {
        self.understand(open::enveloped(body)?, None, beside)
    }

    /// The same for one that was opened; `path_id` is the id in its path, if it has one.
    pub fn understand(
        &self,
        (envelope, request): (Envelope, Request),
        path_id: Option<&str>,
        beside: Option<&str>,
    ) -> Result<Asked, Failure> {
        let versionless = open::lacks_version(&envelope, beside)?;
        let operation = request.operation();
        let mut fresh = |kind| self.ids.fresh(kind);
        let call = from_wire::Call::new(request, path_id, &mut self.context(&mut fresh))?;
        Ok(Asked {
            envelope,
            operation,
            call,
            versionless,
        })
    }

    pub fn context<'a>(&'a self, fresh: &'a mut dyn FnMut(&'static str) -> String) -> Context<'a> {
        Context {
            root: &self.root,
            policy: &self.policy,
            fresh,
        }
    }
}

/// Prints one of our own messages.
pub fn to_json<T: Serialize + ?Sized>(message: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    serde_json::to_writer(&mut out, message)
        .expect("messages are made of texts, numbers and lists of them");
    out
}

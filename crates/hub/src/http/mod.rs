//! The HTTP surface: one file per family of calls, one table of routes, one shape of errors.
//!
//! What a call means is `switchboard_wire`'s business, what is done about it that of [`crate::call`]. Here bytes are
//! read and answers are written. The contract is `docs/http-api.md`.

mod accept;
mod admin;
mod agents;
mod audit;
mod batch;
mod body;
mod call;
mod capabilities;
mod change;
mod claims;
mod error;
mod events;
mod external;
mod gate;
mod incidents;
mod invoke;
mod jobs;
mod leases;
mod memory;
mod messages;
mod nodes;
mod operation;
mod outbox;
mod outbox_stream;
mod pause;
mod pipeline;
mod quality;
mod release_gate;
mod reply;
mod roles;
mod routes;
mod seats;
mod status;
mod streams;
mod surface;
mod tasks;
mod watch;

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use switchboard_wire::{Fingerprint, IsoTime};

use error::Failure;
pub(crate) use gate::{Gate, name_of};
pub use routes::router;
pub(crate) use surface::{SURFACE, url};

use crate::auth::Caller;
use crate::broker::Broker;
use crate::call::{Calls, Class};
use crate::config::{Config, Tls};
use crate::jobs::Jobs;
use crate::metrics::Metrics;
use crate::runtime::Peers;
use crate::sql::Sql;
use body::Room;
use call::Call;

/// What calls over HTTP have at hand, beside what all calls have.
pub struct App {
    pub calls: Arc<Calls>,
    pub metrics: Metrics,
    gate: Gate,
    started_at: IsoTime,
    store: &'static str,
    room: Arc<Room>,
    /// Figures, and why the ledger is not ready, are for anybody.
    metrics_are_public: bool,
    streams: streams::Streams,
    tls: bool,
    /// The OpenAPI document.
    openapi: OnceLock<String>,
    /// `hub.json` says where the hub is.
    pub is_announced: AtomicBool,
    /// What anybody says under a role.
    pub(crate) broker: Arc<Broker>,
    /// Jobs, their agents and their files.
    pub(crate) jobs: Arc<Jobs>,
    /// The directory with the journal.
    squidrun: PathBuf,
    /// The other nodes, as they are called.
    pub peers: Peers,
    /// What the public key in the certificate is known by, where TLS is served.
    pub certificate: OnceLock<Fingerprint>,
    /// Raw SQL, where the ledger has a door for it.
    pub sql: Option<Sql>,
    /// What is written of refusals.
    refusals: audit::Refusals,
}

pub type AppState = Arc<App>;

impl App {
    pub fn new(
        config: &Config,
        calls: Arc<Calls>,
        started_at: IsoTime,
        store: &'static str,
        sql: Option<Sql>,
    ) -> Self {
        App {
            broker: Arc::new(Broker::new(config, &calls)),
            jobs: Arc::new(Jobs::new(config, &calls)),
            squidrun: config.squidrun.dir.clone(),
            calls,
            metrics: Metrics::default(),
            gate: Gate::new(&config.http),
            started_at,
            store,
            room: Arc::default(),
            metrics_are_public: config.metrics_are_public,
            streams: streams::Streams::default(),
            tls: config.http.tls != Tls::Off,
            openapi: OnceLock::new(),
            is_announced: AtomicBool::new(false),
            peers: Peers::default(),
            certificate: OnceLock::new(),
            sql,
            refusals: audit::Refusals::default(),
        }
    }

    /// Whoever asks for something to read.
    async fn reader(&self, call: &Call) -> Result<Caller, Failure> {
        let caller = call.caller(self, None).await?;
        self.counts(&caller)?;
        Ok(caller)
    }

    /// A call that acts as nobody counts against its caller's own allowance, if that is an agent.
    fn counts(&self, caller: &Caller) -> Result<(), Failure> {
        match caller.is_agent() {
            Some(agent) => Ok(self.limits.agent(Class::Other, agent)?),
            None => Ok(()),
        }
    }
}

impl Deref for App {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}

//! The HTTP surface: one file per family of calls, one table of routes, one shape of errors.
//!
//! What a call means is `switchboard_wire`'s business, what comes of it the rules'. Here bytes are read, callers are
//! known and limited, and answers are written. The contract is `docs/http-api.md`.

mod accept;
mod admin;
mod agents;
mod body;
mod call;
mod claim;
mod error;
mod events;
mod gate;
mod ids;
mod leases;
mod lists;
mod memory;
mod messages;
mod open;
pub mod operation;
mod pause;
mod pipeline;
pub mod protocol;
mod quality;
pub mod reply;
mod reports;
mod routes;
pub mod seal;
mod seats;
mod status;
mod streams;
mod surface;
mod tasks;
mod watch;
mod with;

use std::sync::Arc;

use switchboard_core::GatePolicy;
use switchboard_wire::IsoTime;
use switchboard_wire::jetpack::from_wire::Context;
use tokio_util::sync::CancellationToken;

pub use error::Failure;
pub use reply::to_json;
pub use routes::router;
pub(crate) use surface::{SURFACE, url};

use crate::auth::{Auth, Caller};
use crate::config::Config;
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::rate::{Class, RateLimits};
use crate::sql::Sql;
use body::Room;
use call::Call;
use gate::Gate;
pub(crate) use ids::Ids;

/// What every call has at hand.
pub struct App {
    pub hub: Hub,
    pub auth: Arc<Auth>,
    pub limits: RateLimits,
    pub metrics: Metrics,
    pub stopping: CancellationToken,
    gate: Gate,
    ids: Ids,
    policy: Arc<GatePolicy>,
    /// The project's directory, which lease paths are relative to.
    root: String,
    started_at: IsoTime,
    store: &'static str,
    room: Arc<Room>,
    /// Figures, and why the ledger is not ready, are for anybody.
    metrics_are_public: bool,
    streams: Arc<streams::Streams>,
    /// Raw SQL, where the ledger has a door for it.
    pub sql: Option<Sql>,
}

pub type Shared = Arc<App>;

impl App {
    pub fn new(
        config: &Config,
        hub: Hub,
        auth: Arc<Auth>,
        started_at: IsoTime,
        store: &'static str,
        sql: Option<Sql>,
    ) -> Self {
        App {
            hub,
            auth,
            limits: RateLimits::new(&config.limits),
            metrics: Metrics::default(),
            stopping: CancellationToken::new(),
            gate: Gate::new(&config.http),
            ids: Ids::default(),
            policy: Arc::new(config.quality.clone()),
            root: config.project.to_string_lossy().into_owned(),
            started_at,
            store,
            room: Arc::default(),
            metrics_are_public: config.metrics_are_public,
            streams: Arc::default(),
            sql,
        }
    }

    fn context<'a>(&'a self, fresh: &'a mut dyn FnMut(&'static str) -> String) -> Context<'a> {
        Context {
            root: &self.root,
            policy: &self.policy,
            fresh,
        }
    }

    /// Whoever asks for something to read.
    async fn reader(&self, call: &Call) -> Result<Caller, Failure> {
        let caller = call.caller(self, None).await?;
        if let Some(agent) = caller.is_agent() {
            self.limits.agent(Class::Other, agent)?;
        }
        Ok(caller)
    }
}

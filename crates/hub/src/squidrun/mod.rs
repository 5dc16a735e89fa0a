//! The directory `.squidrun/` of a project: the session, trigger files, the journal, the handoff index.
//!
//! Of several hubs on one directory one serves it, by a lock ([`keeper`]). Whatever is said by a file goes the way of a
//! frame ([`Says`]); the ledger is the truth, and the files here follow it. Knows nothing of sockets.

mod directory;
mod entry;
mod foreign;
pub mod handoff;
mod journal;
mod keeper;
mod status;
mod surface;
mod triggers;

use futures_util::future::BoxFuture;
use switchboard_core::{AgentId, Timestamp};
use switchboard_wire::squidrun::frame::CommsEvent;
use switchboard_wire::squidrun::{Saying, Status};
use tokio::sync::broadcast;

pub(crate) use self::surface::SURFACE;

/// Whoever decides about what is said, by whatever path.
pub(crate) trait Says: Send + Sync {
    fn say(&self, saying: Saying) -> BoxFuture<'_, Status>;
    /// Another session runs from here on.
    fn begins(&self, session: u32);
    /// What clients tell from here on of what they did by themselves.
    fn told(&self) -> broadcast::Receiver<Told>;
}

/// What a client did by itself, for the journal.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Of its row.
    pub id: String,
    pub by: AgentId,
    pub event: CommsEvent,
    pub at: Timestamp,
}

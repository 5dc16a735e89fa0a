//! What the swarm remembers of its work: events of the log, compacted into engrams, in files and a catalog.
//!
//! The ledger's rows are the truth. The buffer is a function of the log ([`noted`], [`buffer`]), an engram one of the
//! buffer ([`compact`]), the files one of the rows ([`files`]). So any process may be killed at any moment. Of several
//! coordinators all read the log, and the one whose duty it is keeps engrams. Knows nothing of sockets.

mod buffer;
mod compact;
mod digest;
mod files;
mod keeper;
mod line;
mod noted;
#[cfg(test)]
mod testing;
mod topics;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::engram::EngramEntry;
use switchboard_core::verb::NoteMemory;
use switchboard_core::{AgentId, EngramId, Timestamp, limits};
use switchboard_wire::agentbus::Scope;
use switchboard_wire::agentbus::catalog::{Catalog, CatalogEntry};
use switchboard_wire::agentbus::engram;
use switchboard_wire::agentbus::message::CatalogDelta;
use switchboard_wire::redact;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::keeper::Keeper;
use crate::config;
use crate::duty::Duty;
use crate::hub::{Error, Hub};

/// Catalogs that a delta can begin at.
const CATALOGS_KEPT: usize = 16;
/// Before there is any engram.
const NO_VERSION: &str = "19700101-000000Z";

/// Where files go, and how much may be remembered.
#[derive(Clone, Debug)]
pub struct Settings {
    pub config: config::Memory,
    /// What was written is noted here, in the data directory.
    pub record: PathBuf,
    /// Where the files were before, if that is elsewhere; nothing is written there.
    pub before: Option<PathBuf>,
    /// Which run of the director engrams name as their origin.
    pub run_id: String,
    /// The log is looked at no more often than this.
    pub look_every: Duration,
}

/// A cheap handle to the memory of this process.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<MemoryState>,
}

pub(super) struct MemoryState {
    hub: Hub,
    current: watch::Sender<Arc<Catalog>>,
    /// The last catalogs, oldest first, the current one among them.
    before: Mutex<VecDeque<Arc<Catalog>>>,
    /// Events that were left out.
    skipped: AtomicU64,
    stopping: CancellationToken,
    /// One of those who read the log compacts it.
    duty: Arc<Duty>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub engrams: usize,
    /// Events of the log that went by too quickly to be looked at.
    pub skipped: u64,
}

/// What somebody who has a catalog lacks.
#[derive(Clone, Debug, PartialEq)]
pub enum Since {
    Same,
    Changed(Box<CatalogDelta>),
    /// Nobody knows that catalog any more: only the whole one helps.
    Unknown,
}

impl Memory {
    /// Begins to remember. The first catalog is there when this returns, unless the ledger cannot be read.
    pub async fn start(hub: Hub, settings: Settings) -> Memory {
        let nothing = Arc::new(catalog_of(&[]));
        let duty = Duty::new(&hub, "memory");
        let shared = Arc::new(MemoryState {
            duty: Arc::clone(&duty),
            hub,
            before: Mutex::new(VecDeque::from([Arc::clone(&nothing)])),
            current: watch::Sender::new(nothing),
            skipped: AtomicU64::new(0),
            stopping: CancellationToken::new(),
            keeper: Mutex::new(None),
        });
        let mut keeper = Keeper::new(Arc::clone(&shared), settings);
        keeper.begin().await;
        let stopping = shared.stopping.clone();
        *shared.keeper.lock() = Some(tokio::spawn(async move {
            tokio::join!(keeper.run(), duty.keep(stopping));
        }));
        Memory { shared }
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.shared.current.borrow())
    }

    /// Changes with every new catalog, after its files were written.
    pub fn watch(&self) -> watch::Receiver<Arc<Catalog>> {
        self.shared.current.subscribe()
    }

    /// What has come and gone since a catalog that somebody has.
    pub fn since(&self, version: &str, hash: &str) -> Since {
        let current = self.catalog();
        let is_it = |catalog: &Catalog| catalog.catalog_version == version && catalog.hash == hash;
        if is_it(&current) {
            return Since::Same;
        }
        let before = self.shared.before.lock();
        match before.iter().find(|catalog| is_it(catalog)) {
            Some(known) => Since::Changed(Box::new(known.delta(&current))),
            None => Since::Unknown,
        }
    }

    /// The content of an engram, as its file has it.
    pub async fn content(&self, id: &str) -> Result<Option<Box<str>>, Error> {
        if !engram::is_id(id) {
            return Ok(None);
        }
        let id = EngramId::from(id);
        let found = self
            .shared
            .hub
            .read(move |reader| reader.engram(&id))
            .await?;
        Ok(found.map(|engram| engram.body))
    }

    pub fn stats(&self) -> Stats {
        Stats {
            engrams: self.catalog().entries.len(),
            skipped: self.shared.skipped.load(Ordering::Relaxed),
        }
    }

    /// Ends between two steps; nothing is lost by it.
    pub async fn stop(&self) {
        self.shared.stopping.cancel();
        let keeper = self.shared.keeper.lock().take();
        if let Some(keeper) = keeper {
            let _ = keeper.await;
        }
    }
}

impl MemoryState {
    /// Shows a catalog to everyone, if it is another one.
    fn show(&self, catalog: Catalog) {
        if self.current.borrow().hash == catalog.hash {
            return;
        }
        let catalog = Arc::new(catalog);
        let mut before = self.before.lock();
        before.push_back(Arc::clone(&catalog));
        if before.len() > CATALOGS_KEPT {
            before.pop_front();
        }
        drop(before);
        self.current.send_replace(catalog);
    }
}

/// What a worker wants to be remembered (`memory_event.v1`): the text of its event, clean and cut.
pub fn note(agent: AgentId, event_type: &str, event: &serde_json::Value) -> NoteMemory {
    /// Where messages carry what people read.
    const TEXTS: [&str; 5] = ["text", "note", "summary", "message", "body"];
    // Either the whole envelope or what is in it.
    let mut body = event.get("payload").unwrap_or(event).clone();
    redact::value(&mut body);
    let texts = TEXTS.iter().find_map(|name| body.get(name)?.as_str());
    let text = texts.map_or_else(|| body.to_string(), str::to_owned);
    NoteMemory {
        agent,
        event_type: line::line(event_type, limits::NAME_BYTES_MAX),
        text: line::line(&text, limits::MEMORY_NOTE_BYTES_MAX),
    }
}

/// The catalog of these rows, oldest first. A function of them alone, so that all coordinators have the same one.
fn catalog_of(entries: &[EngramEntry]) -> Catalog {
    // The newest row came with the last change, and no change takes it away: so versions only grow.
    let newest = entries.iter().max_by(|a, b| a.version.cmp(&b.version));
    let version = newest.map_or(NO_VERSION, |entry| &entry.version);
    let created_at = newest.map_or(Timestamp::ZERO, |entry| entry.created_at);
    let entries = entries.iter().map(listed).collect();
    Catalog::new(version.to_owned(), created_at.into(), entries)
}

/// A row as the catalog lists it.
fn listed(entry: &EngramEntry) -> CatalogEntry {
    let scope = Scope::from(entry.scope);
    CatalogEntry {
        engram_id: entry.id.to_string(),
        scope,
        version: entry.version.clone(),
        path: engram::path(scope, &entry.version, entry.id.as_str()),
        hash: entry.hash.clone(),
        topics: entry.topics.clone(),
    }
}

//! The memory of the swarm on the bus: what is announced, asked for, and brought to it.

use std::sync::Arc;

use switchboard_core::AgentId;
use switchboard_wire::agentbus::catalog::Catalog;
use switchboard_wire::agentbus::message::{
    CatalogRefreshRequest, EngramContent, EngramRequest, MemoryEvent, Outbound,
};
use switchboard_wire::agentbus::parts::InParts as _;
use tokio::sync::watch;

use super::frame::send;
use super::frame::{Frame, Outbox};
use super::server::BusState;
use crate::memory::{Since, note};

/// The hash that everybody should know, if there is a memory.
pub(super) fn catalog_hash(bus: &BusState) -> Option<String> {
    let memory = bus.memory.as_ref()?;
    Some(memory.catalog().hash.clone())
}

/// Rings with each new catalog.
pub(super) fn watch(bus: &BusState) -> Option<watch::Receiver<Arc<Catalog>>> {
    let mut watch = bus.memory.as_ref()?.watch();
    watch.mark_unchanged();
    Some(watch)
}

/// Announces each engram that a new catalog has and the last one had not.
pub(super) async fn announce(bus: Arc<BusState>) {
    let Some(mut catalogs) = bus.memory.as_ref().map(|memory| memory.watch()) else {
        return;
    };
    let mut known = Arc::clone(&catalogs.borrow_and_update());
    loop {
        tokio::select! {
            changed = catalogs.changed() => if changed.is_err() { return },
            () = bus.stopping.cancelled() => return,
        }
        let current = Arc::clone(&catalogs.borrow_and_update());
        let is_new = |id: &str| !known.entries.iter().any(|entry| entry.engram_id == id);
        for entry in current
            .entries
            .iter()
            .filter(|entry| is_new(&entry.engram_id))
        {
            let message = Outbound::from(entry.to_announce());
            bus.registry.to_workers(&message);
            bus.registry
                .to_operators(|| Frame::Message(Box::new(message.clone())));
        }
        known = current;
    }
}

/// What somebody lacks of the catalog: nothing, a delta, or all of it.
pub(super) fn refresh(bus: &BusState, outbox: &Outbox, request: &CatalogRefreshRequest) {
    let Some(memory) = &bus.memory else {
        return send(
            outbox,
            Catalog::new(String::new(), bus.utc(), Vec::new()).to_snapshot(),
        );
    };
    let have = request
        .have_version
        .as_ref()
        .map(|version| version.to_text());
    let since = match (have, &request.have_hash) {
        (Some(version), Some(hash)) => memory.since(&version, hash),
        (None, _) | (_, None) => Since::Unknown,
    };
    match since {
        Since::Changed(delta) => {
            for part in delta.cut(bus.room("engram_catalog_delta.v1")) {
                send(outbox, part);
            }
        }
        // Also to who has it already: an answer is an answer.
        Since::Same | Since::Unknown => {
            let snapshot = memory.catalog().to_snapshot();
            for part in snapshot.cut(bus.room("engram_catalog_snapshot.v1")) {
                send(outbox, part);
            }
        }
    }
}

pub(super) async fn fetch(bus: &BusState, outbox: &Outbox, request: EngramRequest) {
    let id = request.engram_id;
    let found = match &bus.memory {
        Some(memory) => {
            let catalog = memory.catalog();
            let entry = catalog.entries.iter().find(|entry| entry.engram_id == id);
            let hash = entry.map(|entry| entry.hash.clone());
            let content = memory.content(&id).await.ok().flatten();
            hash.zip(content)
        }
        None => None,
    };
    let Some((hash, content)) = found else {
        return send(outbox, EngramContent::missing(id));
    };
    let content = EngramContent::new(id, hash, content.into());
    for part in content.cut(bus.room("engram_content.v1")) {
        send(outbox, part);
    }
}

/// A worker wants something to be remembered.
pub(super) async fn noted(bus: &BusState, agent: &AgentId, event: MemoryEvent) {
    if bus.memory.is_none() {
        return;
    }
    let value = serde_json::from_str(event.event.get()).unwrap_or_default();
    let note = note(agent.clone(), event.event_type.as_str(), &value);
    if let Err(error) = bus.hub.run(note).await {
        tracing::debug!(%error, "a worker's memory event was not stored");
    }
}

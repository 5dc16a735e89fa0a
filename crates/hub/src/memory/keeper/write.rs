//! Files that follow the rows.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::EngramId;
use switchboard_wire::agentbus::catalog::{Catalog, CatalogEntry};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{FileState, Keeper};
use crate::hub::Error;
use crate::memory::catalog_of;
use crate::memory::digest::{self, digest};
use crate::memory::files::Snapshot;
use crate::projection::Check;
use crate::projection::folder::freely;

/// Engrams that the digest is made of at most.
const DIGEST_ENGRAMS: usize = 8;
/// Files that could not be written are tried again after this.
const WRITE_AGAIN: Duration = Duration::from_secs(30);

impl Keeper {
    pub(super) async fn write_files(&mut self) -> Result<(), Error> {
        let check = match self.state {
            FileState::Agree => return Ok(()),
            FileState::Failed(again) if Instant::now() < again => {
                self.shared.show(catalog_of(&self.entries));
                return Ok(());
            }
            FileState::Unknown | FileState::Failed(_) => Check::Bytes,
            FileState::Behind => Check::Presence,
        };
        let catalog = catalog_of(&self.entries);
        let snapshot = Snapshot {
            digest: self.digest(&catalog).await?,
            catalog: catalog.clone(),
            upto: self.upto,
        };
        let (files, shared, handle) = (
            self.files.clone(),
            Arc::clone(&self.shared),
            Handle::current(),
        );
        let mut body = move |entry: &CatalogEntry| {
            let id = EngramId::from(entry.engram_id.as_str());
            let found = handle.block_on(shared.hub.read(move |reader| reader.engram(&id)));
            let found = found.map_err(|error| io::Error::other(error.to_string()))?;
            Ok(found.map(|row| row.body.into_string()))
        };
        // Off the runtime's threads.
        let reconcile = move || files.reconcile(&snapshot, check, &mut body, &mut freely);
        match tokio::task::spawn_blocking(reconcile).await {
            Ok(Ok(repairs)) => {
                self.said_unwritable = false;
                self.state = FileState::Agree;
                self.tell_altered(repairs.altered);
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                self.state = FileState::Behind;
                self.entries_are_old = true;
            }
            Ok(Err(error)) => {
                self.state = FileState::Failed(Instant::now() + WRITE_AGAIN);
                if !std::mem::replace(&mut self.said_unwritable, true) {
                    tracing::warn!(
                        "engram files cannot be written, the engrams are safe in the ledger: {error}"
                    );
                }
            }
            Err(_) => return Err(Error::Broken),
        }
        self.shared.show(catalog);
        Ok(())
    }

    fn tell_altered(&self, altered: usize) {
        if altered > 0 {
            tracing::warn!(
                "{altered} engram files in {} had been edited; they were restored",
                self.files.projection.root.display()
            );
        }
    }

    async fn digest(&self, catalog: &Catalog) -> Result<Option<String>, Error> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let newest = self.entries.iter().rev().take(DIGEST_ENGRAMS);
        let engrams = self
            .bodies(newest.map(|entry| entry.id.clone()).collect())
            .await?;
        let bounds = digest::Bounds {
            bytes_max: self.settings.config.memory_md_max_bytes,
            items_max: self.settings.config.memory_md_max_items,
        };
        let text = digest(&catalog.catalog_version, &engrams, bounds);
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

//! Files that follow the rows.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::EngramId;
use switchboard_wire::agentbus::catalog::{Catalog, CatalogEntry};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{Files, Keeper};
use crate::hub::Error;
use crate::memory::digest::{self, digest};
use crate::memory::shelf::{Freely, Look, Shelf, Wanted};
use crate::memory::{Shared, catalog_of};

/// Engrams that the digest is made of at most.
const DIGEST_ENGRAMS: usize = 8;
/// Files that could not be written are tried again after this.
const WRITE_AGAIN: Duration = Duration::from_secs(30);

impl Keeper {
    pub(super) async fn write_files(&mut self) -> Result<(), Error> {
        let look = match self.files {
            Files::Agree => return Ok(()),
            Files::Failed(again) if Instant::now() < again => {
                self.shared.show(catalog_of(&self.entries));
                return Ok(());
            }
            Files::Unknown | Files::Failed(_) => Look::Whole,
            Files::Behind => Look::There,
        };
        let catalog = catalog_of(&self.entries);
        let text = self.digest(&catalog).await?;
        let job = Job {
            shared: Arc::clone(&self.shared),
            shelf: self.shelf.clone(),
            catalog: catalog.clone(),
            digest: text,
            evicted: std::mem::take(&mut self.evicted),
            look,
        };
        let handle = Handle::current();
        let done = tokio::task::spawn_blocking(move || job.run(&handle)).await;
        let (evicted, written) = done.map_err(|_| Error::Broken)?;
        match written {
            Ok(()) => {
                self.said_unwritable = false;
                self.files = Files::Agree;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.evicted = evicted;
                self.files = Files::Behind;
                self.entries_are_old = true;
            }
            Err(error) => {
                self.evicted = evicted;
                self.files = Files::Failed(Instant::now() + WRITE_AGAIN);
                if !std::mem::replace(&mut self.said_unwritable, true) {
                    tracing::warn!(
                        "engrams cannot be written as files, the ledger keeps them: {error}"
                    );
                }
            }
        }
        self.shared.show(catalog);
        Ok(())
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
            bytes_max: self.settings.digest_bytes_max,
            items_max: self.settings.digest_items_max,
        };
        let text = digest(&catalog.catalog_version, &engrams, bounds);
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// Files brought up to date, off the runtime's threads.
struct Job {
    shared: Arc<Shared>,
    shelf: Shelf,
    catalog: Catalog,
    digest: Option<String>,
    evicted: HashSet<String>,
    look: Look,
}

impl Job {
    /// Gives back what was to be removed, if it could not be.
    fn run(self, handle: &Handle) -> (HashSet<String>, io::Result<()>) {
        let body = |entry: &CatalogEntry| {
            let id = EngramId::from(entry.engram_id.as_str());
            let found = handle.block_on(self.shared.hub.read(move |reader| reader.engram(&id)));
            let found = found.map_err(|error| io::Error::other(error.to_string()))?;
            Ok(found.map(|row| row.body.into_string()))
        };
        let wanted = Wanted {
            catalog: &self.catalog,
            evicted: &self.evicted,
            digest: self.digest.as_deref(),
        };
        let mended = self.shelf.reconcile(&wanted, self.look, body, &mut Freely);
        let mended = mended.map(|mended| {
            if mended.altered > 0 {
                tracing::warn!(
                    "{} files of engrams had been changed in {}; they are as they were written again",
                    mended.altered,
                    self.shelf.root.display()
                );
            }
        });
        (self.evicted, mended)
    }
}

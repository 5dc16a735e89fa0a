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
use crate::memory::digest::{self, digest};
use crate::memory::files::{Files, Told};
use crate::memory::{Shared, catalog_of};
use crate::projection::folder::freely;
use crate::projection::{Look, Upto};

/// Engrams that the digest is made of at most.
const DIGEST_ENGRAMS: usize = 8;
/// Files that could not be written are tried again after this.
const WRITE_AGAIN: Duration = Duration::from_secs(30);

impl Keeper {
    pub(super) async fn write_files(&mut self) -> Result<(), Error> {
        let look = match self.state {
            FileState::Agree => return Ok(()),
            FileState::Failed(again) if Instant::now() < again => {
                self.shared.show(catalog_of(&self.entries));
                return Ok(());
            }
            FileState::Unknown | FileState::Failed(_) => Look::Whole,
            FileState::Behind => Look::There,
        };
        let catalog = catalog_of(&self.entries);
        let text = self.digest(&catalog).await?;
        let job = Job {
            shared: Arc::clone(&self.shared),
            files: self.files.clone(),
            catalog: catalog.clone(),
            digest: text,
            upto: self.upto,
            look,
        };
        let handle = Handle::current();
        let done = tokio::task::spawn_blocking(move || job.run(&handle)).await;
        match done.map_err(|_| Error::Broken)? {
            Ok(()) => {
                self.said_unwritable = false;
                self.state = FileState::Agree;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.state = FileState::Behind;
                self.entries_are_old = true;
            }
            Err(error) => {
                self.state = FileState::Failed(Instant::now() + WRITE_AGAIN);
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
    files: Files,
    catalog: Catalog,
    digest: Option<String>,
    upto: Upto,
    look: Look,
}

impl Job {
    fn run(self, handle: &Handle) -> io::Result<()> {
        let mut body = |entry: &CatalogEntry| {
            let id = EngramId::from(entry.engram_id.as_str());
            let found = handle.block_on(self.shared.hub.read(move |reader| reader.engram(&id)));
            let found = found.map_err(|error| io::Error::other(error.to_string()))?;
            Ok(found.map(|row| row.body.into_string()))
        };
        let told = Told {
            catalog: &self.catalog,
            digest: self.digest.as_deref(),
            upto: self.upto,
        };
        let mended = self.files.bring(&told, self.look, &mut body, &mut freely)?;
        if mended.altered > 0 {
            tracing::warn!(
                "{} files of engrams had been changed in {}; they are as they were written again",
                mended.altered,
                self.files.projection.root.display()
            );
        }
        Ok(())
    }
}

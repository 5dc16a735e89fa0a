//! Engrams as files, listed in a catalog and told on one page: a projection of the ledger's rows.
//!
//! Files are there before the catalog names them, and go after it no longer does.

use std::io;
use std::path::PathBuf;

use switchboard_wire::agentbus::Scope;
use switchboard_wire::agentbus::catalog::{Catalog, CatalogEntry};
use switchboard_wire::agentbus::engram::{self, Engram, MEMORY_DIR};

use super::digest;
use crate::projection::folder::Probe;
use crate::projection::{Check, Foreign, Position, Projection, Repairs, Wanted, hash, read};

const DIGEST: &str = "memory.md";

/// Where the files are.
#[derive(Clone, Debug)]
pub struct Files {
    pub projection: Projection,
    pub catalog: PathBuf,
}

/// What the files should tell.
pub struct Snapshot {
    pub catalog: Catalog,
    /// A short text for people, if there is one.
    pub digest: Option<String>,
    pub upto: Position,
}

impl Files {
    /// Makes files, catalog and digest agree with the rows. `body` is asked for the engrams that are missing.
    pub fn reconcile(
        &self,
        snapshot: &Snapshot,
        check: Check,
        body: &mut dyn FnMut(&CatalogEntry) -> io::Result<Option<String>>,
        probe: Probe<'_>,
    ) -> io::Result<Repairs> {
        let entries = &snapshot.catalog.entries;
        let mut wanted = Vec::new();
        for entry in entries {
            wanted.push(Wanted {
                path: self.file(&entry.path).ok_or_else(|| no_path(entry))?,
                version: entry.hash.clone(),
                content: None,
                foreign: Foreign::Replace,
            });
        }
        let page = |path, text: String, foreign| Wanted {
            path,
            version: hash(text.as_bytes()),
            content: Some(text.into_bytes()),
            foreign,
        };
        // Nothing to tell, and no catalog of ours there: none is made for that.
        if !entries.is_empty() || self.read_catalog().is_some() {
            let foreign = Foreign::PutAside(|there| Catalog::from_text(there).is_ok());
            let text = snapshot.catalog.to_text();
            wanted.push(page(self.catalog.clone(), text, foreign));
        }
        if let Some(text) = &snapshot.digest {
            let foreign = Foreign::Keep(digest::is_ours);
            let path = self.projection.root.join(DIGEST);
            wanted.push(page(path, text.clone(), foreign));
        }
        let mut content = |file: &Wanted| {
            let entry = entries.iter().find(|entry| entry.hash == file.version);
            let text = entry.map_or(Ok(None), &mut *body)?;
            Ok(text.map(String::into_bytes))
        };
        self.projection
            .reconcile(snapshot.upto, &wanted, check, &mut content, probe)
    }

    /// The engrams of the catalog that is there, oldest first: those whose file is what the catalog says.
    ///
    /// For a ledger that knows none, such as a new one beside a directory that was checked out.
    pub fn found(&self, most: usize) -> Vec<(Engram, String)> {
        let Some(catalog) = self.read_catalog() else {
            return Vec::new();
        };
        let mut entries = catalog.entries;
        entries.sort_by(|a, b| (&a.version, &a.engram_id).cmp(&(&b.version, &b.engram_id)));
        let newest = entries.len().saturating_sub(most);
        let read = |entry: &CatalogEntry| {
            let text = String::from_utf8(read(&self.file(&entry.path)?).ok()??).ok()?;
            let engram = Engram::from_text(text.as_bytes()).ok()?;
            let is_it = engram.hash == entry.hash
                && engram.engram_id == entry.engram_id
                && engram.version == entry.version
                && engram.scope == entry.scope;
            is_it.then_some((engram, text))
        };
        entries[newest..].iter().filter_map(read).collect()
    }

    fn read_catalog(&self) -> Option<Catalog> {
        Catalog::from_text(&read(&self.catalog).ok()??).ok()
    }

    /// Where the file of a catalog's path is; `None` if no engram can have that path.
    fn file(&self, path: &str) -> Option<PathBuf> {
        let below = path.strip_prefix(MEMORY_DIR)?.strip_prefix('/')?;
        let mut parts = below.splitn(3, '/');
        let (scope, batch, name) = (parts.next()?, parts.next()?, parts.next()?);
        let id = name.strip_prefix("engram_")?.strip_suffix(".json")?;
        let is_one = scope.parse::<Scope>().is_ok()
            && engram::batch_time(batch).is_some()
            && engram::is_id(id);
        is_one.then(|| self.projection.root.join(below))
    }
}

fn no_path(entry: &CatalogEntry) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("engram {} has an invalid path", entry.engram_id),
    )
}

#[cfg(test)]
mod tests;

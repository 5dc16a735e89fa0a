//! The catalog: which engrams there are, under a hash by which two parties see that they know the same.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchboard_core::limits;

use super::check::{self, Checked};
use super::engram::{self, Engram, content_hash};
use super::message::{CatalogDelta, CatalogSnapshot, CatalogVersion, EngramAnnounce};
use super::utc::UtcTime;
use super::words::Scope;
use crate::{Malformed, parse};

/// Where the catalog is, from the project's folder.
pub const CATALOG_PATH: &str = "memory/catalog.json";
/// Topics of one engram.
pub const TOPICS_MAX: usize = 64;

/// All engrams, in the order of their versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// A batch id that never goes back.
    pub catalog_version: String,
    pub created_at: UtcTime,
    pub hash: String,
    pub entries: Vec<CatalogEntry>,
}

/// One engram in the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogEntry {
    pub engram_id: String,
    pub scope: Scope,
    pub version: String,
    pub path: String,
    pub hash: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
}

impl Catalog {
    /// Sorts the entries, so that the same engrams give the same hash, and seals them.
    pub fn new(
        catalog_version: String,
        created_at: UtcTime,
        mut entries: Vec<CatalogEntry>,
    ) -> Self {
        entries.sort_by(|a, b| (&a.version, &a.engram_id).cmp(&(&b.version, &b.engram_id)));
        let mut catalog = Self {
            catalog_version,
            created_at,
            hash: String::new(),
            entries,
        };
        catalog.hash = content_hash(&catalog);
        catalog
    }

    /// Whether the hash is the one of the content.
    pub fn is_sound(&self) -> bool {
        self.hash == content_hash(self)
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a catalog is made of strings");
        text.push('\n');
        text
    }

    /// Reads a file and checks its hash and every entry.
    pub fn from_text(text: &[u8]) -> Result<Self, Malformed> {
        let whole: Value = parse(text)?;
        let catalog: Self = parse(text)?;
        if catalog.hash != content_hash(&whole) {
            return Err(Malformed::field("hash", "does not match the content"));
        }
        check::each("entries", &catalog.entries, usize::MAX, |place, entry| {
            entry.check(place)
        })?;
        Ok(catalog)
    }

    /// In one piece; see [`super::parts`].
    pub fn to_snapshot(&self) -> CatalogSnapshot {
        CatalogSnapshot {
            catalog_version: CatalogVersion::Text(self.catalog_version.clone()),
            catalog_hash: self.hash.clone(),
            catalog_path: CATALOG_PATH.to_owned(),
            snapshot_id: self.catalog_version.clone(),
            part: 1,
            parts: 1,
            entries: self.entries.clone(),
        }
    }

    /// What leads from this one to a later one; an engram that changed is gone and new.
    pub fn delta(&self, later: &Catalog) -> CatalogDelta {
        let before = self.by_id();
        let after = later.by_id();
        CatalogDelta {
            from_version: CatalogVersion::Text(self.catalog_version.clone()),
            from_hash: self.hash.clone(),
            to_version: CatalogVersion::Text(later.catalog_version.clone()),
            to_hash: later.hash.clone(),
            part: 1,
            parts: 1,
            added: later
                .entries
                .iter()
                .filter(|entry| before.get(entry.engram_id.as_str()) != Some(entry))
                .cloned()
                .collect(),
            removed: self
                .entries
                .iter()
                .filter(|entry| after.get(entry.engram_id.as_str()) != Some(entry))
                .map(|entry| entry.engram_id.clone())
                .collect(),
        }
    }

    /// Follows a delta; `None` if it does not begin here. The result's own hash covers its creation, which a delta
    /// does not tell, so it is taken over from the delta.
    pub fn apply(&self, delta: &CatalogDelta) -> Option<Catalog> {
        if delta.from_hash != self.hash {
            return None;
        }
        let removed: BTreeSet<&str> = delta.removed.iter().map(String::as_str).collect();
        let kept = self
            .entries
            .iter()
            .filter(|entry| !removed.contains(entry.engram_id.as_str()));
        let entries = kept.chain(&delta.added).cloned().collect();
        let mut catalog = Catalog::new(delta.to_version.to_text(), self.created_at, entries);
        catalog.hash = delta.to_hash.clone();
        Some(catalog)
    }

    fn by_id(&self) -> BTreeMap<&str, &CatalogEntry> {
        self.entries
            .iter()
            .map(|entry| (entry.engram_id.as_str(), entry))
            .collect()
    }
}

impl CatalogEntry {
    /// What tells the swarm about it.
    pub fn to_announce(&self) -> EngramAnnounce {
        EngramAnnounce {
            batch_id: self.version.clone(),
            engram_id: self.engram_id.clone(),
            scope: self.scope,
            path: self.path.clone(),
            hash: self.hash.clone(),
        }
    }

    pub(super) fn check(&self, field: &str) -> Checked {
        let place = |member: &str| format!("{field}.{member}");
        engram::check_id(&place("engram_id"), &self.engram_id)?;
        engram::check_batch_id(&place("version"), &self.version)?;
        if self.path != engram::path(self.scope, &self.version, &self.engram_id) {
            return Err(Malformed::field(
                place("path"),
                "expected memory/<scope>/<version>/engram_<engram_id>.json",
            ));
        }
        engram::check_hash(&place("hash"), &self.hash)?;
        check::each(
            &place("topics"),
            &self.topics,
            TOPICS_MAX,
            |place, topic| check::text(place, topic, limits::NAME_BYTES_MAX),
        )
    }
}

impl From<&Engram> for CatalogEntry {
    fn from(engram: &Engram) -> Self {
        Self {
            engram_id: engram.engram_id.clone(),
            scope: engram.scope,
            version: engram.version.clone(),
            path: engram.path(),
            hash: engram.hash.clone(),
            topics: engram.topics.clone(),
        }
    }
}

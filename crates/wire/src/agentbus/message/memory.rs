//! Memory on the bus: events for the director's buffer, engrams and their catalog.

use serde::{Deserialize, Serialize};
use switchboard_core::limits;

use super::{MessageType, Payload};
use crate::agentbus::catalog::CatalogEntry;
use crate::agentbus::check::{self, Checked};
use crate::agentbus::engram;
use crate::agentbus::parts;
use crate::agentbus::words::Scope;
use crate::{Json, Malformed};

/// `memory_event.v1`: a frame worth remembering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryEvent {
    /// The name of one of the bus's messages.
    pub event_type: MessageType,
    /// The envelope that it wraps, or a part of it.
    pub event: Json,
}

impl Payload for MemoryEvent {
    const TYPE: MessageType = MessageType::MemoryEvent;

    fn check(&self) -> Checked {
        if !self.event.get().starts_with('{') {
            return Err(Malformed::field("event", "expected an object"));
        }
        check::text("event", self.event.get(), limits::PAYLOAD_BYTES_MAX)
    }
}

/// `engram_announce.v1`: a new engram exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngramAnnounce {
    pub batch_id: String,
    pub engram_id: String,
    pub scope: Scope,
    pub path: String,
    pub hash: String,
}

impl Payload for EngramAnnounce {
    const TYPE: MessageType = MessageType::EngramAnnounce;

    fn check(&self) -> Checked {
        engram::check_batch_id("batch_id", &self.batch_id)?;
        engram::check_id("engram_id", &self.engram_id)?;
        if self.path != engram::path(self.scope, &self.batch_id, &self.engram_id) {
            return Err(Malformed::field(
                "path",
                "expected memory/<scope>/<batch_id>/engram_<engram_id>.json",
            ));
        }
        engram::check_hash("hash", &self.hash)
    }
}

/// A catalog's version; the director writes batch ids, others may count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CatalogVersion {
    Text(String),
    Number(u64),
}

impl CatalogVersion {
    /// As text, whichever it is.
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }

    fn check(&self, field: &str) -> Checked {
        match self {
            Self::Text(text) => check::word(field, text),
            Self::Number(number) => check::number(field, *number),
        }
    }
}

/// `engram_catalog_snapshot.v1`; one that fits no line is cut into parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CatalogSnapshot {
    pub catalog_version: CatalogVersion,
    pub catalog_hash: String,
    pub catalog_path: String,
    #[serde(default)]
    pub snapshot_id: String,
    #[serde(default = "parts::only")]
    pub part: u32,
    #[serde(default = "parts::only")]
    pub parts: u32,
    pub entries: Vec<CatalogEntry>,
}

impl Payload for CatalogSnapshot {
    const TYPE: MessageType = MessageType::EngramCatalogSnapshot;

    fn check(&self) -> Checked {
        self.catalog_version.check("catalog_version")?;
        engram::check_hash("catalog_hash", &self.catalog_hash)?;
        check::text("catalog_path", &self.catalog_path, limits::PATH_BYTES_MAX)?;
        check::word("snapshot_id", &self.snapshot_id)?;
        check::part(self.part, self.parts)?;
        check::each("entries", &self.entries, usize::MAX, |place, entry| {
            entry.check(place)
        })
    }
}

/// `engram_catalog_delta.v1`: from one catalog to the next; one that fits no line is cut into parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CatalogDelta {
    pub from_version: CatalogVersion,
    pub from_hash: String,
    pub to_version: CatalogVersion,
    pub to_hash: String,
    #[serde(default = "parts::only")]
    pub part: u32,
    #[serde(default = "parts::only")]
    pub parts: u32,
    pub added: Vec<CatalogEntry>,
    /// Ids of engrams that are gone.
    pub removed: Vec<String>,
}

impl Payload for CatalogDelta {
    const TYPE: MessageType = MessageType::EngramCatalogDelta;

    fn check(&self) -> Checked {
        self.from_version.check("from_version")?;
        self.to_version.check("to_version")?;
        engram::check_hash("from_hash", &self.from_hash)?;
        engram::check_hash("to_hash", &self.to_hash)?;
        check::part(self.part, self.parts)?;
        check::each("added", &self.added, usize::MAX, |place, entry| {
            entry.check(place)
        })?;
        check::each("removed", &self.removed, usize::MAX, |place, id| {
            engram::check_id(place, id)
        })
    }
}

/// `catalog_refresh_request.v1`: answered by a delta or a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogRefreshRequest {
    /// Absent if the sender has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub have_version: Option<CatalogVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub have_hash: Option<String>,
}

impl Payload for CatalogRefreshRequest {
    const TYPE: MessageType = MessageType::CatalogRefreshRequest;

    fn check(&self) -> Checked {
        if let Some(version) = &self.have_version {
            version.check("have_version")?;
        }
        check::maybe_word("have_hash", self.have_hash.as_deref())
    }
}

/// `engram_request.v1`: answered by the engram's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngramRequest {
    pub engram_id: String,
}

impl Payload for EngramRequest {
    const TYPE: MessageType = MessageType::EngramRequest;

    fn check(&self) -> Checked {
        engram::check_id("engram_id", &self.engram_id)
    }
}

/// `engram_content.v1`: the engram's file, cut into parts where it fits no line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngramContent {
    pub engram_id: String,
    /// Absent if there is no such engram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    pub part: u32,
    /// 0 if there is no such engram.
    pub parts: u32,
    /// A piece of the file's text.
    pub content: String,
}

impl EngramContent {
    /// All of it, for now.
    pub fn new(engram_id: String, hash: String, content: String) -> Self {
        Self {
            engram_id,
            hash: Some(hash),
            part: 1,
            parts: 1,
            content,
        }
    }

    /// There is no such engram.
    pub fn missing(engram_id: String) -> Self {
        Self {
            engram_id,
            ..Self::default()
        }
    }

    pub fn is_missing(&self) -> bool {
        self.parts == 0
    }
}

impl Payload for EngramContent {
    const TYPE: MessageType = MessageType::EngramContent;

    fn check(&self) -> Checked {
        engram::check_id("engram_id", &self.engram_id)?;
        if self.is_missing() {
            return Ok(());
        }
        let hash = self.hash.as_deref();
        engram::check_hash("hash", hash.ok_or_else(|| Malformed::missing("hash"))?)?;
        check::part(self.part, self.parts)
    }
}

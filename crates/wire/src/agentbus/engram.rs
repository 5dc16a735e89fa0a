//! Engrams: what the swarm remembers, as JSON that is never changed once written.
//!
//! The hash covers the canonical form of everything but itself, so that a file can be told from a damaged one.

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchboard_core::iso;
use switchboard_core::limits;

use super::check::{self, Checked};
use super::utc::UtcTime;
use super::words::Scope;
use crate::canonical::canonical;
use crate::object::object;
use crate::{Malformed, parse};

/// Where engrams and their catalog are, from the project's folder.
pub const MEMORY_DIR: &str = "memory";
/// What every hash begins with.
pub const HASH_PREFIX: &str = "sha256:";

/// One engram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engram {
    pub engram_id: String,
    /// The batch id under which it was written.
    pub version: String,
    pub scope: Scope,
    pub created_at: UtcTime,
    #[serde(deserialize_with = "object")]
    pub source_window: SourceWindow,
    pub hash: String,
    pub topics: Vec<String>,
    pub facts: Vec<String>,
    pub decisions: Vec<Decision>,
    pub links: Vec<Link>,
    #[serde(deserialize_with = "object")]
    pub provenance: Provenance,
}

/// The time that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceWindow {
    pub start_ts: UtcTime,
    pub end_ts: UtcTime,
}

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub title: String,
    pub rationale: String,
}

/// Where to read more: `{"type": "task", "ref": "#21"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(rename = "ref")]
    pub target: String,
}

/// Who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub created_by: String,
    pub run_id: String,
}

impl Engram {
    /// Sets the hash by everything else.
    pub fn sealed(mut self) -> Self {
        self.hash = content_hash(&self);
        self
    }

    /// Whether the hash is the one of the content.
    pub fn is_sound(&self) -> bool {
        self.hash == content_hash(self)
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("an engram is made of strings");
        text.push('\n');
        text
    }

    /// Reads a file and checks that its hash is the one of its content, members unknown here included.
    pub fn from_text(text: &[u8]) -> Result<Self, Malformed> {
        let whole: Value = parse(text)?;
        let engram: Self = parse(text)?;
        if engram.hash != content_hash(&whole) {
            return Err(Malformed::field("hash", "does not match the content"));
        }
        check_id("engram_id", &engram.engram_id)?;
        check_batch_id("version", &engram.version)?;
        Ok(engram)
    }

    /// Its file, relative to the project.
    pub fn path(&self) -> String {
        path(self.scope, &self.version, &self.engram_id)
    }
}

/// `sha256:` and the hexadecimal hash over the canonical form, without a member `hash`.
pub fn content_hash<T: Serialize>(value: &T) -> String {
    let mut value = serde_json::to_value(value).expect("what is hashed is plain JSON");
    if let Value::Object(members) = &mut value {
        members.remove("hash");
    }
    let hash = digest::digest(&digest::SHA256, canonical(&value).as_bytes());
    let mut text = String::with_capacity(HASH_PREFIX.len() + 64);
    text.push_str(HASH_PREFIX);
    for byte in hash.as_ref() {
        text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
        text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
    }
    text
}

/// `memory/<scope>/<batch id>/engram_<id>.json`.
pub fn path(scope: Scope, batch_id: &str, engram_id: &str) -> String {
    format!("{MEMORY_DIR}/{scope}/{batch_id}/engram_{engram_id}.json")
}

/// `YYYYMMDD-HHMMSSZ` in UTC.
pub fn batch_id(at: UtcTime) -> String {
    let printed = iso::Printed::new(at.into());
    let digits: String = printed
        .as_str()
        .chars()
        .take(19)
        .filter(char::is_ascii_digit)
        .collect();
    format!("{}-{}Z", &digits[..8], &digits[8..])
}

/// The instant of a batch id.
pub fn batch_time(batch_id: &str) -> Option<UtcTime> {
    let digits = |from: usize, to: usize| {
        let part = batch_id.get(from..to)?;
        part.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(part)
    };
    if batch_id.len() != 16 || batch_id.as_bytes()[8] != b'-' || !batch_id.ends_with('Z') {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(4, 6)?, digits(6, 8)?);
    let (hour, minute, second) = (digits(9, 11)?, digits(11, 13)?, digits(13, 15)?);
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    let at: UtcTime = text.parse().ok()?;
    // A leap second would print as another one.
    (self::batch_id(at) == batch_id).then_some(at)
}

pub(super) fn check_batch_id(field: &str, text: &str) -> Checked {
    match batch_time(text) {
        Some(_) => Ok(()),
        None => Err(Malformed::field(field, "expected YYYYMMDD-HHMMSSZ in UTC")),
    }
}

/// Whether it can be an engram's id, and so a part of a file's name.
pub fn is_id(text: &str) -> bool {
    (1..=limits::ID_BYTES_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

pub(super) fn check_id(field: &str, text: &str) -> Checked {
    if is_id(text) {
        return Ok(());
    }
    let message = format!(
        "expected 1 to {} letters, digits, _ or -",
        limits::ID_BYTES_MAX
    );
    Err(Malformed::field(field, message))
}

/// A hash of any kind, but not none.
pub(super) fn check_hash(field: &str, text: &str) -> Checked {
    check::filled(field, text, limits::NAME_BYTES_MAX)?;
    check::word(field, text)
}

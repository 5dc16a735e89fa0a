//! Engrams: what the swarm remembers of its past work, in bounded pieces that never change.
//!
//! The text of one is made outside; the rules decide which are kept.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::id::EngramId;
use crate::query::Readable;
use crate::record::{Listed, Private, RecordRange};
use crate::time::Timestamp;

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Scope {
        /// Of the last days.
        ShortTerm = "st",
        /// What is left of those.
        LongTerm = "lt",
    }
}

/// An engram without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngramEntry {
    pub id: EngramId,
    pub scope: Scope,
    /// The batch it was written in, `YYYYMMDD-HHMMSSZ`.
    pub version: String,
    pub created_at: Timestamp,
    pub hash: String,
    pub bytes: u64,
    pub topics: Vec<String>,
    /// The events it was made of.
    pub from_seq: u64,
    pub to_seq: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engram {
    pub entry: EngramEntry,
    /// The file's content, byte for byte.
    pub body: Box<str>,
    /// What it is found by: its facts, decisions and topics, a line each.
    pub words: Box<str>,
}

/// The text of an engram, which few ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngramText {
    pub id: EngramId,
    /// That of the engram.
    pub position: i64,
    pub body: Box<str>,
    pub words: Box<str>,
}

impl EngramEntry {
    /// All of them, oldest first.
    pub fn all() -> RecordRange {
        RecordRange::of::<EngramEntry>("", usize::MAX)
    }

    /// Versions are instants, and grow from engram to engram.
    fn place(&self) -> i64 {
        let digits = self.version.bytes().filter(u8::is_ascii_digit).take(18);
        digits.fold(0, |place, digit| place * 10 + i64::from(digit - b'0'))
    }
}

impl Private for EngramEntry {
    fn key(&self) -> Cow<'static, str> {
        self.id.to_string().into()
    }

    fn position(&self) -> Option<i64> {
        Some(self.place())
    }
}

impl Private for EngramText {
    fn key(&self) -> Cow<'static, str> {
        self.id.to_string().into()
    }

    fn position(&self) -> Option<i64> {
        Some(self.position)
    }
}

impl Engram {
    /// As it is kept.
    pub fn into_rows(self) -> (EngramEntry, EngramText) {
        let text = EngramText {
            id: self.entry.id.clone(),
            position: self.entry.place(),
            body: self.body,
            words: self.words,
        };
        (self.entry, text)
    }

    fn of((entry, text): (EngramEntry, EngramText)) -> Engram {
        Engram {
            entry,
            body: text.body,
            words: text.words,
        }
    }
}

impl<E> dyn Readable<Error = E> + '_ {
    /// Engrams without their texts, oldest first.
    pub fn engrams(&self) -> Result<Vec<EngramEntry>, E> {
        self.privates(&EngramEntry::all())
    }

    pub fn engram(&self, id: &EngramId) -> Result<Option<Engram>, E> {
        let entry = self.private(id.to_string())?;
        let text = self.private(id.to_string())?;
        Ok(entry.zip(text).map(Engram::of))
    }

    /// Engrams that have all the words, best first.
    pub fn engrams_with(&self, words: &str, limit: usize) -> Result<Vec<Engram>, E> {
        let mut found = Vec::new();
        let texts = self.engram_texts(words, limit)?;
        for text in texts.into_iter().filter_map(EngramText::out_of) {
            let entry = self.private(text.id.to_string())?;
            found.extend(entry.map(|entry| Engram::of((entry, text))));
        }
        Ok(found)
    }
}

/// What each tier may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    pub short_term: Budget,
    pub long_term: Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub bytes_max: u64,
    pub files_max: usize,
}

//! Engrams: what the swarm remembers of its past work, in bounded pieces that never change.
//!
//! The text of one is made outside; the rules decide which are kept.

use serde::{Deserialize, Serialize};

use crate::id::EngramId;
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
#[derive(Clone, Debug, PartialEq, Eq)]
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

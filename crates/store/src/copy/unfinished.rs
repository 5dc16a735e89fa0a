//! How far a copy came, kept in the target until it is finished.
//!
//! While the table is there, no hub may serve the ledger: half of it is missing.

use crate::Error;

pub(super) const TABLE: &str = "sb_copy";

/// What is kept between pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Where the rows come from, without a password.
    pub source: String,
    /// How the source stood when the copy was begun.
    pub mark: String,
    /// The target's schema.
    pub schema: u32,
    /// The table under way, and the last key that was copied of it.
    pub table: String,
    pub after: Option<String>,
    pub rows: u64,
    /// Counts every write, so that two who copy into one target notice each other.
    pub pages: u64,
}

/// Works on both engines.
pub(super) const MAKE: &str = "CREATE TABLE sb_copy (
  id BIGINT PRIMARY KEY CHECK (id = 1), source TEXT NOT NULL, mark TEXT NOT NULL, schema BIGINT NOT NULL,
  tbl TEXT NOT NULL, after TEXT, copied BIGINT NOT NULL, pages BIGINT NOT NULL)";
pub(super) const SELECT: &str =
    "SELECT source, mark, schema, tbl, after, copied, pages FROM sb_copy WHERE id = 1";

pub(super) fn refusal(ledger: &str, source: &str) -> Error {
    Error::Open(format!(
        "{ledger} is an unfinished copy of {source}; run the same 'switchboard migrate' again to finish it, or use another ledger"
    ))
}

pub(super) fn overtaken(ledger: &str) -> Error {
    Error::Unavailable(format!(
        "another process is copying into {ledger}; let only one of them run"
    ))
}

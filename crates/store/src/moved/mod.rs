//! The mark of a ledger that is no longer the one: it was moved elsewhere, or the hub of its data directory serves another.
//!
//! Two ledgers that both take writes are one too many, and nobody notices. While the mark is there, no hand writes into
//! the public tables; a ledger that was moved is not served either. The mark is a table of its own with triggers, made when
//! it is needed and gone when it is not, so that no schema has to know it. Who marks what and when is said in `copy` and
//! in the hub.

mod postgres;
mod sqlite;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use switchboard_core::{Timestamp, iso};

use crate::Error;
use crate::copy::Place;
use crate::sqlite::world;

pub(crate) use postgres::{FLOOR, of as of_database, read_row, write_sql};
pub use sqlite::leave;
pub(crate) use sqlite::{refuse as refuse_file, serve as serve_file, write as write_file};

/// Where a ledger's rows are kept on instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub kind: Kind,
    /// Without a password.
    pub place: String,
    pub at: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything was copied to the other place, and goes on there.
    Moved,
    /// A hub was started on the other place; this one has rows of its own, and waits to be served again.
    Unserved,
}

pub(crate) const TABLE: &str = "sb_moved";
/// Works on both engines.
const MAKE: &str = "CREATE TABLE sb_moved (
  id BIGINT PRIMARY KEY CHECK (id = 1), kind TEXT NOT NULL, place TEXT NOT NULL, at TEXT NOT NULL)";
pub(crate) const SELECT: &str = "SELECT kind, place, at FROM sb_moved WHERE id = 1";

impl Mark {
    /// As of now.
    pub fn new(kind: Kind, place: &str) -> Mark {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = since.map_or(0, |since| since.as_millis());
        let at = Timestamp(i64::try_from(ms).unwrap_or(i64::MAX));
        Mark {
            kind,
            place: place.to_owned(),
            at: iso::Printed::new(at).as_str().to_owned(),
        }
    }

    /// What everyone is told who wants to use `ledger`, with the way out.
    pub fn sentence(&self, ledger: &str) -> String {
        let Mark { kind, place, at } = self;
        match kind {
            Kind::Moved => format!(
                "{ledger} was moved to {place} at {at}; use that one ('switchboard up --store {place}', or [store] url in switchboard.toml), or return to this one as it was with 'switchboard up --abandon-move'"
            ),
            Kind::Unserved => format!(
                "{ledger} is not served: since {at} its hub serves {place}; write there, or start the hub on this one ('switchboard up --store {ledger}')"
            ),
        }
    }

    fn read(kind: &str, place: String, at: String) -> Mark {
        let kind = match kind {
            "unserved" => Kind::Unserved,
            // Whatever a newer build means by it, this ledger is not to be used.
            _ => Kind::Moved,
        };
        Mark { kind, place, at }
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Moved => "moved",
            Kind::Unserved => "unserved",
        }
    }
}

/// The mark of a SQLite file that somebody has opened.
pub fn of(db: &Connection) -> Result<Option<Mark>, Error> {
    sqlite::of(db).map_err(world)
}

/// Takes the mark off a ledger, and returns what it said.
pub fn abandon(place: &Place) -> Result<Option<Mark>, Error> {
    match place {
        Place::Sqlite(file) => sqlite::abandon(file),
        Place::Postgres(address) => postgres::abandon(address),
    }
}

/// How sentences call a file.
pub(crate) fn named(file: &Path) -> String {
    Place::Sqlite(file.to_owned()).to_string()
}

/// A text within a statement of either engine that has no place for values.
fn literal(text: &str) -> String {
    text.replace('\'', "''")
}

#[cfg(test)]
mod tests;

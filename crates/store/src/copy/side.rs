//! What copying needs of a ledger, whichever engine keeps it.

use super::Failure;
use super::tables::{FILLED_AT_BIRTH, HEAD, TABLES, Table};
use super::unfinished::Progress;
use super::value::{Row, Value};
use crate::Error;
use crate::moved::Mark;

/// The key that agents' keys follow from.
pub type Key = [u8; 32];

/// Rows of a page, at most.
pub(super) const PAGE_ROWS: usize = 1000;
/// A page ends with the row that makes it larger than this.
pub(super) const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A ledger that is read.
pub(super) trait Side: Send {
    /// How sentences call it.
    fn name(&self) -> String;

    /// From here on, everything is read as it is now, until [`Side::release`].
    fn hold(&mut self) -> Result<(), Error>;

    fn release(&mut self) -> Result<(), Error>;

    /// A text that changes with every batch that a hub commits.
    fn mark(&mut self) -> Result<String, Error>;

    /// Whether its rows are kept on elsewhere.
    fn moved(&mut self) -> Result<Option<Mark>, Error>;

    /// Marks it as moved, if it was not before, unless anyone wrote since [`Side::hold`], as far as can be told: then it
    /// returns false. Releases.
    fn leave(&mut self, mark: &str, moved: &Mark) -> Result<bool, Error>;

    /// How many milliseconds ago a hub said that it serves this ledger; `None` where a lock answers that question.
    fn served_ago(&mut self) -> Result<Option<i64>, Error>;

    /// A ledger of an older build may lack some.
    fn has(&mut self, table: &Table) -> Result<bool, Error>;

    fn count(&mut self, table: &Table) -> Result<u64, Error>;

    /// The rows behind a key, in the order of keys: at most `limit`, and not much more than [`PAGE_BYTES`].
    fn page(
        &mut self,
        table: &Table,
        after: Option<&[Value]>,
        limit: usize,
    ) -> Result<Vec<Row>, Error>;

    /// The rows with these keys, one answer for each.
    fn find(&mut self, table: &Table, keys: &[&[Value]]) -> Result<Vec<Option<Row>>, Error>;

    fn key(&mut self) -> Result<Option<Key>, Error>;

    /// Whether somebody wrote by hand what no hub has taken in yet.
    fn is_by_hand(&mut self) -> Result<bool, Error>;

    fn head(&mut self) -> Result<Row, Error> {
        let head = self.page(&HEAD, None, 1)?.pop();
        head.ok_or_else(|| Error::Corrupt(format!("{} has no head", self.name())))
    }
}

/// A ledger that is filled.
pub(super) trait Target: Side {
    /// The schema that this build makes there.
    fn schema(&self) -> u32;

    /// How far an unfinished copy came.
    fn unfinished(&mut self) -> Result<Option<Progress>, Error>;

    /// From here on nobody serves it, until [`Target::finish`].
    fn begin(&mut self, progress: &Progress) -> Result<(), Error>;

    /// Adds rows and notes `progress`, both or neither. Fails if someone else went on from there, too.
    fn put(&mut self, table: &Table, rows: &[Row], progress: &Progress) -> Result<(), Error>;

    fn keep_key(&mut self, key: &Key) -> Result<(), Error>;

    /// Writes the head, makes everything durable, and lets hubs in.
    fn finish(&mut self, head: &Row) -> Result<(), Error>;
}

/// Refuses a ledger that has anything in it.
pub(super) fn refuse_unless_empty(side: &mut dyn Side) -> Result<(), Failure> {
    let refused = |side: &dyn Side, why: &str| {
        Err(Failure::Refused(format!(
            "{} is not empty ({why}); nothing was changed. Choose a target without a ledger, or compare the two with --verify-only",
            side.name()
        )))
    };
    if !side.has(&HEAD)? {
        return Ok(());
    }
    let head = side.head()?;
    let number = |name| head[HEAD.at(name)].int().unwrap_or(0);
    if number("seq") != 0 || number("served_at") != 0 {
        return refused(side, &format!("it has {} events", number("seq")));
    }
    for table in TABLES.iter().filter(|table| table.name != FILLED_AT_BIRTH) {
        if side.has(table)? && !side.page(table, None, 1)?.is_empty() {
            return refused(side, &format!("there are rows in {}", table.name));
        }
    }
    Ok(())
}

/// A row that the other engine cannot hold.
pub(super) fn unfit(table: &Table, key: &str, column: &str, found: &str, expected: &str) -> Error {
    Error::Corrupt(format!(
        "{} {key}, column {column} has {found}, expected {expected}; fix that row, then run the command again",
        table.name
    ))
}

//! A file that was moved away makes room for its return, and is kept under another name.
//!
//! Its place is never empty, else a hub that is started just then would begin anew there: the old file gets its second
//! name first, then a new one that is an unfinished copy already takes the first name, at once.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::side::Side as _;
use super::sqlite::SqliteSide;
use super::{Failure, KeyFile, begin};
use crate::moved::{self, Kind, Mark};
use crate::sqlite::{SqliteEngine, open_error};
use crate::swarm_db::Held;
use crate::{Error, SystemClock};

/// So many names are tried.
const NAMES_MAX: u32 = 1000;

/// Returns a sentence on where the old file went, if there was one that had been moved.
pub(super) fn make_room(
    file: &Path,
    keys: &dyn KeyFile,
    source: &str,
    mark: &str,
) -> Result<Option<String>, Failure> {
    let Some(moved) = mark_of(file)? else {
        return Ok(None);
    };
    let held = Held::take_ledger(file).map_err(|unfit| {
        Failure::Refused(format!(
            "{} cannot be renamed: {unfit}; close whatever uses it and run the command again",
            file.display()
        ))
    })?;
    let fresh = beside(file, ".new");
    make_fresh(&fresh, keys, source, mark)?;
    let put_away =
        put_away(file, &fresh, &format!("moved-{}", digits(&moved.at))).map_err(|error| {
            Failure::Refused(format!("{} cannot be renamed: {error}", file.display()))
        });
    drop(held);
    put_away.map(|kept| {
        Some(format!(
            "{}, which was moved at {}, is kept as {}",
            file.display(),
            moved.at,
            kept.display()
        ))
    })
}

fn mark_of(file: &Path) -> Result<Option<Mark>, Error> {
    if !file.metadata().is_ok_and(|found| found.len() > 0) {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags).map_err(open_error)?;
    let mark = moved::of(&db)?;
    Ok(mark.filter(|mark| mark.kind == Kind::Moved))
}

/// An unfinished copy in one file. One that an earlier run left behind is made anew.
fn make_fresh(fresh: &Path, keys: &dyn KeyFile, source: &str, mark: &str) -> Result<(), Failure> {
    for end in ["", "-wal", "-shm"] {
        let file = beside(fresh, end);
        remove(&file).map_err(|error| {
            Failure::Refused(format!("{} cannot be removed: {error}", file.display()))
        })?;
    }
    drop(SqliteEngine::open(fresh, Box::new(SystemClock::new()))?);
    let side = SqliteSide::open(fresh, OpenFlags::SQLITE_OPEN_READ_WRITE, keys)?;
    let mut side = side.for_writing()?;
    begin(source, mark, &mut side)?;
    side.release()?;
    Ok(())
}

/// Puts `fresh` in the place of `file`, which is kept under a name that ends like this.
pub(super) fn put_away(file: &Path, fresh: &Path, end: &str) -> io::Result<PathBuf> {
    has_no_log(fresh)?;
    let kept = link(file, end)?;
    // The log that belongs to the old file goes with it.
    rename_if_there(&beside(file, "-wal"), &beside(&kept, "-wal"))?;
    put_in_place(file, fresh)?;
    Ok(kept)
}

/// Gives `fresh` the name `file`, whose content may be replaced. What is left of a log would be taken for the new file's.
pub(super) fn put_in_place(file: &Path, fresh: &Path) -> io::Result<()> {
    has_no_log(fresh)?;
    remove(&beside(file, "-wal"))?;
    remove(&beside(file, "-shm"))?;
    fs::rename(fresh, file)?;
    if let Some(folder) = file.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// A log of its own would be left behind under the old name.
fn has_no_log(fresh: &Path) -> io::Result<()> {
    let log = beside(fresh, "-wal");
    match log.metadata() {
        Ok(found) if found.len() > 0 => {
            Err(io::Error::other(format!("{} is not empty", log.display())))
        }
        _ => Ok(()),
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// 2026-01-19T10:00:00.000Z → 20260119T100000Z
pub(super) fn digits(at: &str) -> String {
    let digits = at.chars().take(19).filter(char::is_ascii_alphanumeric);
    digits.chain(['Z']).collect()
}

/// Gives the file a second name that ends like this: the first that is free.
fn link(file: &Path, end: &str) -> io::Result<PathBuf> {
    for number in 1..=NAMES_MAX {
        let end = match number {
            1 => format!(".{end}"),
            number => format!(".{end}-{number}"),
        };
        let kept = beside(file, &end);
        match fs::hard_link(file, &kept) {
            Ok(()) => return Ok(kept),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("every name for it is taken"))
}

pub(super) fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(end);
    file.with_file_name(name)
}

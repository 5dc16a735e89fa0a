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
    let put_away = put_away(file, &fresh, &moved).map_err(|error| {
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
        match fs::remove_file(beside(fresh, end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::Refused(format!(
                    "{} cannot be removed: {error}",
                    beside(fresh, end).display()
                )));
            }
            Ok(()) | Err(_) => {}
        }
    }
    drop(SqliteEngine::open(fresh, Box::new(SystemClock::new()))?);
    let side = SqliteSide::open(fresh, OpenFlags::SQLITE_OPEN_READ_WRITE, keys)?;
    let mut side = side.for_writing()?;
    begin(source, mark, &mut side)?;
    side.release()?;
    Ok(())
}

fn put_away(file: &Path, fresh: &Path, moved: &Mark) -> io::Result<PathBuf> {
    let log = beside(fresh, "-wal");
    if log.metadata().is_ok_and(|found| found.len() > 0) {
        return Err(io::Error::other(format!("{} is not empty", log.display())));
    }
    let kept = link(file, moved)?;
    fs::rename(fresh, file)?;
    if let Some(folder) = file.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(kept)
}

/// Gives the file a second name that says when it was moved: the first that is free.
fn link(file: &Path, moved: &Mark) -> io::Result<PathBuf> {
    // 2026-01-19T10:00:00.000Z → 20260119T100000
    let at: String = moved
        .at
        .chars()
        .take(19)
        .filter(char::is_ascii_alphanumeric)
        .collect();
    for number in 1..=NAMES_MAX {
        let end = match number {
            1 => format!(".moved-{at}Z"),
            number => format!(".moved-{at}Z-{number}"),
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

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(end);
    file.with_file_name(name)
}

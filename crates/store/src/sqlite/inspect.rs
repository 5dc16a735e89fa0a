//! Looks at a ledger's files before anybody relies on them, and leaves them as they are.
//!
//! What can be found: pages that do not fit together, commits in the log that SQLite would leave out in silence, a log of
//! events with a gap. What cannot: a value that was changed to another valid one, since pages have no checksums.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, InterruptHandle, OpenFlags, OptionalExtension as _};
use switchboard_core::limits;

use super::alarm::Alarm;
use super::errors::open_error;
use super::{leave_as_it_is, verify_log, wal};
use crate::Error;
use crate::chain::ROWS_AT_START;

/// What is to be done about damage, after what is wrong.
pub(super) const REMEDY: &str = "nothing was changed: keep a copy of the files, run 'switchboard doctor', and restore a backup \
('switchboard backup' creates them)";

const BUSY_FOR: Duration = Duration::from_secs(2);
/// Faults that are named of many.
const FAULTS_NAMED: u32 = 3;

/// Looks at a file that nobody serves yet. Large ones are left to [`Beside`].
pub(super) fn before_serving(path: &Path) -> Result<Beside, Error> {
    let Ok(meta) = std::fs::metadata(path) else {
        return Ok(Beside::default());
    };
    // The log lies beside what a link leads to.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    look_at_the_log_of_an_empty_file(path, meta.len())?;
    let db = open(path).map_err(open_error)?;
    look_at_the_log(path, &db)?;
    crate::copy::refuse_unfinished_file(&db, path)?;
    verify_log(&db, Some(ROWS_AT_START))?;
    let bytes = meta.len().saturating_add(size_of(&wal::beside(path)));
    if bytes > limits::CHECKED_BEFORE_SERVING_BYTES_MAX {
        tracing::info!(
            bytes,
            "the ledger is large: its pages are checked in the background"
        );
        return Ok(Beside {
            path: Some(path.to_owned()),
            ..Beside::default()
        });
    }
    tracing::debug!(bytes, "checking the integrity of the ledger's pages");
    let faults = check_pages(&db, None).map_err(open_error)?;
    if !faults.is_empty() {
        return Err(damaged(&faults.join("; ")));
    }
    Ok(Beside::default())
}

pub(super) fn damaged(what: &str) -> Error {
    Error::Corrupt(format!("{what}; {REMEDY}"))
}

fn size_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// A connection that changes nothing, not even when it ends.
pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    // A commit that was cut off before the file had a write-ahead log is undone by the first to look, so it must be able to.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY_FOR)?;
    leave_as_it_is(&db);
    Ok(db)
}

/// SQLite deletes the log of a file without a byte in it. One without a frame held nothing yet.
fn look_at_the_log_of_an_empty_file(path: &Path, bytes: u64) -> Result<(), Error> {
    if bytes == 0 && size_of(&wal::beside(path)) > wal::HEADER_BYTES as u64 {
        return Err(damaged(&format!(
            "{} is empty, but its write-ahead log is not",
            path.display()
        )));
    }
    Ok(())
}

/// What SQLite recovers, and what of the hub's commits it leaves out.
fn look_at_the_log(path: &Path, db: &Connection) -> Result<(), Error> {
    let log = wal::beside(path);
    if size_of(&log) == 0 {
        return Ok(());
    }
    // Nobody writes while it is read.
    db.execute_batch("BEGIN IMMEDIATE").map_err(open_error)?;
    let (page_bytes, head) = recovered(db).map_err(open_error)?;
    let left = wal::left_out(&log, page_bytes, head.map(|head| head.page));
    db.execute_batch("ROLLBACK").map_err(open_error)?;
    let left = match left {
        Ok(left) => left,
        // The first commit to the file was cut off and is undone by now, and SQLite deleted the log with it.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let why = format!("{} cannot be read: {error}", log.display());
            return Err(Error::Open(why));
        }
    };
    let (recovered, moved) = (head.map(|head| head.event), head.and_then(|_| moved(path)));
    match what_is_wrong(&left, recovered, moved) {
        Some(what) => Err(damaged(&format!("in {}, {what}", log.display()))),
        None => Ok(()),
    }
}

/// The one row of the ledger's head: where it lies, and the last event it knows of.
#[derive(Clone, Copy)]
struct HeadRow {
    page: u32,
    event: u64,
}

fn recovered(db: &Connection) -> rusqlite::Result<(usize, Option<HeadRow>)> {
    let page_bytes: u32 = db.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let page = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = 'sb_head'";
    let page: Option<u32> = db.query_row(page, [], |row| row.get(0)).optional()?;
    let Some(page) = page else {
        return Ok((page_bytes as usize, None));
    };
    let event: Option<i64> = db
        .query_row("SELECT seq FROM sb_head", [], |row| row.get(0))
        .optional()?;
    let event = event.unwrap_or(0).unsigned_abs();
    Ok((page_bytes as usize, Some(HeadRow { page, event })))
}

/// The last event in the file itself, without its log. In the middle of a checkpoint the file alone need not make sense.
fn moved(path: &Path) -> Option<u64> {
    let uri = crate::inspect::uri(path, "mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(uri, flags).ok()?;
    let event: i64 = db
        .query_row("SELECT seq FROM sb_head", [], |row| row.get(0))
        .ok()?;
    Some(event.unsigned_abs())
}

/// Damage, in words; `None` for what a power cut leaves behind.
fn what_is_wrong(left: &wal::Left, recovered: Option<u64>, moved: Option<u64>) -> Option<String> {
    let recovered = recovered.unwrap_or(0);
    let last = left.events.iter().max().copied().unwrap_or(0);
    let newer = if last > recovered {
        format!(" (events up to {last}, and without them up to {recovered})")
    } else {
        String::new()
    };
    if left.all {
        // A head that was being written stands before frames that are in the file already.
        return (left.commits > 0 && (last > recovered || left.events.is_empty()))
            .then(|| format!("its header is unreadable, but commits follow it{newer}"));
    }
    if left.commits > 1 {
        let commits = left.commits;
        return Some(format!(
            "{commits} commits of the hub follow unreadable bytes{newer}; a power failure leaves at most one"
        ));
    }
    // What was moved into the file had been synced before.
    let moved = moved.filter(|moved| *moved > recovered && left.events.contains(moved));
    moved.map(|moved| {
        format!("a commit is unreadable that is already in the main file (event {moved}){newer}")
    })
}

/// What does not fit together in the pages of one table, or of all.
fn check_pages(db: &Connection, table: Option<&str>) -> rusqlite::Result<Vec<String>> {
    let of = table.map_or(FAULTS_NAMED.to_string(), |table| {
        format!("\"{}\"", table.replace('"', "\"\""))
    });
    let mut faults: Vec<String> = db
        .prepare(&format!("PRAGMA quick_check({of})"))?
        .query_map([], |row| row.get(0))?
        .take(FAULTS_NAMED as usize)
        .collect::<rusqlite::Result<_>>()?;
    faults.retain(|said| said != "ok");
    Ok(faults)
}

/// Checks the pages of a large ledger while it is served.
#[derive(Default)]
pub(super) struct Beside {
    path: Option<PathBuf>,
    running: Option<(InterruptHandle, JoinHandle<()>)>,
}

impl Beside {
    /// Begins, if there is anything left to check. What is found raises the alarm.
    pub fn start(&mut self, alarm: &Alarm) -> Result<(), Error> {
        let Some(path) = self.path.take() else {
            return Ok(());
        };
        let db = open(&path).map_err(open_error)?;
        let (stop, alarm) = (db.get_interrupt_handle(), alarm.clone());
        let thread = std::thread::Builder::new()
            .name("check".to_owned())
            .spawn(move || check_beside(&db, &alarm))
            .map_err(|error| Error::Open(format!("no thread to check the ledger: {error}")))?;
        self.running = Some((stop, thread));
        Ok(())
    }

    /// Ends, whether all was checked or not.
    pub fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            while !thread.is_finished() {
                stop.interrupt();
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = thread.join();
        }
    }
}

/// Table by table, so that no long read keeps the write-ahead log from starting anew.
fn check_beside(db: &Connection, alarm: &Alarm) {
    let since = Instant::now();
    let tables = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
        .and_then(|mut found| found.query_map([], |row| row.get(0))?.collect());
    let checked = tables.and_then(|tables: Vec<String>| {
        for table in &tables {
            let faults = check_pages(db, Some(table))?;
            if !faults.is_empty() {
                alarm.raise(damaged(&faults.join("; ")));
                return Ok(());
            }
        }
        let seconds = since.elapsed().as_secs();
        tracing::info!(seconds, "the ledger's pages are intact");
        Ok(())
    });
    match checked {
        Ok(()) => {}
        Err(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => {}
        Err(error) => {
            let error = alarm.hear(error);
            tracing::warn!(%error, "the check of the ledger's pages did not finish");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_found_beside_serving_is_heard_by_the_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(3000)), (zeroblob(3000)), (zeroblob(3000))")
            .unwrap();
        let check = |path: &Path| {
            let alarm = Alarm::default();
            let mut beside = Beside {
                path: Some(path.to_owned()),
                ..Beside::default()
            };
            beside.start(&alarm).unwrap();
            let (_, thread) = beside.running.take().unwrap();
            thread.join().unwrap();
            alarm.check()
        };
        assert!(check(&path).is_ok());
        drop(db);
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 4096;
        bytes[last..].fill(0xa5);
        std::fs::write(&path, bytes).unwrap();
        let said = check(&path).unwrap_err().to_string();
        assert!(
            said.contains("damaged") && said.contains("backup"),
            "{said}"
        );
    }
}

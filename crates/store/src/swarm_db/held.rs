//! An old file while it is imported: opened by nobody else, sound, and all in one piece.
//!
//! Locks tell of every program that has read a file with a write-ahead log. A program that has a file without one open
//! and does nothing holds no lock. Whoever is missed loses nothing: SQLite refuses to write to a file that was moved.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Unfit;
use crate::inspect;

/// The only one who has the file open, until it is dropped.
#[derive(Debug)]
pub struct Held {
    pub(super) db: Connection,
    path: PathBuf,
}

/// A program that is just done gets this long to let go.
const PATIENCE: Duration = Duration::from_secs(1);
/// Kept until the connection closes. Fails while anybody else has read from a file with a write-ahead log.
const LOCK: &str = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT";

impl Held {
    /// Nothing of the file has changed if this fails.
    pub fn take(path: &Path) -> Result<Held, Unfit> {
        check(path, |db| match has_ledger(db)? {
            true => Err(Unfit::IsLedger),
            false => Ok(()),
        })?;
        Self::hold(path)
    }

    /// The same for a ledger that is about to be put away.
    pub(crate) fn take_ledger(path: &Path) -> Result<Held, Unfit> {
        check(path, |_| Ok(()))?;
        Self::hold(path)
    }

    fn hold(path: &Path) -> Result<Held, Unfit> {
        let db = open(path)?;
        // Without its log it is one file, which can be renamed. Before the lock is kept, else a journal stays beside it.
        let mode = |sql| db.query_row(sql, [], |row| row.get::<_, String>(0));
        mode("PRAGMA journal_mode = DELETE")?;
        db.execute_batch(LOCK)?;
        // Somebody may have been quicker, and turned it back.
        if mode("PRAGMA journal_mode")?.eq_ignore_ascii_case("wal") {
            return Err(Unfit::InUse);
        }
        Ok(Held {
            db,
            path: path.to_owned(),
        })
    }

    /// Tells this very file, as it is now, from any other. Not by reading it: whoever closes a file gives up its locks.
    pub(super) fn fingerprint(&self) -> String {
        let Ok(found) = fs::metadata(&self.path) else {
            return String::new();
        };
        let changed = found.modified().ok();
        let changed = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        format!(
            "{}-{}-{}",
            number_of(&found),
            found.len(),
            changed.unwrap_or_default().as_nanos()
        )
    }

    /// The file is found under another name from now on.
    pub fn rename(&mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)?;
        self.path = to.to_owned();
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether it can be held and read whole, without a change to it.
fn check(path: &Path, fits: impl FnOnce(&Connection) -> Result<(), Unfit>) -> Result<(), Unfit> {
    let db = open(path)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.execute_batch(LOCK)?;
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Unfit::Damaged(verdict));
    }
    fits(&db)
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(PATIENCE)?;
    db.execute_batch("PRAGMA trusted_schema = OFF")?;
    Ok(db)
}

/// Whether a file is a ledger of Switchboard's. What cannot be read is none.
pub fn is_ledger(path: &Path) -> bool {
    // Nothing is left behind by the question.
    let opened = inspect::open(path, inspect::log_bytes(path) > 0);
    opened.is_ok_and(|db| {
        let patient = db.busy_timeout(PATIENCE);
        patient.is_ok() && has_ledger(&db).unwrap_or(false)
    })
}

fn has_ledger(db: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'sb_migration')";
    db.query_row(sql, [], |row| row.get(0))
}

impl From<rusqlite::Error> for Unfit {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Unfit::InUse,
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Unfit::Damaged(error.to_string())
            }
            Some(_) | None => Unfit::Unusable(error.to_string()),
        }
    }
}

#[cfg(unix)]
fn number_of(found: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn number_of(_: &fs::Metadata) -> u64 {
    0
}

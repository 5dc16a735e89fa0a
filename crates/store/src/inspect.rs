//! What a start would find in a ledger, read without changing anything.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::copy::{source_of_database, source_of_file};
use crate::moved::{self, Mark};
use crate::postgres::Address;
use crate::postgres::session::{Query, Session};
use crate::rows::Columns;
use crate::sqlite::world;
use crate::{Error, postgres, sqlite};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The newest step of its schema that this build would have to know.
    pub schema: u32,
    /// The newest that it does know.
    pub known: u32,
    /// It is an unfinished copy of this one.
    pub copy_of: Option<String>,
    pub moved: Option<Mark>,
}

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens a file in the way that leaves everything around it as it was.
///
/// SQLite would make a log and an index beside a file at rest, and leave them there. Where nobody serves it, a file without
/// a log is read as if nobody could ever write it; one with a log that a crash left behind, with an index in memory.
pub fn open(file: &Path, is_served: bool) -> rusqlite::Result<Connection> {
    let how = match (is_served, log_bytes(file)) {
        (true, _) => "mode=ro",
        (false, 0) => "mode=ro&immutable=1",
        (false, _) => "mode=ro&readonly_shm=1",
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(uri(file, how), flags)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    Ok(db)
}

/// Whether a file says of itself that it has a write-ahead log. A connection that treats it as unchangeable does not tell.
///
/// To be asked before it is opened: whoever closes a file gives up all locks on it.
pub fn has_log(file: &Path) -> std::io::Result<bool> {
    // "File format write version" and "read version", both 2 for a write-ahead log.
    let mut header = [0; 20];
    File::open(file)?.read_exact(&mut header)?;
    Ok(header[18..] == [2, 2])
}

/// The size of the write-ahead log beside a file.
pub fn log_bytes(file: &Path) -> u64 {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(0, |log| log.len())
}

pub(crate) fn uri(file: &Path, how: &str) -> String {
    let mut uri = "file:".to_owned();
    for byte in file.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{uri}?{how}")
}

/// A file that somebody has opened. `None` if it is no ledger.
pub fn file(db: &Connection) -> Result<Option<Found>, Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sb_migration')";
    if !db.query_row(sql, [], |row| row.get(0)).map_err(world)? {
        return Ok(None);
    }
    sqlite::verify_steps(db)?;
    let newest = "SELECT coalesce(max(version), 0) FROM sb_migration";
    Ok(Some(Found {
        schema: db.query_row(newest, [], |row| row.get(0)).map_err(world)?,
        known: sqlite::SCHEMA_VERSION,
        copy_of: source_of_file(db)?,
        moved: moved::of(db)?,
    }))
}

/// Connects and looks. `None` if there is no ledger.
pub fn database(address: &Address) -> Result<Option<Found>, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Open(format!("no runtime for a connection: {error}")))?;
    runtime.block_on(async {
        let session = Session::open(address, None).await?;
        let is_there = Query::new("SELECT 1 WHERE to_regclass('sb_head') IS NOT NULL");
        let is_there = session.query(&is_there).await;
        if is_there.map_err(postgres::errors::world)?.is_empty() {
            return Ok(None);
        }
        // A newer schema may still suit this build; the head says which one does not.
        let floor = Query::new("SELECT schema_floor FROM sb_head WHERE id = 1");
        let rows = session.query(&floor).await;
        let rows = rows.map_err(postgres::errors::world)?;
        let floor = rows.first().map(|row| row.int(0)).transpose()?.flatten();
        Ok(Some(Found {
            schema: u32::try_from(floor.unwrap_or(0)).unwrap_or(u32::MAX) % moved::FLOOR,
            known: postgres::SCHEMA_VERSION,
            copy_of: source_of_database(&session).await?,
            moved: moved::of_database(&session).await?,
        }))
    })
}

//! A write-ahead log that is there when the ledger is opened: into the file with it, before anything is appended.
//!
//! If a sync failed, the hub ended, and the system may still show what never reached the disk. Whatever was appended behind
//! such a hole would be lost with the next power cut. So the log is written once more, byte by byte where it is, and then
//! moved into the file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::errors::{open_error, world};
use crate::Error;

/// How often it is tried again while somebody reads.
pub(super) const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

pub(super) fn is_found(log: &Path) -> bool {
    log.metadata().is_ok_and(|found| found.len() > 0)
}

/// Makes durable what the log shows. Nobody else appends meanwhile; who reads may go on.
pub(super) fn make_durable(db: &Connection, log: &Path) -> Result<(), Error> {
    db.execute_batch("BEGIN IMMEDIATE").map_err(open_error)?;
    let written = write_again(log);
    db.execute_batch("ROLLBACK").map_err(open_error)?;
    written.map_err(|error| {
        Error::Open(format!(
            "{} cannot be synced to disk: {error}; check the disk",
            log.display()
        ))
    })
}

/// A page that the system takes for written, although its sync failed, is written only if it is changed. There are no
/// locks on this file that closing it could drop.
fn write_again(log: &Path) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).open(log)?;
    let mut bytes = vec![0; 1024 * 1024];
    loop {
        let at = file.stream_position()?;
        let read = file.read(&mut bytes)?;
        if read == 0 {
            return file.sync_all();
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&bytes[..read])?;
    }
}

/// Moves all of it into the file and leaves an empty log; false if somebody reads an older state.
pub(super) fn moved(db: &Connection) -> Result<bool, Error> {
    let busy: bool = db
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(world)?;
    Ok(!busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_again_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for len in [
            0,
            1,
            1024 * 1024 - 1,
            1024 * 1024,
            1024 * 1024 + 1,
            3_000_000,
        ] {
            let bytes: Vec<u8> = (0..len).map(|n: usize| (n % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            write_again(&path).unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes, "{len}");
        }
    }
}

//! Which of SQLite's errors mean "later", which mean "never", and which mean "stop".

use rusqlite::ErrorCode;

use crate::Error;

/// An error while reading or writing within a transaction: the transaction is rolled back, nothing is lost.
pub(crate) fn world(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Corrupt(describe(&error))
        }
        Some(ErrorCode::SystemIoFailure) if !is_refused_write(&error) => {
            Error::Fatal(describe(&error))
        }
        Some(_) | None => Error::Unavailable(describe(&error)),
    }
}

/// A quota or a limit on file sizes: unlike a failed sync, it leaves no doubt about what is in the file.
fn is_refused_write(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_IOERR_WRITE)
}

pub(crate) fn open_error(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Corrupt(describe(&error))
        }
        Some(_) | None => Error::Open(describe(&error)),
    }
}

fn describe(error: &rusqlite::Error) -> String {
    let next = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "; free some disk space, nothing acknowledged was lost",
        Some(ErrorCode::ReadOnly) => "; the file or its directory is not writable",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; another program holds the file's write lock"
        }
        Some(ErrorCode::CannotOpen) => "; check that the directory exists and is writable",
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "; run 'switchboard doctor', or restore a backup ('switchboard backup' creates them)"
        }
        Some(ErrorCode::SystemIoFailure) if is_refused_write(error) => {
            "; the file cannot grow, check for a quota; nothing acknowledged was lost"
        }
        Some(ErrorCode::SystemIoFailure) => "; the disk reported a failure",
        Some(_) | None => "",
    };
    format!("{error}{next}")
}

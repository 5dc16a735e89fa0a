//! Which of PostgreSQL's errors mean "later", and which mean "stop".

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::Error;

/// An error while reading or writing: the transaction is rolled back, nothing is lost.
pub(crate) fn world(error: tokio_postgres::Error) -> Error {
    match error.code() {
        Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            Error::Corrupt(describe(&error))
        }
        Some(_) | None => Error::Unavailable(describe(&error)),
    }
}

/// The whole chain, because the outermost error says only that there was one.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    let next = match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => {
            "; free some disk space on the database's server, nothing acknowledged was lost"
        }
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => {
            "; another coordinator or a direct SQL client holds the lock of the ledger's head"
        }
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            "; this server is read-only, check whether it is a standby"
        }
        Some(code) if *code == SqlState::TOO_MANY_CONNECTIONS => {
            "; raise max_connections, or use a connection pooler"
        }
        Some(code)
            if *code == SqlState::INVALID_PASSWORD
                || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
        {
            "; check user and password"
        }
        Some(_) | None => "",
    };
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    format!("{text}{next}")
}

/// What strangers may hear of a server that cannot be reached; the log has the rest.
pub(super) fn unreachable() -> Error {
    Error::Unavailable("the database cannot be reached at the moment".to_owned())
}

/// Whether the connection ends with this error, although it may not be seen to have ended yet: what was asked for last
/// may have been done. Poolers say only the word.
pub(super) fn is_last_word(error: &tokio_postgres::Error) -> bool {
    let said = error.as_db_error();
    said.is_some_and(|said| match said.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => matches!(said.severity(), "FATAL" | "PANIC"),
    })
}

/// Whether the server did what it was asked for, but not as it should be.
pub(super) fn is_warning(notice: &DbError) -> bool {
    match notice.parsed_severity() {
        Some(severity) => severity == Severity::Warning,
        None => notice.severity() == "WARNING",
    }
}

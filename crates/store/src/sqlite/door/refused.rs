//! Why a statement was not done, in SQLite's words where it has some.

use rusqlite::{Error as Failure, ffi};

use super::watch::Why;
use super::{
    HUB_WAITS_MAX, MEMORY_BYTES_MAX, READ_FOR_MAX, TRANSACTION_FOR_MAX, VALUE_BYTES_MAX,
    WRITE_FOR_MAX,
};
use crate::Error;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// Such as `SQLITE_CONSTRAINT`.
    pub code: &'static str,
    pub message: String,
}

impl Refused {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Refused {
            code,
            message: message.into(),
        }
    }

    pub(super) fn busy() -> Self {
        Refused::new(
            "SQLITE_BUSY",
            "another client is writing; retry in a moment",
        )
    }

    /// The ledger is not there, or takes no writes now.
    pub(super) fn unavailable(error: Error) -> Self {
        Refused::new("SQLITE_IOERR", error.to_string())
    }

    /// What SQLite said, and what is known about it here: what the guard forbade, why a statement was stopped.
    pub(super) fn of(error: &Failure, forbidden: Option<String>, stopped: Option<Why>) -> Self {
        let (code, message) = match error {
            Failure::SqliteFailure(error, message) => {
                let message = message.clone().unwrap_or_else(|| error.to_string());
                (error.extended_code, message)
            }
            Failure::SqlInputError { error, msg, .. } => (error.extended_code, msg.clone()),
            other => (ffi::SQLITE_ERROR, other.to_string()),
        };
        match (code & 0xff, forbidden, stopped) {
            (_, Some(why), _) => Refused::new("SQLITE_AUTH", why),
            (ffi::SQLITE_INTERRUPT, _, Some(why)) => stopped_because(why),
            (ffi::SQLITE_BUSY, ..) => Refused::busy(),
            (ffi::SQLITE_TOOBIG, ..) => Refused::new(
                "SQLITE_TOOBIG",
                format!(
                    "{message}: a text, a blob or a row may have at most {VALUE_BYTES_MAX} bytes, and less where a statement has many calls of functions"
                ),
            ),
            (code, ..) => Refused::new(name(code), message),
        }
    }
}

pub(super) fn stopped_because(why: Why) -> Refused {
    match why {
        Why::Time => Refused::new(
            "SQLITE_INTERRUPT",
            format!(
                "timeout: a statement may read for {} s or write for {} s, a transaction may last {} s",
                READ_FOR_MAX.as_secs(),
                WRITE_FOR_MAX.as_secs(),
                TRANSACTION_FOR_MAX.as_secs()
            ),
        ),
        Why::HubWaits => Refused::new(
            "SQLITE_BUSY",
            format!(
                "rolled back: the hub has waited {} ms to write; retry with less at a time",
                HUB_WAITS_MAX.as_millis()
            ),
        ),
        Why::Memory => Refused::new(
            "SQLITE_NOMEM",
            format!(
                "out of memory: a statement may use {} MiB; sort or group less at a time",
                MEMORY_BYTES_MAX / (1024 * 1024)
            ),
        ),
        Why::Closed => Refused::new("SQLITE_INTERRUPT", "the hub is stopping"),
    }
}

fn name(code: i32) -> &'static str {
    match code {
        ffi::SQLITE_INTERNAL => "SQLITE_INTERNAL",
        ffi::SQLITE_PERM => "SQLITE_PERM",
        ffi::SQLITE_ABORT => "SQLITE_ABORT",
        ffi::SQLITE_LOCKED => "SQLITE_LOCKED",
        ffi::SQLITE_NOMEM => "SQLITE_NOMEM",
        ffi::SQLITE_READONLY => "SQLITE_READONLY",
        ffi::SQLITE_INTERRUPT => "SQLITE_INTERRUPT",
        ffi::SQLITE_IOERR => "SQLITE_IOERR",
        ffi::SQLITE_CORRUPT => "SQLITE_CORRUPT",
        ffi::SQLITE_FULL => "SQLITE_FULL",
        ffi::SQLITE_CANTOPEN => "SQLITE_CANTOPEN",
        ffi::SQLITE_PROTOCOL => "SQLITE_PROTOCOL",
        ffi::SQLITE_SCHEMA => "SQLITE_SCHEMA",
        ffi::SQLITE_CONSTRAINT => "SQLITE_CONSTRAINT",
        ffi::SQLITE_MISMATCH => "SQLITE_MISMATCH",
        ffi::SQLITE_MISUSE => "SQLITE_MISUSE",
        ffi::SQLITE_AUTH => "SQLITE_AUTH",
        ffi::SQLITE_RANGE => "SQLITE_RANGE",
        ffi::SQLITE_NOTADB => "SQLITE_NOTADB",
        _ => "SQLITE_ERROR",
    }
}

//! Word of damage, shared by every connection to one ledger: whoever finds any tells the writer, which then stops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::errors::world;
use crate::Error;

/// Raised once, for good: what was damaged does not mend itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Alarm(Arc<Cell>);

#[derive(Debug, Default)]
struct Cell {
    /// Asked in every batch, so that the lock is not.
    is_raised: AtomicBool,
    why: Mutex<Option<Error>>,
}

impl Alarm {
    /// What an error of SQLite means; damage is heard by the writer too.
    pub fn hear(&self, error: rusqlite::Error) -> Error {
        let error = world(error);
        if matches!(error, Error::Corrupt(_)) {
            self.raise(error.clone());
        }
        error
    }

    /// From now on nobody writes.
    pub fn raise(&self, error: Error) {
        let mut why = self.0.why.lock().unwrap_or_else(PoisonError::into_inner);
        if why.is_none() {
            tracing::error!(%error, "the hub writes nothing more");
            *why = Some(error);
            self.0.is_raised.store(true, Ordering::Release);
        }
    }

    pub fn is_raised(&self) -> bool {
        self.0.is_raised.load(Ordering::Acquire)
    }

    /// An error if the file is damaged or can no longer be made durable.
    pub fn check(&self) -> Result<(), Error> {
        if !self.is_raised() {
            return Ok(());
        }
        let why = self.0.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone().map_or(Ok(()), Err)
    }
}

//! Moves the write-ahead log into the file, early and often, never within a batch.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::errors::{open_error, world};
use crate::Error;

pub(super) struct Checkpointer {
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    commits: u32,
    stop: bool,
    /// Why the file can no longer be trusted to be durable.
    failed: Option<Error>,
}

/// So many commits, or this long after one, and the log is moved.
const COMMITS: u32 = 256;
const PAUSE: Duration = Duration::from_secs(1);
/// Pages in the log from which on writers wait until it starts anew: 64 MiB.
const PAGES_MAX: i64 = 16_384;

impl Checkpointer {
    pub fn start(path: &Path) -> Result<Checkpointer, Error> {
        let db = Connection::open(path).map_err(open_error)?;
        db.busy_timeout(Duration::from_secs(1))
            .map_err(open_error)?;
        db.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -256;")
            .map_err(open_error)?;
        let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("checkpoint".to_owned())
            .spawn(move || run(&db, &theirs))
            .map_err(|error| Error::Open(format!("no thread for checkpoints: {error}")))?;
        Ok(Checkpointer {
            shared,
            thread: Some(thread),
        })
    }

    pub fn committed(&self) {
        let (state, bell) = &*self.shared;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.commits += 1;
        if state.commits == 1 || state.commits == COMMITS {
            bell.notify_one();
        }
    }
}

impl Checkpointer {
    /// An error if a sync failed or the file turned out to be damaged; then nobody may go on writing.
    pub fn check(&self) -> Result<(), Error> {
        let (state, _) = &*self.shared;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed.take().map_or(Ok(()), Err)
    }

    /// Ends the thread and closes its connection.
    pub fn stop(&mut self) {
        let (state, bell) = &*self.shared;
        state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        bell.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Moves all of the log into the file and leaves the log empty.
pub(super) fn finish(db: &Connection) -> rusqlite::Result<()> {
    let busy: bool = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy {
        tracing::debug!("somebody else reads the ledger; its write-ahead log stays");
    }
    Ok(())
}

fn run(db: &Connection, shared: &(Mutex<State>, Condvar)) {
    let (state, bell) = shared;
    loop {
        let mut held = state.lock().unwrap_or_else(PoisonError::into_inner);
        while held.commits == 0 && !held.stop {
            held = bell.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        let waited =
            bell.wait_timeout_while(held, PAUSE, |held| held.commits < COMMITS && !held.stop);
        let (mut held, _) = waited.unwrap_or_else(PoisonError::into_inner);
        held.commits = 0;
        let stop = held.stop;
        drop(held);
        if let Err(error @ (Error::Fatal(_) | Error::Corrupt(_))) = checkpoint(db) {
            let mut held = state.lock().unwrap_or_else(PoisonError::into_inner);
            held.failed = Some(error);
            return;
        }
        if stop {
            return;
        }
    }
}

/// An error that passes, such as a full disk, is left to the next checkpoint.
fn checkpoint(db: &Connection) -> Result<(), Error> {
    let run = |mode: &str| -> Result<i64, Error> {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        let pages = db.query_row(&sql, [], |row| row.get(1)).map_err(world);
        pages.inspect_err(|error| tracing::warn!(%error, "a checkpoint ({mode}) did not finish"))
    };
    if run("PASSIVE")? > PAGES_MAX {
        run("RESTART")?;
    }
    Ok(())
}

//! Moves the write-ahead log into the file, early and often, never within a batch.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::condition::Condition;
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
/// A log file that grew beyond this is cut when it starts anew.
const FILE_BYTES_KEPT: u64 = 256 * 1024 * 1024;
/// How long writers wait for readers at that; once, for a reader who stays is not worth it.
const READERS_WITHIN: Duration = Duration::from_secs(1);

impl Checkpointer {
    pub fn start(condition: &Arc<Condition>) -> Result<Checkpointer, Error> {
        let db = Connection::open(condition.path()).map_err(open_error)?;
        db.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -256;")
            .map_err(open_error)?;
        let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let (theirs, condition) = (Arc::clone(&shared), Arc::clone(condition));
        let thread = std::thread::Builder::new()
            .name("checkpoint".to_owned())
            .spawn(move || run(&db, &condition, &theirs))
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

fn run(db: &Connection, condition: &Condition, shared: &(Mutex<State>, Condvar)) {
    let (state, bell) = shared;
    loop {
        let mut held = state.lock().unwrap_or_else(PoisonError::into_inner);
        // What is overdue is tried again, also if nobody writes.
        while held.commits == 0 && !held.stop && !condition.is_late() {
            held = bell.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        let waited =
            bell.wait_timeout_while(held, PAUSE, |held| held.commits < COMMITS && !held.stop);
        let (mut held, _) = waited.unwrap_or_else(PoisonError::into_inner);
        held.commits = 0;
        let stop = held.stop;
        drop(held);
        // Nothing is moved into a file that nobody will find.
        if condition.look().is_ok() {
            let went = checkpoint(db, condition);
            condition.checkpointed(went.as_ref().copied());
            if let Err(error @ (Error::Fatal(_) | Error::Corrupt(_))) = went {
                let mut held = state.lock().unwrap_or_else(PoisonError::into_inner);
                held.failed = Some(error);
                return;
            }
        }
        if stop {
            return;
        }
    }
}

/// Whether all of the log is in the file, and one that grew large was cut. An error that passes, such as a full disk, is left to the next checkpoint.
fn checkpoint(db: &Connection, condition: &Condition) -> Result<bool, Error> {
    let run = |mode: &str| -> Result<(bool, i64, i64), Error> {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        let went = db.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        went.map_err(world)
            .inspect_err(|error| tracing::warn!(%error, "a checkpoint ({mode}) did not finish"))
    };
    let (_, pages, moved) = run("PASSIVE")?;
    let is_large = condition.log_bytes() > FILE_BYTES_KEPT;
    let mut is_left = moved < pages;
    if pages > PAGES_MAX || is_large {
        let within = if condition.is_late() {
            Duration::ZERO
        } else {
            READERS_WITHIN
        };
        db.busy_timeout(within).map_err(world)?;
        let (is_busy, ..) = run(if is_large { "TRUNCATE" } else { "RESTART" })?;
        is_left |= is_busy && is_large;
        condition.look()?;
    }
    Ok(!is_left)
}

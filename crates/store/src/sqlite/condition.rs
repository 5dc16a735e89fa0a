//! How the ledger's files stand: still where they were opened, small enough, moved on in time.
//!
//! One for all connections of a process. Files are looked at by name only: closing a second descriptor of the database
//! would drop the locks that SQLite holds on it. What holds a checkpoint up is told by [`super::checkpoint`].

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use switchboard_core::limits;

use super::errors::open_error;
use super::who_reads::{processes_that_read, who_reads};
use crate::Error;

#[derive(Debug)]
pub struct Condition {
    database: File,
    log: File,
    shared: File,
    began: Instant,
    /// Microseconds after `began` at which the files were last looked at.
    looked_at: AtomicU64,
    /// As of then.
    log_bytes: AtomicU64,
    /// Why the ledger is not there, for good: files that come back are others.
    gone: OnceLock<String>,
    late: Mutex<Late>,
}

/// What was opened under a name.
#[derive(Debug)]
struct File {
    path: PathBuf,
    identity: Identity,
}

/// Device and inode, where there are such.
type Identity = Option<(u64, u64)>;

/// What is late.
#[derive(Debug, Default)]
struct Late {
    /// Why nothing may be written before the log that was found is in the file.
    unmoved: Option<String>,
    /// Checkpoints fail: since when, and why.
    failing: Option<(Instant, String)>,
    /// Somebody reads an old state, so that checkpoints do not get to the end of the log.
    held_up: Option<(Instant, String)>,
}

/// A look is good for so long.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(25);

impl Condition {
    /// Of what this connection has open; `path` is how it was asked for.
    pub fn of(db: &Connection, path: &Path) -> Result<Condition, Error> {
        // A read opens the log and the shared memory too.
        db.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))
            .map_err(open_error)?;
        // SQLite follows links first, and keeps the other two beside where they lead.
        let real = db.path().map(PathBuf::from);
        let real = real.or_else(|| path.canonicalize().ok());
        let real = real.unwrap_or_else(|| path.to_owned());
        let condition = Condition {
            database: File::found(path.to_owned())?,
            log: File::found(beside(&real, "-wal"))?,
            shared: File::found(beside(&real, "-shm"))?,
            began: Instant::now(),
            looked_at: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            gone: OnceLock::new(),
            late: Mutex::default(),
        };
        condition.look()?;
        Ok(condition)
    }

    /// The path that was asked for.
    pub fn path(&self) -> &Path {
        &self.database.path
    }

    /// Other processes that read the ledger now, where the system tells.
    pub fn readers(&self) -> Vec<u32> {
        processes_that_read(&self.shared.path)
    }

    pub fn log_path(&self) -> &Path {
        &self.log.path
    }

    /// An error if the ledger is not where it was opened. Looks, unless the last look was just now.
    pub fn is_there(&self) -> Result<(), Error> {
        let looked_at = Duration::from_micros(self.looked_at.load(Ordering::Relaxed));
        if self.gone.get().is_none() && self.began.elapsed() < looked_at + LOOK_EVERY {
            return Ok(());
        }
        self.look()
    }

    /// The same, but looks in any case.
    pub fn look(&self) -> Result<(), Error> {
        if let Some(why) = self.gone.get() {
            return Err(Error::Unavailable(why.clone()));
        }
        let at = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        for file in [&self.database, &self.log, &self.shared] {
            match file.path.metadata() {
                Ok(found) if file.identity == identity(&found) => {
                    if std::ptr::eq(file, &self.log) {
                        self.log_bytes.store(found.len(), Ordering::Relaxed);
                    }
                }
                Ok(_) => return Err(self.is_gone(file, "is not the same file as the one")),
                Err(error) if is_absent(error.kind()) => {
                    return Err(self.is_gone(file, "is no longer the file"));
                }
                // It may be there: nobody can tell.
                Err(error) => {
                    let why = format!("{} cannot be examined: {error}", file.path.display());
                    return Err(Error::Unavailable(why));
                }
            }
        }
        self.looked_at.store(at, Ordering::Relaxed);
        Ok(())
    }

    fn is_gone(&self, file: &File, what: &str) -> Error {
        let why = format!(
            "{} {what} that the hub opened: it was removed, moved or replaced; put all files of the ledger back as they were, and restart the hub",
            file.path.display()
        );
        if self.gone.set(why.clone()).is_ok() {
            tracing::error!("the ledger's file is gone, so nothing is written any more: {why}");
        }
        Error::Unavailable(why)
    }

    /// An error if nothing may be written now.
    pub fn takes_writes(&self) -> Result<(), Error> {
        self.is_there()?;
        let late = self.late();
        if let Some(why) = &late.unmoved {
            return Err(Error::Unavailable(why.clone()));
        }
        let bytes = self.log_bytes();
        if is_too_long(bytes) {
            let why = late.failing.as_ref().or(late.held_up.as_ref());
            let why = why.map_or("a checkpoint is running", |(_, why)| why);
            return Err(Error::Unavailable(format!(
                "the write-ahead log has grown to {} MB, so writes are refused: {why}",
                bytes / 1_000_000
            )));
        }
        Ok(())
    }

    /// An error if it takes no writes, or will not for long.
    pub fn is_ready(&self) -> Result<(), Error> {
        self.takes_writes()?;
        match &self.late().failing {
            Some((since, why)) if is_late(since.elapsed()) => Err(Error::Unavailable(format!(
                "the write-ahead log grows and cannot be checkpointed: {why}"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// What a person should know though all goes well.
    pub fn warnings(&self) -> Vec<String> {
        let late = self.late();
        let held_up = late.held_up.as_ref();
        let held_up = held_up.filter(|(since, _)| is_late(since.elapsed()));
        let told = held_up.map(|(since, why)| {
            format!(
                "the write-ahead log ({} MB) has not been checkpointed for {} s: {why}",
                self.log_bytes() / 1_000_000,
                since.elapsed().as_secs()
            )
        });
        told.into_iter().collect()
    }

    /// The length of the log at the last look.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// The log that was found cannot be moved into the file now.
    pub fn waits_for_log(&self) {
        let why = format!(
            "the write-ahead log {} of an earlier hub must be checkpointed first, but {}; end that program, or wait for it: the hub retries every second",
            self.log.path.display(),
            self.reads()
        );
        self.late().unmoved = Some(why);
    }

    /// It is in the file.
    pub fn has_log(&self) {
        self.late().unmoved = None;
    }

    /// How the last checkpoint went: an error, how far it came, or all the way.
    pub fn checkpointed(&self, went: Result<bool, &Error>) {
        let held_up = matches!(went, Ok(false)).then(|| self.reads());
        let failing = went.err().map(|error| match error {
            Error::Unavailable(why) => format!("checkpoints fail: {why}"),
            other => format!("checkpoints fail: {other}"),
        });
        let mut late = self.late();
        late.held_up = lasts(late.held_up.take(), held_up);
        late.failing = lasts(late.failing.take(), failing);
    }

    /// A checkpoint is overdue.
    pub fn is_late(&self) -> bool {
        let late = self.late();
        late.held_up.is_some() || late.failing.is_some()
    }

    /// Who reads, as a sentence.
    fn reads(&self) -> String {
        match who_reads(&self.shared.path).as_slice() {
            [] => "another program has an open read transaction".to_owned(),
            [one] => format!("{one} has an open read transaction"),
            several => format!("{} have open read transactions", several.join(", ")),
        }
    }

    fn late(&self) -> MutexGuard<'_, Late> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File {
    fn found(path: PathBuf) -> Result<File, Error> {
        match path.metadata() {
            Ok(found) => Ok(File {
                identity: identity(&found),
                path,
            }),
            Err(error) => {
                let why = format!(
                    "{} disappeared while it was opened: {error}",
                    path.display()
                );
                Err(Error::Open(why))
            }
        }
    }
}

#[cfg(unix)]
fn identity(found: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_found: &Metadata) -> Identity {
    None
}

fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Since when something is so: as before if it was, else from now on.
fn lasts(before: Option<(Instant, String)>, now: Option<String>) -> Option<(Instant, String)> {
    let since = before.map_or_else(Instant::now, |(since, _)| since);
    now.map(|why| (since, why))
}

fn is_too_long(log_bytes: u64) -> bool {
    log_bytes > limits::LOG_FILE_BYTES_MAX
}

fn is_late(lasted: Duration) -> bool {
    lasted >= limits::CHECKPOINT_LATE_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_may_grow_to_its_bound_and_no_further() {
        let most = limits::LOG_FILE_BYTES_MAX;
        assert_eq!(
            [most - 1, most, most + 1].map(is_too_long),
            [false, false, true]
        );
    }

    #[test]
    fn a_checkpoint_is_late_from_its_bound_on() {
        let (after, bit) = (limits::CHECKPOINT_LATE_AFTER, Duration::from_millis(1));
        assert_eq!(
            [after - bit, after, after + bit].map(is_late),
            [false, true, true]
        );
    }

    #[test]
    fn checkpoints_that_fail_for_long_are_not_ready_and_one_that_is_held_up_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let db = Connection::open(&path).unwrap();
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
            .unwrap();
        let condition = Condition::of(&db, &path).unwrap();
        let full = Error::Unavailable("the disk is full".to_owned());
        let before = |since: Duration| Instant::now().checked_sub(since).unwrap();
        let after = limits::CHECKPOINT_LATE_AFTER;
        condition.checkpointed(Err(&full));
        assert!(condition.is_late());
        condition.is_ready().unwrap();
        condition.late().failing.as_mut().unwrap().0 = before(after);
        condition.checkpointed(Err(&full));
        let said = condition.is_ready().unwrap_err().to_string();
        assert!(said.contains("the disk is full"), "{said}");
        condition.takes_writes().unwrap();
        condition.checkpointed(Ok(false));
        condition.is_ready().unwrap();
        assert!(condition.warnings().is_empty());
        condition.late().held_up.as_mut().unwrap().0 = before(after);
        condition.checkpointed(Ok(false));
        condition.is_ready().unwrap();
        assert!(condition.warnings()[0].contains("open read transaction"));
        condition.checkpointed(Ok(true));
        assert!(condition.warnings().is_empty() && !condition.is_late());
    }

    #[test]
    fn what_is_still_so_is_so_since_it_began() {
        let began = Instant::now();
        let (since, why) = lasts(Some((began, "old".into())), Some("new".into())).unwrap();
        assert_eq!((since, why.as_str()), (began, "new"));
        assert_eq!(lasts(Some((began, "old".into())), None), None);
    }
}

//! The ledger in one SQLite file: one writer connection, readers beside it, checkpoints on a thread of their own.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use switchboard_core::slice::Save;
use switchboard_core::{Ask, Head, Slice, Timestamp};

use crate::clock::{LedgerClock, Mark};
use crate::{Begun, Clock, Engine, Error, HandPage, Reader, Wall};

mod alarm;
mod by_hand;
mod checkpoint;
mod condition;
pub mod door;
mod errors;
mod found_log;
mod inspect;
mod load;
mod log;
mod migrate;
mod quiet;
mod read;
mod rows;
mod save;
#[cfg(feature = "testing")]
mod spent;
mod text;
mod triggers;
mod wal;
mod who_reads;

use condition::{Condition, LOOK_EVERY};

pub(crate) use errors::{open_error, world};

pub use log::verify_log;
pub use migrate::VERSION as SCHEMA_VERSION;
pub(crate) use migrate::verify as verify_steps;

pub struct SqliteEngine {
    db: Connection,
    condition: Arc<Condition>,
    /// When it was last tried to move the log that was found; `None` once it is in the file.
    unmoved: Option<Instant>,
    clock: LedgerClock,
    /// SQLite's own count of foreign commits, as of the last batch; `None` before the first and after an error.
    data_version: Option<i64>,
    /// There are notes of hand writes that no batch has taken in yet.
    by_hand: bool,
    quiet: quiet::Quiet,
    /// Of a batch that began with such notes.
    before: Option<by_hand::Before>,
    last_at: Timestamp,
    pruned: save::Pruned,
    /// Raised by whoever finds damage, here or beside.
    alarm: alarm::Alarm,
    beside: inspect::Beside,
    checkpointer: checkpoint::Checkpointer,
    door: door::Door,
}

/// How long a batch waits for a foreign writer before its callers are told to come back.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// How soon the lock is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(1);
const STATEMENTS_CACHED: usize = 128;

/// Of a connection that does not wait for locks.
type NoWait = fn(i32) -> bool;

fn prepare(db: &Connection, path: &Path) -> Result<(), Error> {
    let mode: String = db
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(open_error)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(Error::Open(format!(
            "{} does not support write-ahead logging (mode {mode:?}); put the file on a local disk, not on a network mount",
            path.display()
        )));
    }
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;
         PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF;",
    )
    .map_err(open_error)?;
    // What fires a trigger was not written by the hub.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .map_err(open_error)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    keep_plans(db)
}

/// A statement keeps its plan, whatever is bound to it. Without this SQLite prepares one that could use a partial index
/// anew for every value, which costs several times the query.
fn keep_plans(db: &Connection) -> Result<(), Error> {
    let kept = db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
    kept.map(drop).map_err(open_error)
}

/// Asks often: SQLite's own pauses grow, and direct clients that write without one would keep the hub from its turn.
fn wait_for_lock() -> impl FnMut(i32) -> bool {
    let mut since = Instant::now();
    move |asked| {
        if asked == 0 {
            since = Instant::now();
        }
        std::thread::sleep(ASK_AGAIN_AFTER);
        since.elapsed() < LOCK_WAIT
    }
}

impl SqliteEngine {
    /// Opens a ledger, making the file or bringing its schema up to date.
    pub fn open(path: &Path, clock: Box<dyn Clock>) -> Result<SqliteEngine, Error> {
        let beside = inspect::before_serving(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(path, flags).map_err(open_error)?;
        db.busy_handler(Some(wait_for_lock())).map_err(open_error)?;
        prepare(&db, path)?;
        crate::moved::refuse_file(&db, path)?;
        let condition = Arc::new(Condition::of(&db, path)?);
        let is_log_found = found_log::is_found(condition.log_path());
        if is_log_found {
            found_log::make_durable(&db, condition.log_path())?;
        }
        let alarm = alarm::Alarm::default();
        let mut engine = SqliteEngine {
            unmoved: None,
            clock: LedgerClock::new(clock),
            data_version: None,
            by_hand: false,
            quiet: quiet::Quiet::default(),
            before: None,
            last_at: Timestamp::ZERO,
            pruned: save::Pruned::default(),
            checkpointer: checkpoint::Checkpointer::start(&condition)?,
            door: door::Door::new(&condition, alarm.clone()),
            alarm,
            beside,
            condition,
            db,
        };
        if is_log_found {
            engine.move_found_log()?;
        } else {
            engine.bring_up_to_date()?;
        }
        // Not before: it reads, and would be in the way of the log that was found.
        engine.beside.start(&engine.alarm)?;
        Ok(engine)
    }

    /// The schema of this build, and served from here on.
    fn bring_up_to_date(&mut self) -> Result<(), Error> {
        migrate::run(&mut self.db)?;
        crate::moved::serve_file(&mut self.db, self.condition.path())
    }

    /// Moves the log that was found into the file, and only then brings the schema up to date.
    fn move_found_log(&mut self) -> Result<(), Error> {
        self.unmoved = Some(Instant::now());
        if !found_log::moved(&self.db)? {
            self.condition.waits_for_log();
            return Ok(());
        }
        self.bring_up_to_date()?;
        self.unmoved = None;
        self.condition.has_log();
        Ok(())
    }

    /// Once a second, without making anybody wait.
    fn move_found_log_again(&mut self) -> Result<(), Error> {
        let tried_at = self.unmoved;
        if tried_at.is_none_or(|at| at.elapsed() < found_log::TRY_AGAIN_AFTER) {
            return Ok(());
        }
        self.condition.is_there()?;
        self.db.busy_handler(None::<NoWait>).map_err(world)?;
        let tried = self.move_found_log();
        let waits = self.db.busy_handler(Some(wait_for_lock())).map_err(world);
        tried.and(waits)
    }

    fn head(&self) -> Result<Head, Error> {
        load::select(&self.db, rows::HEAD, "sb_head")
            .and_then(|mut statement| statement.query_row([], rows::head))
            .map_err(|error| self.alarm.hear(error))
    }

    fn take_head(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        let version = self.version()?;
        if self.data_version != Some(version) || !slice.has_head {
            slice.forget();
            slice.head = self.head()?;
            slice.has_head = true;
            self.pruned = save::Pruned::default();
            self.last_at = slice.head.last_at;
            self.data_version = Some(version);
            self.quiet.clear();
            self.by_hand = by_hand::is_noted(&self.db).map_err(|error| self.alarm.hear(error))?;
        }
        self.before = self.by_hand.then(by_hand::Before::default);
        let head = &mut slice.head;
        head.idempotency_rows = head.idempotency_rows.saturating_sub(self.pruned.answers);
        head.idempotency_bytes = head
            .idempotency_bytes
            .saturating_sub(self.pruned.answer_bytes);
        self.pruned = save::Pruned::default();
        let seen = slice.head.last_at.max(slice.head.served_at);
        let seen = seen.max(self.last_at);
        let db = &self.db;
        let told = self.clock.tell(seen, || mark(db))?;
        self.last_at = told.now;
        Ok(Begun {
            now: told.now,
            wall: told.wall,
            clock_stepped_ms: told.clock_stepped_ms,
            by_hand: self.by_hand,
            rewound: None,
        })
    }
}

impl Engine for SqliteEngine {
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        self.checkpointer.check()?;
        self.alarm.check()?;
        self.move_found_log_again()?;
        self.condition.takes_writes()?;
        let waits = self.door.hub_waits();
        self.db
            .prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut begin| begin.execute([]))
            .map_err(|error| self.alarm.hear(error))?;
        drop(waits);
        self.take_head(slice).inspect_err(|_| self.rollback())
    }

    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error> {
        for ask in asks {
            if let Some(before) = &mut self.before {
                before
                    .put(&self.db, ask, slice)
                    .map_err(|error| self.alarm.hear(error))?;
            }
            load::load(&self.db, ask, slice).map_err(|error| self.alarm.hear(error))?;
            if let Some(before) = &self.before {
                before.correct(ask, slice);
            }
        }
        Ok(())
    }

    fn save(&mut self, save: &Save<'_>) -> Result<(), Error> {
        let mark = self.clock.mark();
        let saved = save::save(&self.db, save, &mark, self.before.is_some());
        let pruned = saved.map_err(|error| self.alarm.hear(error))?;
        if !save.adopted.is_empty() {
            self.by_hand = by_hand::is_noted(&self.db).map_err(|error| self.alarm.hear(error))?;
        }
        self.pruned.answers += pruned.answers;
        self.pruned.answer_bytes += pruned.answer_bytes;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.alarm.check()?;
        self.condition.is_there()?;
        self.db
            .prepare_cached("COMMIT")
            .and_then(|mut commit| commit.execute([]))
            .map_err(|error| self.alarm.hear(error))?;
        self.checkpointer.committed();
        // An answer means that it is in the file that people will find. One that was moved away has it nevertheless.
        self.condition.is_there().map_err(|error| match error {
            Error::Unavailable(why) => Error::InDoubt(why),
            other => other,
        })
    }

    fn rollback(&mut self) {
        // SQLite may have rolled back by itself already; then there is nothing left to undo.
        if !self.db.is_autocommit() {
            let _ = self.db.execute_batch("ROLLBACK");
        }
        self.pruned = save::Pruned::default();
    }

    fn start_clock(&mut self, wall: Wall) -> Result<(), Error> {
        // While the log that was found is not in the file, nobody may rely on what can be read.
        if self.unmoved.is_some() {
            return Ok(());
        }
        let head = self.head()?;
        let seen = head.last_at.max(head.served_at);
        self.clock.start(wall, &mark(&self.db)?, seen)
    }

    fn hand_notes(&mut self, limit: usize, slice: &mut Slice) -> Result<HandPage, Error> {
        by_hand::notes(&self.db, limit, slice).map_err(|error| self.alarm.hear(error))
    }

    fn looks_every(&self) -> Option<Duration> {
        Some(LOOK_EVERY)
    }

    fn look(&mut self) -> Result<bool, Error> {
        // Whoever saw damage beside the writer need not wait for somebody to write: the next batch ends the hub.
        if self.alarm.is_raised() {
            return Ok(true);
        }
        self.condition.look()?;
        self.move_found_log_again()?;
        let version = self.version()?;
        if self.by_hand {
            return Ok(true);
        }
        if self.data_version == Some(version) {
            self.quiet.clear();
            return Ok(false);
        }
        let readers = || self.condition.readers();
        Ok(self.quiet.is_due(version, Instant::now(), readers))
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, Error> {
        let numbers = [
            "SELECT min(state_at) FROM tasks INDEXED BY sb_tasks_retry WHERE status = 'pending_retry'",
            "SELECT min(expires_at) FROM sb_delivery INDEXED BY sb_delivery_due WHERE state = 'queued' AND expires_at IS NOT NULL",
            "SELECT min(look_at) FROM tasks INDEXED BY sb_tasks_watched WHERE look_at IS NOT NULL",
            "SELECT min(seen_at + silent_ms) FROM agents INDEXED BY sb_agents_quiet WHERE presence = 'live'",
            "SELECT min(due_at) FROM sb_record INDEXED BY sb_record_due WHERE due_at IS NOT NULL",
        ];
        let mut due: Vec<Timestamp> = Vec::new();
        for sql in numbers {
            let found: Option<i64> = self.one(sql)?;
            due.extend(found.map(Timestamp));
        }
        let lease: Option<String> = self.one("SELECT min(expires_at) FROM leases")?;
        due.extend(lease.as_deref().and_then(switchboard_core::iso::parse));
        Ok(due.into_iter().min())
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        let alarm = self.alarm.clone();
        Ok(Box::new(read::SqliteReader::open(&self.condition, alarm)?))
    }

    fn door(&self) -> Option<door::Door> {
        Some(self.door.clone())
    }

    fn is_writable(&self) -> bool {
        self.unmoved.is_none()
    }
}

impl SqliteEngine {
    /// SQLite's count of other connections' commits.
    fn version(&self) -> Result<i64, Error> {
        self.one("PRAGMA data_version")
    }

    fn one<T: rusqlite::types::FromSql>(&self, sql: &str) -> Result<T, Error> {
        self.db
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(|error| self.alarm.hear(error))
    }
}

fn mark(db: &Connection) -> Result<Mark, Error> {
    load::select(db, rows::MARK, "sb_head")
        .and_then(|mut statement| statement.query_row([], rows::mark))
        .map_err(world)
}

impl Drop for SqliteEngine {
    /// What was committed is durable either way; this leaves it in one file.
    fn drop(&mut self) {
        self.rollback();
        self.beside.stop();
        self.checkpointer.stop();
        // What lies under its names may be somebody else's by now; what is damaged is not written to.
        if self.alarm.is_raised() || self.condition.look().is_err() {
            leave_as_it_is(&self.db);
            return;
        }
        match found_log::moved(&self.db) {
            Ok(true) => {}
            Ok(false) => {
                tracing::debug!("another program reads the ledger, so its write-ahead log is kept");
            }
            Err(error) => {
                tracing::warn!(%error, "the write-ahead log stays; the next start reads it");
            }
        }
    }
}

/// The lists of a ledger that somebody else may serve; its schema must be this build's.
pub fn read_only(path: &Path) -> Result<Box<dyn Reader>, Error> {
    let db = inspect::open(path).map_err(open_error)?;
    let condition = Arc::new(Condition::of(&db, path)?);
    let alarm = alarm::Alarm::default();
    Ok(Box::new(read::SqliteReader::open(&condition, alarm)?))
}

/// Has a connection end without moving the log into the file, and without removing it.
fn leave_as_it_is(db: &Connection) {
    let kept = db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    if let Err(error) = kept {
        tracing::debug!(%error, "closing the ledger may checkpoint the write-ahead log");
    }
}

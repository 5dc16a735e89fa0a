//! Raw SQL for strangers: guarded connections beside the hub's own, for the public tables and nothing else.
//!
//! Here every bound is set that a statement has to keep: what it may touch ([`guard`]), how long it may run and how
//! much memory it may take ([`watch`]), and who may write when ([`turn`]). Triggers are on, so whatever is written
//! counts as written by hand and is guarded, noted and adopted like that. Streams and batons are the hub's business.

mod functions;
mod guard;
mod public;
mod refused;
mod rows;
mod session;
#[cfg(test)]
mod tests;
mod turn;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::alarm::Alarm;
use super::condition::Condition;
use super::errors::open_error;
use super::triggers;
use crate::Error;
use guard::Guard;
use turn::Turn;
use watch::{Meter, StatementWatch};

pub use refused::Refused;
pub use rows::{Allowance, Column, Described, Query, Rows};
pub use rusqlite::types::Value;
pub use session::{Rank, Session};
pub use turn::Waits;

/// How long a statement may run that only reads.
pub const READ_FOR_MAX: Duration = Duration::from_secs(5);
/// How long one may run that writes, once it has its turn.
pub const WRITE_FOR_MAX: Duration = Duration::from_secs(1);
/// A transaction is rolled back after this, whatever it is doing.
pub const TRANSACTION_FOR_MAX: Duration = Duration::from_secs(5);
/// How long a statement waits for its turn to write.
pub const TURN_WITHIN: Duration = Duration::from_secs(1);
/// The hub waits no longer than this for a transaction from here; then it is rolled back.
pub const HUB_WAITS_MAX: Duration = Duration::from_millis(250);
/// Memory that the process may take on while one statement runs.
pub const MEMORY_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// One text, blob or row.
pub const VALUE_BYTES_MAX: usize = 2 * 1024 * 1024;
pub const SQL_BYTES_MAX: usize = 256 * 1024;
/// Calls of functions that one statement may spell out.
pub const FUNCTIONS_MAX: u32 = 1000;
/// What all of these may read together, once: the more there are, the smaller a value may be.
pub const FUNCTIONS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// One `LIKE` looks at no more than this many bytes, those included that it comes back to.
pub const LIKE_STEPS_MAX: usize = 1024 * 1024;
/// As SQLite has it.
pub const LIKE_PATTERN_BYTES_MAX: usize = 50_000;
/// Values that a statement may be given.
pub const PARAMETERS_MAX: usize = 4096;

/// Where sessions come from. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Door {
    condition: Arc<Condition>,
    turn: Arc<Turn>,
    alarm: Alarm,
}

impl Door {
    pub(super) fn new(condition: &Arc<Condition>, alarm: Alarm) -> Self {
        Door {
            condition: Arc::clone(condition),
            turn: Arc::new(Turn::new()),
            alarm,
        }
    }

    /// A connection of its own for one stranger at a time.
    pub fn open(&self) -> Result<Session, Error> {
        let session = self.connect().map_err(|error| {
            let error = open_error(error);
            if matches!(error, Error::Corrupt(_)) {
                self.alarm.raise(error.clone());
            }
            error
        })?;
        // What was opened by name is the ledger only if that is still there.
        self.condition.look()?;
        Ok(session)
    }

    fn connect(&self) -> rusqlite::Result<Session> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(self.condition.path(), flags)?;
        prepare(&db)?;
        let watch = Arc::new(StatementWatch::new());
        functions::replace_slow_ones(&db, &Meter::new(&watch, &self.turn))?;
        let is_steward = Arc::new(AtomicBool::new(false));
        tell_stewards(&db, &is_steward)?;
        let guard = Arc::new(Guard::new(&db)?);
        arm(&mut db, &self.turn, &guard, &watch)?;
        let (condition, turn) = (Arc::clone(&self.condition), Arc::clone(&self.turn));
        Ok(Session::new(
            db,
            condition,
            turn,
            self.alarm.clone(),
            guard,
            watch,
            is_steward,
        ))
    }

    /// Stops what runs and refuses what comes. The hub is about to put the ledger away.
    pub fn close(&self) {
        self.turn.close();
    }

    /// For how long the hub's own writer has been kept from writing.
    pub fn hub_waited(&self) -> Option<Duration> {
        self.turn.hub_waited()
    }

    /// The hub wants to write; nobody here begins to until this is dropped.
    pub(super) fn hub_waits(&self) -> Waits<'_> {
        self.turn.hub_waits()
    }
}

/// Settings, while nobody is in the way yet.
fn prepare(db: &Connection) -> rusqlite::Result<()> {
    // Large sorts go where they are bounded, or else to where there is more room.
    let sorts = if watch::memory_used().is_some() {
        "MEMORY"
    } else {
        "FILE"
    };
    db.pragma_update(None, "temp_store", sorts)?;
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -2048;
         PRAGMA foreign_keys = OFF; PRAGMA mmap_size = 0;",
    )?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    let bytes = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, bytes(VALUE_BYTES_MAX)),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, bytes(SQL_BYTES_MAX)),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, bytes(PARAMETERS_MAX)),
        (Limit::SQLITE_LIMIT_COLUMN, 128),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_PARSER_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
        (Limit::SQLITE_LIMIT_VDBE_OP, 25_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 16),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        db.set_limit(limit, most)?;
    }
    Ok(())
}

/// What only a steward may is refused, unless the session serves one.
fn tell_stewards(db: &Connection, is_steward: &Arc<AtomicBool>) -> rusqlite::Result<()> {
    let is_steward = Arc::clone(is_steward);
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    db.create_scalar_function(triggers::IS_STEWARD, 0, flags, move |_| {
        Ok(is_steward.load(Ordering::Relaxed))
    })?;
    triggers::install_stewards(db)
}

/// How often a running statement is looked at, in instructions.
const LOOK_EVERY: i32 = 50;
/// How long to sleep before asking again for a lock that another process holds.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(1);

fn arm(
    db: &mut Connection,
    turn: &Arc<Turn>,
    guard: &Arc<Guard>,
    watch: &Arc<StatementWatch>,
) -> rusqlite::Result<()> {
    let (asked, theirs) = (Arc::clone(turn), Arc::clone(watch));
    db.progress_handler(LOOK_EVERY, Some(move || theirs.must_stop(&asked)))?;
    let waiting = Arc::clone(turn);
    db.busy_handler(Some(move |asked: i32| {
        std::thread::sleep(ASK_AGAIN_AFTER);
        !waiting.is_closed() && ASK_AGAIN_AFTER.saturating_mul(asked.unsigned_abs()) < TURN_WITHIN
    }))?;
    let guard = Arc::clone(guard);
    db.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
        guard.authorize(&context)
    }))
}

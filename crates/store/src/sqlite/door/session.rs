//! One stranger's connection: statements in, rows or a refusal out, and at most one transaction open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::limits::Limit;
use rusqlite::{Batch, Connection, Statement, TransactionState};

use super::guard::Guard;
use super::refused::{Refused, stopped_because};
use super::rows::{Allowance, Described, Failure, Query, Rows, bind, collect, columns};
use super::turn::Turn;
use super::watch::{StatementWatch, Why};
use super::{
    FUNCTIONS_BYTES_MAX, HUB_WAITS_MAX, READ_FOR_MAX, TRANSACTION_FOR_MAX, TURN_WITHIN,
    VALUE_BYTES_MAX, WRITE_FOR_MAX,
};
use crate::Error;
use crate::sqlite::alarm::Alarm;
use crate::sqlite::condition::Condition;

#[derive(Debug)]
pub struct Session {
    db: Connection,
    state: State,
}

/// Whom a session serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// May do what agents may, as any of them.
    Agent,
    /// May also decide what only a person does.
    Steward,
}

#[derive(Debug)]
struct State {
    condition: Arc<Condition>,
    turn: Arc<Turn>,
    alarm: Alarm,
    guard: Arc<Guard>,
    watch: Arc<StatementWatch>,
    /// Read by the triggers that refuse what only a steward may.
    is_steward: Arc<AtomicBool>,
    /// Calls of functions in the statement that was prepared last.
    functions: u32,
    /// Has its turn to write.
    has_turn: bool,
    /// The transaction began as one that only reads.
    only_reads: bool,
    /// When the open transaction began.
    since: Option<Instant>,
    /// Why the transaction is gone. Until its end is asked for, nothing is done: it would be done outside of it.
    lost: Option<Refused>,
}

impl Session {
    pub(super) fn new(
        db: Connection,
        condition: Arc<Condition>,
        turn: Arc<Turn>,
        alarm: Alarm,
        guard: Arc<Guard>,
        watch: Arc<StatementWatch>,
        is_steward: Arc<AtomicBool>,
    ) -> Self {
        let state = State {
            condition,
            turn,
            alarm,
            guard,
            watch,
            is_steward,
            functions: 0,
            has_turn: false,
            only_reads: false,
            since: None,
            lost: None,
        };
        Session { db, state }
    }

    /// From now on it serves one of this rank.
    pub fn serve(&mut self, rank: Rank) {
        let is_steward = rank == Rank::Steward;
        self.state.is_steward.store(is_steward, Ordering::Relaxed);
    }

    /// Does one statement.
    pub fn execute(&mut self, query: &Query<'_>, allowance: &Allowance) -> Result<Rows, Refused> {
        if let Some(ended) = self.ends_lost(query.sql) {
            return ended;
        }
        self.state.guard.admits(query.sql)?;
        let mut statements = Batch::new(&self.db, query.sql);
        let first = self.state.prepare(&mut statements, allowance.until)?;
        let Some(first) = first else {
            return Ok(Rows::default());
        };
        if self
            .state
            .prepare(&mut statements, allowance.until)?
            .is_some()
        {
            return Err(Refused::new(
                "SQLITE_ERROR",
                "only one statement is allowed here; send several as a batch, or with executeMultiple",
            ));
        }
        self.state.run(&self.db, first, query, allowance)
    }

    /// Does every statement of a text and drops their rows. Ends at the first that is refused.
    pub fn sequence(&mut self, sql: &str, until: Instant) -> Result<(), Refused> {
        if let Some(ended) = self.ends_lost(sql) {
            return ended.map(drop);
        }
        self.state.guard.admits(sql)?;
        let allowance = Allowance {
            rows: 0,
            bytes: 0,
            until,
        };
        let mut statements = Batch::new(&self.db, sql);
        while let Some(statement) = self.state.prepare(&mut statements, until)? {
            let spelled = statement.expanded_sql().unwrap_or_default();
            let query = Query {
                sql: &spelled,
                ..Query::default()
            };
            self.state.run(&self.db, statement, &query, &allowance)?;
        }
        Ok(())
    }

    /// Looks at a statement without doing it.
    pub fn describe(&mut self, sql: &str, until: Instant) -> Result<Described, Refused> {
        self.state.guard.admits(sql)?;
        let mut statements = Batch::new(&self.db, sql);
        let statement = self.state.prepare(&mut statements, until)?;
        let statement = statement
            .ok_or_else(|| Refused::new("SQLITE_ERROR", "there is no statement in this text"))?;
        let parameters = 1..=statement.parameter_count();
        Ok(Described {
            parameters: parameters
                .map(|index| statement.parameter_name(index).map(str::to_owned))
                .collect(),
            columns: columns(&statement),
            is_explain: statement.is_explain() != 0,
            is_readonly: statement.readonly(),
        })
    }

    pub fn is_autocommit(&self) -> bool {
        self.db.is_autocommit() && self.state.lost.is_none()
    }

    /// Keeps others from writing.
    pub fn has_turn(&self) -> bool {
        self.state.has_turn
    }

    /// When the open transaction began.
    pub fn since(&self) -> Option<Instant> {
        self.state.since
    }

    /// Rolls back what is open and forgets it, so that the next stranger finds nothing of it.
    pub fn reset(&mut self) {
        self.serve(Rank::Agent);
        self.state.roll_back(&self.db);
        self.state.lost = None;
    }

    /// Whoever lost a transaction has to end it before anything else is done.
    fn ends_lost(&mut self, sql: &str) -> Option<Result<Rows, Refused>> {
        let lost = self.state.lost.clone()?;
        if !is_word(sql, "ROLLBACK") {
            return Some(Err(lost));
        }
        self.state.lost = None;
        Some(Ok(Rows::default()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reset();
    }
}

impl State {
    fn prepare<'db>(
        &mut self,
        statements: &mut Batch<'db, '_>,
        until: Instant,
    ) -> Result<Option<Statement<'db>>, Refused> {
        self.guard.begin();
        let until = self.until(READ_FOR_MAX, until);
        self.watch.begin(until, self.has_turn);
        let prepared = statements.next();
        self.watch.end();
        if let Ok(Some(_)) = &prepared {
            self.functions = self.guard.functions();
        }
        prepared.map_err(|error| Failure::Sqlite(error).explain(self, self.watch.why()))
    }

    fn run(
        &mut self,
        db: &Connection,
        statement: Statement<'_>,
        query: &Query<'_>,
        allowance: &Allowance,
    ) -> Result<Rows, Refused> {
        let in_transaction = !db.is_autocommit();
        let until = self.until(READ_FOR_MAX, allowance.until);
        self.watch.begin(until, self.has_turn);
        set_value_max(db, value_bytes_max(self.functions, query.sql));
        let ran = self.attempt(db, statement, query, allowance);
        set_value_max(db, VALUE_BYTES_MAX);
        let stopped = self.watch.why();
        self.watch.end();
        let ran = ran.map_err(|failure| failure.explain(self, stopped));
        self.settle(db, in_transaction, stopped, &ran, query.sql);
        ran
    }

    fn attempt(
        &mut self,
        db: &Connection,
        mut statement: Statement<'_>,
        query: &Query<'_>,
        allowance: &Allowance,
    ) -> Result<Rows, Failure> {
        self.condition.is_there().map_err(Refused::unavailable)?;
        if !statement.readonly() {
            self.may_write()?;
            self.watch
                .shorten(self.until(WRITE_FOR_MAX, allowance.until));
        }
        bind(&mut statement, query)?;
        // What is written before its rows are read stays written, also if there are too many of them. Not here.
        let returns = !statement.readonly() && statement.column_count() > 0 && db.is_autocommit();
        if returns {
            db.execute_batch("BEGIN IMMEDIATE")?;
        }
        let before = db.total_changes();
        let collected = collect(&mut statement, query.want_rows, allowance);
        drop(statement);
        if returns {
            let ended = if collected.is_ok() {
                "COMMIT"
            } else {
                "ROLLBACK"
            };
            db.execute_batch(ended)
                .inspect_err(|_| self.roll_back(db))?;
        }
        let mut rows = collected?;
        if db.total_changes() != before {
            rows.affected = db.changes();
        }
        rows.last_insert_rowid = db.last_insert_rowid();
        // What was written is in the file that people will find.
        self.condition.is_there().map_err(Refused::unavailable)?;
        Ok(rows)
    }

    /// Lines up for the one write lock.
    fn may_write(&mut self) -> Result<(), Refused> {
        if self.only_reads {
            return Err(Refused::new(
                "SQLITE_READONLY",
                "this transaction is read-only; start one with mode write",
            ));
        }
        self.condition
            .takes_writes()
            .map_err(Refused::unavailable)?;
        if !self.has_turn {
            self.has_turn = self.turn.take(TURN_WITHIN);
        }
        if self.has_turn {
            Ok(())
        } else {
            Err(Refused::busy())
        }
    }

    /// After a statement: gives back the turn if nothing is being written, and notices a transaction that is gone.
    fn settle(
        &mut self,
        db: &Connection,
        was_open: bool,
        stopped: Option<Why>,
        ran: &Result<Rows, Refused>,
        sql: &str,
    ) {
        if !was_open && !db.is_autocommit() {
            self.since = Some(Instant::now());
            self.only_reads = is_readonly_begin(sql);
        }
        let over = stopped.or_else(|| self.overstays());
        if let Some(why) = over.filter(|why| !db.is_autocommit() && self.must_end(*why)) {
            self.roll_back(db);
            self.lost = Some(stopped_because(why));
        } else if let (true, true, Err(refused)) = (was_open, db.is_autocommit(), ran) {
            let message = format!("the transaction was rolled back: {}", refused.message);
            self.lost = Some(Refused::new(refused.code, message));
        }
        if db.is_autocommit() {
            self.since = None;
            self.only_reads = false;
        }
        if self.has_turn
            && !matches!(
                db.transaction_state(Some("main")),
                Ok(TransactionState::Write)
            )
        {
            self.has_turn = false;
            self.turn.give_back();
        }
    }

    /// Whether a statement that was stopped takes the transaction around it with it.
    fn must_end(&self, why: Why) -> bool {
        match why {
            Why::HubWaits | Why::Closed => true,
            Why::Time => self.overstays() == Some(Why::Time),
            Why::Memory => false,
        }
    }

    fn overstays(&self) -> Option<Why> {
        let since = self.since?;
        if since.elapsed() >= TRANSACTION_FOR_MAX {
            return Some(Why::Time);
        }
        let waited = self.turn.hub_waited();
        (self.has_turn && waited.is_some_and(|waited| waited > HUB_WAITS_MAX))
            .then_some(Why::HubWaits)
    }

    fn roll_back(&mut self, db: &Connection) {
        if !db.is_autocommit()
            && let Err(error) = db.execute_batch("ROLLBACK")
        {
            tracing::debug!(%error, "a transaction could not be rolled back; its connection ends it");
        }
        self.since = None;
        self.only_reads = false;
        if self.has_turn {
            self.has_turn = false;
            self.turn.give_back();
        }
    }

    fn until(&self, longest: Duration, until: Instant) -> Instant {
        let until = until.min(Instant::now() + longest);
        self.since
            .map_or(until, |since| until.min(since + TRANSACTION_FOR_MAX))
    }
}

impl Failure {
    fn explain(self, state: &State, stopped: Option<Why>) -> Refused {
        let error = match self {
            Failure::Refused(refused) => return refused,
            Failure::Sqlite(error) => error,
        };
        let refused = Refused::of(&error, state.guard.forbidden(), stopped);
        // What the hub writes after a failed write rests on it in the log. So it is the hub's trouble as well.
        if let error @ Error::Fatal(_) = state.alarm.hear(error)
            && state.has_turn
        {
            state.alarm.raise(error);
        }
        refused
    }
}

/// Instructions between two loops are not looked at while they run. So many calls must be of small values.
fn value_bytes_max(functions: u32, sql: &str) -> usize {
    let joins = memmem::find_iter(sql.as_bytes(), "||").count();
    let calls = usize::try_from(functions).unwrap_or(usize::MAX) + joins;
    VALUE_BYTES_MAX.min(FUNCTIONS_BYTES_MAX / calls.max(1))
}

fn set_value_max(db: &Connection, bytes: usize) {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, bytes)
        .expect("SQLite knows this limit");
}

/// Whether a text is this one word.
fn is_word(sql: &str, word: &str) -> bool {
    let sql = sql.trim().trim_end_matches(';').trim_end();
    sql.eq_ignore_ascii_case(word)
}

/// How clients begin a transaction that only reads. To SQLite it is a transaction named so.
fn is_readonly_begin(sql: &str) -> bool {
    let sql = sql.trim().trim_end_matches(';');
    let words = sql.split_ascii_whitespace();
    words
        .map(str::to_ascii_uppercase)
        .eq(["BEGIN", "TRANSACTION", "READONLY"])
}

//! The ledger in PostgreSQL, shared by any number of coordinators.
//!
//! A batch begins by locking the head's one row, so there is one writer at a time among all of them. What is saved
//! waits until the next load or the commit and travels with it: a batch costs a trip to begin, one for each round of
//! loads, and one for everything it writes together with its commit.

use std::future::Future;
use std::time::{Duration, Instant};

use switchboard_core::slice::Save;
use switchboard_core::{Ask, Head, Slice, Timestamp, limits};
use tokio::runtime::Runtime;
use tokio::time::error::Elapsed;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::clock::{Mark, Moment};
use crate::rows::{self as stored, Columns};
use crate::table::{BESIDE, HEADS, READ};
use crate::{Begun, Clock, Engine, Error, HandPage, Reader, Tail, Wall};

mod address;
mod by_hand;
mod chain;
mod commit;
pub(crate) mod errors;
mod filter;
mod guards;
mod line;
mod load;
mod migrate;
mod read;
pub(crate) mod rows;
mod save;
pub mod secret;
pub(crate) mod session;
mod tail;
mod time;
mod tls;
mod told;

pub use address::Address;
pub use chain::verify_log;
use errors::{is_last_word, unreachable, world};
use line::Reached;
pub use migrate::{SCHEMA_VERSION, Steps};
use save::Signature;
use session::{Query, Request, Session};
use time::{ClockReading, LedgerTime};
use told::Told;

pub struct PostgresEngine {
    address: Address,
    runtime: Runtime,
    session: Option<Session>,
    /// Readers try again at once when the writer is connected.
    reached: Reached,
    /// Of a server that cannot be reached: when it may be tried again, and how long to wait after that.
    retry: Option<(Instant, Duration)>,
    steps: Steps,
    time: LedgerTime,
    me: i64,
    /// The last batch of this process that is known to be committed.
    committed: i64,
    /// The batch that is open, or was the last one. No number comes twice: what became of a batch may be unknown.
    generation: i64,
    /// Saved, but not sent yet.
    unsent: Vec<Query>,
    /// The number of the first event that the open batch saved.
    first_event: Option<u64>,
    /// The number of the last one that the head it saved names.
    last_event: u64,
    told: Told,
    /// Commits wait for standbys.
    has_standbys: bool,
    /// Who wrote the head that was taken last, and in which batch.
    found: (i64, i64),
    /// The same of a head after which a commit has waited to its end: all that led to it is safe.
    vouched: Option<(i64, i64)>,
    /// When the head was asked for.
    asked_at: Instant,
    in_batch: bool,
    /// Somebody else wrote between this process's last two batches.
    is_disturbed: bool,
    hand: by_hand::Hand,
    /// The hash of the log's last row, empty if that has none; `None` if somebody else may have written one.
    log_hash: Option<Vec<u8>>,
}

type InTime<T> = Result<Result<T, tokio_postgres::Error>, Elapsed>;

async fn in_time<T>(answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> InTime<T> {
    tokio::time::timeout(ANSWER_WITHIN, answer).await
}

/// How long callers wait for a database that answers nothing, before they are told to come back.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
const RECONNECT_FIRST: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(2);

impl PostgresEngine {
    /// Opens a ledger, making its tables or bringing its schema up to date.
    pub fn open(address: Address) -> Result<PostgresEngine, Error> {
        Self::open_with(address, None, Steps::all())
    }

    /// The same with a clock of one's own, or as a build that knows fewer steps of the schema.
    pub fn open_with(
        address: Address,
        clock: Option<Box<dyn Clock>>,
        steps: Steps,
    ) -> Result<PostgresEngine, Error> {
        let runtime = runtime()?;
        let mut session = runtime.block_on(Session::open(&address, None))?;
        let address = address.settled(session.is_pooled());
        runtime.block_on(crate::copy::refuse_unfinished_database(&session, &address))?;
        if let Some(mark) = runtime.block_on(crate::moved::of_database(&session))? {
            return Err(Error::Moved(mark.sentence(&address.to_string())));
        }
        runtime.block_on(migrate::run(&mut session, steps))?;
        runtime.block_on(chain::verify(&session, Some(crate::chain::ROWS_AT_START)))?;
        warn_of(&runtime, &session, &address)?;
        let mut me = [0; 8];
        aws_lc_rs::rand::fill(&mut me)
            .map_err(|_| Error::Open("the system provides no random numbers".to_owned()))?;
        Ok(PostgresEngine {
            address,
            runtime,
            session: Some(session),
            reached: Reached::default(),
            retry: None,
            steps,
            me: i64::from_be_bytes(me),
            time: LedgerTime::new(clock),
            committed: 0,
            generation: 0,
            unsent: Vec::new(),
            first_event: None,
            last_event: 0,
            told: Told::default(),
            has_standbys: false,
            found: (0, 0),
            vouched: None,
            asked_at: Instant::now(),
            in_batch: false,
            is_disturbed: false,
            hand: by_hand::Hand::default(),
            log_hash: None,
        })
    }

    /// Whether a pooler stands between us and the server.
    pub fn is_pooled(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_pooled)
    }

    /// A session that was not seen to be broken, or a new one.
    fn connect(&mut self) -> Result<(), Error> {
        if self
            .session
            .as_ref()
            .is_some_and(|session| !session.is_closed())
        {
            return Ok(());
        }
        self.session = None;
        let wait = match self.retry {
            Some((at, _)) if Instant::now() < at => {
                return Err(unreachable());
            }
            Some((_, wait)) => (wait * 2).min(RECONNECT_MAX),
            None => RECONNECT_FIRST,
        };
        match self.runtime.block_on(Session::open(&self.address, None)) {
            Ok(session) => {
                if self.retry.take().is_some() {
                    tracing::info!("{} is back", self.address);
                }
                self.session = Some(session);
                self.reached.again();
                self.told.connected();
                Ok(())
            }
            Err(error) => {
                if self.retry.is_none() {
                    tracing::warn!(%error, "the connection to the database was lost");
                }
                self.retry = Some((Instant::now() + wait, wait));
                Err(unreachable())
            }
        }
    }

    /// Sends `first`, what was saved, `queries` and `last`, and returns the rows of `queries`.
    fn send(
        &mut self,
        first: Option<String>,
        queries: Vec<Query>,
        last: Option<&'static str>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        let saved = self.unsent.len();
        let request = self.request(first, queries, last)?;
        let answer = self.runtime.block_on(in_time(request));
        Ok(self.heard(answer)?.split_off(saved))
    }

    fn request(
        &mut self,
        first: Option<String>,
        queries: Vec<Query>,
        last: Option<&'static str>,
    ) -> Result<Request, Error> {
        let Some(session) = self.session.as_mut() else {
            return Err(Error::Unavailable("the connection is gone".to_owned()));
        };
        let mut all = std::mem::take(&mut self.unsent);
        all.extend(queries);
        let made = in_time(session.request(first, all, last));
        let made = self.runtime.block_on(made);
        self.heard(made)
    }

    /// Notes what an answer says about the connection.
    fn heard<T>(&mut self, answer: InTime<T>) -> Result<T, Error> {
        let error = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => {
                self.session = None;
                return Err(Error::Unavailable(
                    "the database did not answer in time".to_owned(),
                ));
            }
        };
        if is_strangers_statement(&error) {
            tracing::warn!("{} is behind a connection pooler", self.address);
            self.address = self.address.clone().settled(true);
            self.session = None;
        }
        // A standby may have been the primary a moment ago: the address may lead to the new one.
        let is_standby = error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION);
        let is_closed = self.session.as_ref().is_some_and(Session::is_closed);
        if is_standby || is_last_word(&error) || error.is_closed() || is_closed {
            self.session = None;
        }
        Err(world(error))
    }

    fn take_head(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        // Before the head, which must not have less.
        let told = self.told.upto();
        let rows = self.ask(Self::ask_head)?;
        let taken = Taken::read(&rows)?;
        if taken.schema_floor >= crate::moved::FLOOR {
            return Err(Error::Moved(format!(
                "{} was moved elsewhere while this hub served it; 'switchboard up' shows where",
                self.address
            )));
        }
        if taken.schema_floor > self.steps.known() {
            return Err(Error::NewerSchema {
                found: taken.schema_floor,
                known: self.steps.known(),
            });
        }
        let rewound = self.lost(&taken.head, told)?;
        self.is_disturbed = !self.is_undisturbed(&taken) || rewound.is_some();
        if self.is_disturbed || !slice.has_head {
            slice.forget();
        }
        if taken.log_hash.is_some() || !self.wrote_last(&taken) {
            self.log_hash.clone_from(&taken.log_hash);
        }
        let moment = self.tell_time(&taken);
        self.took(&taken);
        slice.head = taken.head;
        slice.has_head = true;
        Ok(Begun {
            now: moment.now,
            wall: moment.wall,
            clock_stepped_ms: moment.clock_stepped_ms,
            by_hand: taken.by_hand,
            rewound,
        })
    }

    /// Asks, and if the connection turns out to have ended since the last batch, once more on another. Only for what
    /// writes nothing.
    fn ask<T>(&mut self, question: impl Fn(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.connect()?;
        let asked_at = Instant::now();
        let answer = question(self);
        if answer.is_ok() || self.session.is_some() || asked_at.elapsed() > RECONNECT_MAX {
            return answer;
        }
        self.connect()?;
        question(self)
    }

    fn ask_head(&mut self) -> Result<Vec<Vec<Row>>, Error> {
        let begin = self.session.as_ref().map(Session::begin);
        self.asked_at = Instant::now();
        let asks_hash = self.log_hash.is_none() || self.is_disturbed;
        self.send(begin, head_queries(asks_hash), None)
    }

    fn took(&mut self, taken: &Taken) {
        self.found = (taken.writer, taken.generation);
        self.has_standbys = taken.has_standbys;
        self.hand.begins(taken);
    }

    /// Whether nobody wrote after this process's last batch, another coordinator or a hand.
    fn is_undisturbed(&self, taken: &Taken) -> bool {
        self.wrote_last(taken) && !taken.by_hand
    }

    /// Whether the last batch of all is this process's.
    fn wrote_last(&self, taken: &Taken) -> bool {
        (taken.writer, taken.generation) == (self.me, self.committed)
    }

    fn tell_time(&mut self, taken: &Taken) -> Moment {
        self.time.tell(&ClockReading {
            shown: taken.shown,
            asked_at: self.asked_at,
            mark: &taken.mark,
            is_foreign: taken.writer != self.me,
            seen: taken.seen(),
        })
    }
}

/// The lists of a ledger that others may serve; its schema must be this build's.
pub fn read_only(address: Address) -> Result<Box<dyn Reader>, Error> {
    Ok(Box::new(read::PostgresReader::open(
        address,
        Reached::default(),
    )?))
}

/// Takes its turn, says that it is a hub who writes, then locks the head and reads it.
///
/// The turn comes first, because who waits for a row that is rewritten time and again may wait for ever, while such a
/// lock is handed to whoever has waited longest. The time is told outside of what waits, hence after it.
fn head_queries(asks_hash: bool) -> Vec<Query> {
    let turn = "SELECT pg_advisory_xact_lock('sb_head'::regclass::oid::bigint), set_config('switchboard.hub', 'on', true)";
    let head = format!(
        "SELECT h.*, (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
           (EXISTS (SELECT 1 FROM sb_sql_agent))::int::bigint,
           (current_setting('synchronous_standby_names') <> '')::int::bigint, {} FROM (
           SELECT {}, {}, writer, generation, schema_floor, by_hand FROM sb_head WHERE id = 1 FOR UPDATE) h",
        match asks_hash {
            true => LAST_HASH,
            false => "NULL::bytea",
        },
        stored::HEAD,
        stored::MARK
    );
    vec![Query::new(turn), Query::new(head)]
}

/// Empty if there is no row, or one of a build that made no hashes.
const LAST_HASH: &str =
    "coalesce((SELECT hash FROM sb_log ORDER BY first DESC LIMIT 1), ''::bytea)";

/// The head as it was when it was locked.
struct Taken {
    head: Head,
    mark: Mark,
    writer: i64,
    generation: i64,
    schema_floor: u32,
    /// There are notes of hand writes.
    by_hand: bool,
    /// What the database's clock showed.
    shown: Timestamp,
    /// Some agents read messages by SQL.
    has_sql_agents: bool,
    has_standbys: bool,
    /// The hash of the log's last row, if it was asked for.
    log_hash: Option<Vec<u8>>,
}

impl Taken {
    fn read(rows: &[Vec<Row>]) -> Result<Taken, Error> {
        let row = rows
            .last()
            .and_then(|rows| rows.first())
            .ok_or_else(|| Error::Corrupt("the ledger has no head".to_owned()))?;
        let int = |at: usize| -> Result<i64, Error> {
            Ok(row.int(HEAD_COLUMNS + MARK_COLUMNS + at)?.unwrap_or(0))
        };
        Ok(Taken {
            head: stored::head(row)?,
            mark: stored::mark_from(row, HEAD_COLUMNS)?,
            writer: int(0)?,
            generation: int(1)?,
            schema_floor: u32::try_from(int(2)?).unwrap_or(u32::MAX),
            by_hand: int(3)? != 0,
            shown: Timestamp(int(4)?),
            has_sql_agents: int(5)? != 0,
            has_standbys: int(6)? != 0,
            log_hash: row
                .bytes(HEAD_COLUMNS + MARK_COLUMNS + 7)?
                .map(<[u8]>::to_vec),
        })
    }

    /// The last instant of the ledger.
    fn seen(&self) -> Timestamp {
        self.head.last_at.max(self.head.served_at)
    }
}

const HEAD_COLUMNS: usize = HEADS.count(READ);
const MARK_COLUMNS: usize = HEADS.count(BESIDE);

impl Engine for PostgresEngine {
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        self.unsent.clear();
        (self.first_event, self.last_event) = (None, 0);
        self.in_batch = true;
        self.generation += 1;
        self.take_head(slice).inspect_err(|_| self.rollback())
    }

    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error> {
        // Where coordinators take turns, what is read serves one batch.
        let queue_page = match self.is_disturbed {
            true => limits::QUEUE_LOW,
            false => limits::QUEUE_PER_LOAD,
        };
        let before = self.hand.rows_before(asks);
        let (queries, takers): (Vec<_>, Vec<_>) = before
            .into_iter()
            .chain(load::loads(asks, queue_page))
            .chain(self.hand.ranges_before(asks))
            .map(|load| (load.query, load.take))
            .unzip();
        let answers = self.send(None, queries, None)?;
        for (rows, take) in answers.into_iter().zip(takers) {
            take(rows, slice)?;
        }
        Ok(())
    }

    fn save(&mut self, save: &Save<'_>) -> Result<(), Error> {
        let by = Signature {
            writer: self.me,
            generation: self.generation,
            mark: self.time.mark(),
        };
        let queries = save::queries(save, &by, &mut self.hand, &mut self.log_hash)?;
        self.unsent.extend(queries);
        if let Some(head) = save.head {
            self.last_event = head.seq;
            self.first_event = save.log.first().map(|logged| logged.seq);
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let batch = self.batch();
        let answer = self.send(None, Vec::new(), Some("COMMIT"));
        self.in_batch = false;
        self.conclude(batch, answer.map(drop))
    }

    fn end_unwritten(&mut self) -> Result<(), Error> {
        self.vouch()
    }

    fn rollback(&mut self) {
        self.unsent.clear();
        if self.first_event.is_some() {
            self.log_hash = None;
        }
        if !std::mem::take(&mut self.in_batch) || self.session.is_none() {
            return;
        }
        if self.send(None, Vec::new(), Some("ROLLBACK")).is_err() {
            self.session = None;
        }
    }

    fn start_clock(&mut self, wall: Wall) -> Result<(), Error> {
        self.connect()?;
        let begin = self.session.as_ref().map(Session::begin);
        let rows = self.send(begin, head_queries(false), None)?;
        self.send(None, Vec::new(), Some("ROLLBACK"))?;
        let taken = Taken::read(&rows)?;
        let seen = taken.seen();
        self.time.start(wall, taken.shown, &taken.mark, seen)
    }

    fn hand_notes(&mut self, limit: usize, slice: &mut Slice) -> Result<HandPage, Error> {
        let oldest = self.hand.oldest(limit);
        let rows = self.send(None, vec![oldest], None)?;
        let rows = rows.first().map_or(&[][..], Vec::as_slice);
        self.hand.read(rows, limit, slice)
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, Error> {
        const DUE: &str =
            "SELECT (SELECT min(state_at) FROM tasks WHERE status = 'pending_retry'),
               (SELECT min(expires_at) FROM sb_delivery WHERE state = 'queued' AND expires_at IS NOT NULL),
               (SELECT min(seen_at + silent_ms) FROM agents WHERE presence = 'live' AND rev > 0),
               (SELECT min(expires_at) FROM leases),
               (SELECT min(look_at) FROM tasks WHERE look_at IS NOT NULL),
               (SELECT min(due_at) FROM sb_record WHERE due_at IS NOT NULL)";
        let rows = self.ask(|engine| engine.send(None, vec![Query::new(DUE)], None))?;
        let Some(row) = rows.first().and_then(|rows| rows.first()) else {
            return Ok(None);
        };
        let lease = row.text(3)?;
        let lease = lease.and_then(|text| switchboard_core::iso::parse(&text));
        let due = [
            row.int(0)?,
            row.int(1)?,
            row.int(2)?,
            row.int(4)?,
            row.int(5)?,
        ];
        let due = due.into_iter().flatten().map(Timestamp);
        Ok(due.chain(lease).min())
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        let reader = read::PostgresReader::open(self.address.clone(), self.reached.clone())?;
        Ok(Box::new(reader))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn tail(&self) -> Result<Option<Box<dyn Tail>>, Error> {
        let tail = tail::PostgresTail::open(self.address.clone(), self.me, self.told.seen())?;
        Ok(Some(Box::new(tail)))
    }

    fn shared_key(&mut self, fresh: &[u8; 32]) -> Result<Option<[u8; 32]>, Error> {
        self.connect()?;
        let keep =
            Query::new("INSERT INTO sb_secret(id, key) VALUES (1, $1) ON CONFLICT DO NOTHING");
        let queries = vec![keep.bytes(fresh), Query::new(secret::KEY)];
        let rows = self.send(None, queries, None)?;
        let kept = rows.last().and_then(|rows| rows.first());
        kept.map(secret::key).transpose()
    }
}

/// A statement that was named on one connection and is looked for on another.
fn is_strangers_statement(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::INVALID_SQL_STATEMENT_NAME || *code == SqlState::DUPLICATE_PSTATEMENT
    })
}

/// The writer's own thread moves the connection's bytes, whenever it waits for something.
fn runtime() -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Open(format!("no runtime for the database's connection: {error}")))
}

/// What an operator has chosen is respected, but not in silence.
fn warn_of(runtime: &Runtime, session: &Session, address: &Address) -> Result<(), Error> {
    let query =
        Query::new("SELECT current_setting('synchronous_commit'), current_setting('fsync')");
    let rows = runtime.block_on(session.query(&query)).map_err(world)?;
    for row in &rows {
        for (column, name) in ["synchronous_commit", "fsync"].into_iter().enumerate() {
            if row.text(column)?.as_deref() == Some("off") {
                tracing::warn!(
                    "{address} has {name} = off: acknowledged changes can be lost when the database's machine fails"
                );
            }
        }
    }
    if session.is_pooled() {
        tracing::info!(
            "{address} is behind a connection pooler: no named prepared statements, polling instead of notifications"
        );
    }
    Ok(())
}

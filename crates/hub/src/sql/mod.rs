//! Raw SQL over HTTP: streams that go on between calls, their batons, and the threads their statements run on.
//!
//! What a statement may do and for how long is not decided here (see [`crate::raw_sql`]); the messages are
//! `switchboard_wire::hrana`. Statements never run on the threads that serve everybody.

mod streams;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use switchboard_core::rights::Right;
use switchboard_wire::hrana::{Batch, Error, StreamRequest};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::raw_sql::Door;
use streams::{Stream, Streams};

/// Statements of one call; a text that holds several counts as one.
pub const STATEMENTS_MAX: usize = 1000;
/// Rows of one statement.
pub const ROWS_MAX: usize = 10_000;
/// What the rows of one statement may take.
pub const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What all rows of one answer may take.
pub const RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A call takes no longer than this; what is left over is refused.
pub const CALL_FOR_MAX: Duration = Duration::from_secs(10);
/// Texts that a stream may store, and their size.
pub const STORED_MAX: usize = 64;
pub const STORED_BYTES_MAX: usize = 512 * 1024;
/// Streams that go on, of one token and of all.
pub const STREAMS_PER_TOKEN_MAX: usize = 32;
pub const STREAMS_MAX: usize = 128;
/// Transactions that are open between calls, of one token.
pub const TRANSACTIONS_PER_TOKEN_MAX: usize = 4;
/// Connections to the ledger.
pub const SESSIONS_MAX: usize = 24;
/// A stream without a transaction is dropped after this.
pub const IDLE_FOR_MAX: Duration = Duration::from_secs(10);
/// A transaction that nobody goes on with is rolled back after this.
pub const TRANSACTION_IDLE_FOR_MAX: Duration = Duration::from_secs(1);
/// Calls whose statements run at the same time, of one token and of all.
const RUNNING_PER_TOKEN_MAX: usize = 4;
const RUNNING_MAX: usize = 8;
/// Calls that may wait for that, and for how long.
const WAITING_MAX: usize = 256;
const WAIT_FOR_MAX: Duration = Duration::from_secs(5);
/// How often open streams are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The hub's side of the door for raw SQL.
pub struct Sql {
    shared: Arc<SqlState>,
    sweeper: JoinHandle<()>,
}

/// What a call asks of its stream.
pub enum Asked {
    Pipeline(Vec<StreamRequest>),
    Cursor(Batch),
}

pub(crate) struct SqlState {
    door: Door,
    streams: Mutex<Streams>,
    /// Rung when there is a stream to look after.
    bell: Notify,
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// A place among those that run. Whoever keeps the others from writing needs none: they wait for it.
struct Place {
    _own: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
}

impl Sql {
    pub fn start(door: Door) -> Self {
        let shared = Arc::new(SqlState {
            door,
            streams: Mutex::default(),
            bell: Notify::new(),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
        });
        let sweeper = tokio::spawn(sweep(Arc::clone(&shared)));
        Sql { shared, sweeper }
    }

    /// Does what a call asks for, on a stream of its own or on the one that its baton names. The answer is JSON.
    pub async fn call(
        &self,
        token: &str,
        right: Right,
        baton: Option<&str>,
        asked: Asked,
    ) -> Result<Vec<u8>, Error> {
        if asked.statements() > STATEMENTS_MAX {
            return Err(Error::new(
                "TOO_MANY_STATEMENTS",
                format!("a call may have at most {STATEMENTS_MAX} statements"),
            ));
        }
        let stream = {
            let mut streams = self.shared.streams.lock();
            match baton {
                Some(baton) => streams.take(baton, token)?,
                None => streams.make(token, right, asked.stays())?,
            }
        };
        let taken = Taken {
            shared: Arc::clone(&self.shared),
            stream: Some(stream),
        };
        let gate = taken.stream().gate();
        let place = self.place(gate).await?;
        let until = Instant::now() + CALL_FOR_MAX;
        let ran = tokio::task::spawn_blocking(move || {
            let _place = place;
            work::answer(taken, asked, until)
        });
        ran.await.map_err(|error| {
            tracing::error!("a statement of a libSQL client crashed: {error}");
            Error::new(
                "INTERNAL_ERROR",
                "internal error of the hub; the open transaction is rolled back",
            )
        })
    }

    async fn place(&self, gate: Option<Arc<Semaphore>>) -> Result<Place, Error> {
        let Some(own) = gate else {
            return Ok(Place {
                _own: None,
                _all: None,
            });
        };
        let busy = || {
            Error::new(
                "SQLITE_BUSY",
                "too many statements are waiting; retry in a moment",
            )
        };
        let waiting = Arc::clone(&self.shared.waiting).try_acquire_owned();
        let _waiting = waiting.map_err(|_| busy())?;
        let all = Arc::clone(&self.shared.running);
        let both = async {
            Ok::<_, tokio::sync::AcquireError>((
                own.acquire_owned().await?,
                all.acquire_owned().await?,
            ))
        };
        let (own, all) = tokio::time::timeout(WAIT_FOR_MAX, both)
            .await
            .map_err(|_| busy())?
            .map_err(|_| busy())?;
        Ok(Place {
            _own: Some(own),
            _all: Some(all),
        })
    }

    /// Ends what runs, rolls back what is open, and closes every connection.
    pub async fn stop(&self) {
        self.sweeper.abort();
        self.shared.door.close();
        let all = u32::try_from(RUNNING_MAX).unwrap_or(u32::MAX);
        // Whoever runs now ends soon: it is being stopped.
        let ended = tokio::time::timeout(WAIT_FOR_MAX, self.shared.running.acquire_many(all)).await;
        if !matches!(ended, Ok(Ok(_))) {
            tracing::warn!("a statement of a libSQL client is still running");
        }
        let left = std::mem::take(&mut *self.shared.streams.lock());
        let _ = tokio::task::spawn_blocking(move || drop(left)).await;
    }
}

impl Asked {
    fn statements(&self) -> usize {
        match self {
            Asked::Pipeline(requests) => requests.iter().map(StreamRequest::statements).sum(),
            Asked::Cursor(batch) => batch.steps.len(),
        }
    }

    /// Whether the stream goes on after this.
    fn stays(&self) -> bool {
        match self {
            Asked::Pipeline(requests) => !matches!(requests.last(), Some(StreamRequest::Close)),
            Asked::Cursor(_) => true,
        }
    }
}

/// A stream on its way to a thread. Should the caller go away before it gets there, a thread ends it.
struct Taken {
    shared: Arc<SqlState>,
    stream: Option<Stream>,
}

impl Taken {
    fn stream(&self) -> &Stream {
        self.stream
            .as_ref()
            .expect("it is taken out only at the end")
    }

    fn stream_mut(&mut self) -> &mut Stream {
        self.stream
            .as_mut()
            .expect("it is taken out only at the end")
    }

    fn into_parts(mut self) -> (Arc<SqlState>, Stream) {
        let stream = self.stream.take().expect("it is taken out only here");
        (Arc::clone(&self.shared), stream)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            let shared = Arc::clone(&self.shared);
            tokio::task::spawn_blocking(move || shared.end(stream));
        }
    }
}

impl SqlState {
    /// Rolls back what is open. Keeps the connection for the next one.
    fn end(&self, mut stream: Stream) {
        let session = stream.session.take().map(|mut session| {
            session.reset();
            session
        });
        let mut streams = self.streams.lock();
        streams.forget(stream);
        let too_many = session.and_then(|session| streams.keep(session));
        drop(streams);
        drop(too_many);
    }
}

/// Looks after streams that nobody goes on with.
async fn sweep(shared: Arc<SqlState>) {
    loop {
        let bell = shared.bell.notified();
        if shared.streams.lock().is_empty() {
            bell.await;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        let hub_waits = shared.door.keeps_hub_waiting();
        let overdue = shared.streams.lock().overdue(Instant::now(), hub_waits);
        if overdue.is_empty() {
            continue;
        }
        let theirs = Arc::clone(&shared);
        let ended = tokio::task::spawn_blocking(move || {
            overdue.into_iter().for_each(|stream| theirs.end(stream));
        });
        if let Err(error) = ended.await {
            tracing::error!("a stream could not be closed: {error}");
        }
    }
}

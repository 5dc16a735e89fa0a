//! Streams that go on between calls, found by their batons, and connections that wait to be used.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use switchboard_core::rights::Right;
use switchboard_wire::hrana::Error;
use tokio::sync::Semaphore;

use super::{
    IDLE_FOR_MAX, RUNNING_PER_TOKEN_MAX, SESSIONS_MAX, STREAMS_MAX, STREAMS_PER_TOKEN_MAX,
    TRANSACTION_IDLE_FOR_MAX, TRANSACTIONS_PER_TOKEN_MAX,
};
use crate::raw_sql::{HUB_WAITS_MAX, Session, TRANSACTION_FOR_MAX};

/// Connections that are kept although nobody uses them.
const KEPT_MAX: usize = 8;
/// Streams whose end can still be explained.
const GONE_MAX: usize = 256;

/// One client's stream between two of its calls.
pub struct Stream {
    token: Arc<str>,
    pub right: Right,
    gate: Arc<Semaphore>,
    /// Counted among those that go on.
    counted: bool,
    pub stored: HashMap<i32, String>,
    /// Only while a transaction is open.
    pub session: Option<Session>,
    touched: Instant,
}

#[derive(Default)]
pub struct Streams {
    open: HashMap<String, Stream>,
    gone: VecDeque<(String, String)>,
    tokens: HashMap<Arc<str>, Token>,
    /// Streams that go on, also those in the middle of a call.
    counted: usize,
    kept: Vec<Session>,
    /// Connections, kept or in use.
    sessions: usize,
}

struct Token {
    gate: Arc<Semaphore>,
    counted: usize,
}

impl Stream {
    /// What to wait for before it goes on. One that keeps others from writing waits for nothing: they wait for it.
    pub fn gate(&self) -> Option<Arc<Semaphore>> {
        let has_turn = self.session.as_ref().is_some_and(Session::has_turn);
        (!has_turn).then(|| Arc::clone(&self.gate))
    }
}

impl Streams {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// A new stream, which goes on after its first call if it `stays`.
    pub fn make(&mut self, token: &str, right: Right, stays: bool) -> Result<Stream, Error> {
        let transactions = self
            .open
            .values()
            .filter(|stream| stays && *stream.token == *token && stream.session.is_some());
        if transactions.count() >= TRANSACTIONS_PER_TOKEN_MAX {
            return Err(Error::new(
                "SQLITE_BUSY",
                format!(
                    "this token has {TRANSACTIONS_PER_TOKEN_MAX} open transactions, the maximum; end one, or wait"
                ),
            ));
        }
        if self.tokens.len() >= STREAMS_MAX {
            self.tokens
                .retain(|_, token| token.counted > 0 || Arc::strong_count(&token.gate) > 1);
        }
        let name = match self.tokens.get_key_value(token) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(token),
        };
        let known = self
            .tokens
            .entry(Arc::clone(&name))
            .or_insert_with(|| Token {
                gate: Arc::new(Semaphore::new(RUNNING_PER_TOKEN_MAX)),
                counted: 0,
            });
        if stays && (known.counted >= STREAMS_PER_TOKEN_MAX || self.counted >= STREAMS_MAX) {
            return Err(Error::new(
                "STREAM_LIMIT",
                format!(
                    "too many streams are open (at most {STREAMS_PER_TOKEN_MAX} per token, {STREAMS_MAX} in total); close one, or wait {} s",
                    IDLE_FOR_MAX.as_secs()
                ),
            ));
        }
        known.counted += usize::from(stays);
        self.counted += usize::from(stays);
        Ok(Stream {
            token: name,
            right,
            gate: Arc::clone(&known.gate),
            counted: stays,
            stored: HashMap::new(),
            session: None,
            touched: Instant::now(),
        })
    }

    /// The stream that a baton names. A baton counts once, and only with the token it was given to.
    pub fn take(&mut self, baton: &str, token: &str) -> Result<Stream, Error> {
        if self
            .open
            .get(baton)
            .is_some_and(|stream| *stream.token == *token)
        {
            return self.open.remove(baton).ok_or_else(|| expired(None));
        }
        let why = self.gone.iter().find(|(gone, _)| gone == baton);
        Err(expired(why.map(|(_, why)| why.as_str())))
    }

    /// Keeps a stream until its next call. Tells what to name it by.
    pub fn put(&mut self, mut stream: Stream) -> Result<String, Box<Stream>> {
        let mut bytes = [0_u8; 24];
        if rand::fill(&mut bytes).is_err() {
            return Err(Box::new(stream));
        }
        let baton: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        stream.touched = Instant::now();
        self.open.insert(baton.clone(), stream);
        Ok(baton)
    }

    /// A stream has ended.
    pub fn forget(&mut self, stream: Stream) {
        if !stream.counted {
            return;
        }
        self.counted = self.counted.saturating_sub(1);
        if let Some(token) = self.tokens.get_mut(&stream.token) {
            token.counted = token.counted.saturating_sub(1);
        }
    }

    /// Streams that were left alone for too long, or are in the hub's way.
    pub fn overdue(&mut self, now: Instant, hub_waits: bool) -> Vec<Stream> {
        let late: Vec<(String, String)> = self
            .open
            .iter()
            .filter_map(|(baton, stream)| Some((baton.clone(), late(stream, now, hub_waits)?)))
            .collect();
        let mut ended = Vec::with_capacity(late.len());
        for (baton, why) in late {
            ended.extend(self.open.remove(&baton));
            if self.gone.len() == GONE_MAX {
                self.gone.pop_front();
            }
            self.gone.push_back((baton, why));
        }
        ended
    }

    /// A connection that was kept, or leave to open one.
    pub fn session(&mut self) -> Result<Option<Session>, Error> {
        if let Some(session) = self.kept.pop() {
            return Ok(Some(session));
        }
        if self.sessions >= SESSIONS_MAX {
            return Err(Error::new(
                "SQLITE_BUSY",
                "too many transactions are open; retry in a moment",
            ));
        }
        self.sessions += 1;
        Ok(None)
    }

    /// One was not opened after all, or has broken.
    pub fn one_less(&mut self) {
        self.sessions = self.sessions.saturating_sub(1);
    }

    /// Keeps a connection for the next one; hands it back if there are enough.
    pub fn keep(&mut self, session: Session) -> Option<Session> {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(session);
            return None;
        }
        self.one_less();
        Some(session)
    }
}

/// Why a stream is given up, if it is.
fn late(stream: &Stream, now: Instant, hub_waits: bool) -> Option<String> {
    let idle = now.saturating_duration_since(stream.touched);
    let Some(session) = &stream.session else {
        let over = idle >= IDLE_FOR_MAX;
        return over.then(|| format!("it was idle for {} s", IDLE_FOR_MAX.as_secs()));
    };
    let open = session
        .since()
        .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
    let rolled_back = |why: String| Some(format!("its transaction was rolled back: {why}"));
    if session.has_turn() && hub_waits {
        rolled_back(format!(
            "the hub has waited {} ms to write",
            HUB_WAITS_MAX.as_millis()
        ))
    } else if idle >= TRANSACTION_IDLE_FOR_MAX {
        rolled_back(format!(
            "it was idle for {} s",
            TRANSACTION_IDLE_FOR_MAX.as_secs()
        ))
    } else if open >= TRANSACTION_FOR_MAX {
        rolled_back(format!(
            "it was open for {} s",
            TRANSACTION_FOR_MAX.as_secs()
        ))
    } else {
        None
    }
}

fn expired(why: Option<&str>) -> Error {
    let message = match why {
        Some(why) => format!("the stream was closed: {why}"),
        None => "there is no such stream: its baton was already used, or the stream was closed; open a new one"
            .to_owned(),
    };
    Error::new("STREAM_EXPIRED", message)
}

//! A connection for asking only: made when it is needed, made again when it was lost.
//!
//! Whatever is asked here may be asked twice. The writer, who may not, has connections of its own.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};
use tokio_postgres::Row;

use super::address::Address;
use super::errors::{is_last_word, unreachable, world};
use super::session::{Bell, Query, Session};
use crate::Error;

/// The channel on which coordinators tell each other that they wrote.
pub(super) const CHANNEL: &str = "switchboard";

/// Lists follow an index, also while the server knows nothing yet of how the tables are filled.
const SETTINGS: &str = "SET random_page_cost = 1.1; SET max_parallel_workers_per_gather = 0";

/// All that one question may take, connecting included.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// So long after a vain attempt nobody tries again.
const PAUSE: Duration = Duration::from_millis(200);

/// Counts the connections of one process to a database that were made: what one was refused a moment ago, another may
/// have got since.
#[derive(Clone, Default)]
pub(super) struct Reached(Arc<AtomicU64>);

impl Reached {
    pub fn again(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn times(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Lets whichever thread calls do the work of the connections.
pub(super) struct Here(Option<Runtime>);

impl Here {
    pub fn new() -> Result<Here, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| Error::Open(format!("connections cannot be served: {error}")))?;
        Ok(Here(Some(runtime)))
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.block_on(future)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        // The last owner may be a task, which must not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

pub(super) struct Line {
    address: Address,
    bell: Option<Bell>,
    session: Option<Session>,
    reached: Reached,
    /// When a connection was tried for in vain, and how many had been made before.
    failed: Option<(Instant, u64)>,
}

impl Line {
    /// With a bell it is rung when others notify, if address and server allow that.
    pub fn new(address: Address, bell: Option<Bell>, reached: Reached) -> Line {
        Line {
            address,
            bell,
            session: None,
            reached,
            failed: None,
        }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whether the bell rings when others notify.
    pub fn listens(&self) -> bool {
        let heard = |session: &Session| !session.is_closed() && !session.is_pooled();
        self.bell.is_some() && self.address.notify() && self.session.as_ref().is_some_and(heard)
    }

    /// Makes sure of a connection; true if it is a new one.
    pub async fn connect(&mut self) -> Result<bool, Error> {
        if self
            .session
            .as_ref()
            .is_some_and(|session| !session.is_closed())
        {
            return Ok(false);
        }
        self.session = None;
        let reached = self.reached.times();
        let is_away = |(at, before): (Instant, u64)| at.elapsed() < PAUSE && before == reached;
        if self.failed.is_some_and(is_away) {
            return Err(unreachable());
        }
        let made = timeout(ANSWER_WITHIN, self.open()).await;
        match made.unwrap_or_else(|_| Err(late())) {
            Ok(session) => {
                (self.session, self.failed) = (Some(session), None);
                self.reached.again();
                Ok(true)
            }
            // A ledger that was open once may be again.
            Err(Error::Open(why) | Error::Unavailable(why)) => {
                tracing::debug!("{why}");
                self.failed = Some((Instant::now(), reached));
                Err(unreachable())
            }
            Err(other) => Err(other),
        }
    }

    async fn open(&self) -> Result<Session, Error> {
        let session = Session::open(&self.address, self.bell.clone()).await?;
        if !session.is_pooled() {
            session.simple(SETTINGS).await.map_err(world)?;
        }
        if self.bell.is_some() && self.address.notify() && !session.is_pooled() {
            let listen = format!("LISTEN {CHANNEL}");
            session.simple(&listen).await.map_err(world)?;
        }
        Ok(session)
    }

    /// Asks, and if the connection is lost over it asks once more on another.
    pub async fn ask(&mut self, query: &Query) -> Result<Vec<Row>, Error> {
        let answer = async {
            let first = self.ask_once(query).await;
            if first.is_err() && self.session.is_none() && self.failed.is_none() {
                self.ask_once(query).await
            } else {
                first
            }
        };
        match timeout(ANSWER_WITHIN, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                // Whatever holds it up would hold up the next question, too.
                self.session = None;
                Err(late())
            }
        }
    }

    /// Forgets a connection that failed.
    async fn ask_once(&mut self, query: &Query) -> Result<Vec<Row>, Error> {
        self.connect().await?;
        let session = self.session.as_mut().expect("it was just made sure of");
        // Who follows the ledger asks the same few things after every batch; lists are asked for in many ways.
        let answer = match self.bell {
            Some(_) => session.query_often(query).await,
            None => session.query(query).await,
        };
        if let Err(error) = &answer
            && (session.is_closed() || error.as_db_error().is_none() || is_last_word(error))
        {
            self.session = None;
        }
        answer.map_err(world)
    }
}

fn late() -> Error {
    let seconds = ANSWER_WITHIN.as_secs();
    Error::Unavailable(format!("the database did not answer within {seconds} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_connection_has_reached_is_tried_at_once() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = nobody.local_addr().expect("it is bound").port();
        drop(nobody);
        let address = Address::parse(&format!("postgres://me@127.0.0.1:{port}/swarm"));
        let (here, reached) = (Here::new().expect("it runs"), Reached::default());
        let mut line = Line::new(address.expect("it is one"), None, reached.clone());
        let mut tried_after = || {
            let answer = here.run(line.connect());
            assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
            line.failed.expect("it was in vain").1
        };
        assert_eq!(tried_after(), 0);
        reached.again();
        assert_eq!(tried_after(), 1, "not refused for the vain attempt before");
    }
}

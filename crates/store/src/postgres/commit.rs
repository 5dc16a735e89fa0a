//! Commits: sent ahead while the next batch is decided, and looked for when their answer never came.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::{MaybeDone, maybe_done};
use tokio::task::yield_now;

use super::rows::signed;
use super::session::{Query, Session};
use super::{Answered, PostgresEngine, RETRY_FIRST, Row, Taken, head_queries, in_time};
use crate::{Begun, Error, Word};

/// A request that was sent. Only whoever waits for it moves it on.
pub(super) type Pending = Pin<Box<MaybeDone<Pin<Box<dyn Future<Output = Answered> + Send>>>>>;

/// A commit that was sent.
pub(super) struct UnderWay {
    answer: Pending,
    batch: Batch,
}

/// By what a batch is known again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    generation: i64,
    /// The number of its first event, if it has any.
    first_event: Option<u64>,
}

/// How long a lost commit is looked for.
const RESOLVE_WITHIN: Duration = Duration::from_secs(5);

impl PostgresEngine {
    pub(super) fn batch(&self) -> Batch {
        Batch {
            generation: self.generation,
            first_event: self.first_event,
        }
    }

    /// Sends what was saved and its commit.
    pub(super) fn send_commit(&mut self) -> Result<(), Error> {
        let batch = self.batch();
        let answer = self.dispatch(None, Vec::new(), Some("COMMIT"))?;
        self.in_batch = false;
        self.under_way = Some(UnderWay { answer, batch });
        Ok(())
    }

    /// Whether the commit that is under way is answered before word comes.
    pub(super) fn wait_for_commit(&mut self, word: &Word) -> bool {
        let Some(under_way) = self.under_way.as_mut() else {
            return true;
        };
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = under_way.answer.as_mut() => true,
                () = word.notified() => false,
            }
        })
    }

    /// Asks for the head behind the commit that is under way, and does not wait for it.
    pub(super) fn begin_ahead(&mut self) -> Result<Begun, Error> {
        let begin = self.session.as_ref().map(Session::begin);
        self.beginning = Some(self.dispatch(begin, head_queries(), None)?);
        let now = self.time.estimate(self.told_at.elapsed());
        self.told_at = Instant::now();
        Ok(Begun {
            now,
            clock_stepped_back_ms: self.stepped_back_ms.take(),
            by_hand: false,
        })
    }

    /// Sends a request without waiting for its answer. What is sent later comes later.
    fn dispatch(
        &mut self,
        first: Option<String>,
        queries: Vec<Query>,
        last: Option<&'static str>,
    ) -> Result<Pending, Error> {
        let request = self.request(first, queries, last)?;
        let mut pending: Pending = Box::pin(maybe_done(Box::pin(in_time(request))));
        self.runtime.block_on(async {
            poll_fn(|context| {
                let _ = pending.as_mut().poll(context);
                Poll::Ready(())
            })
            .await;
            // The connection's turn, to write what it was given.
            yield_now().await;
        });
        Ok(pending)
    }

    fn wait_for(&mut self, mut pending: Pending) -> Result<Vec<Vec<Row>>, Error> {
        self.runtime.block_on(pending.as_mut());
        let answer = pending.as_mut().take_output();
        self.heard(answer.expect("it was just waited for"))
    }

    pub(super) fn settle_commit(&mut self) -> Result<(), Error> {
        let Some(under_way) = self.under_way.take() else {
            return Ok(());
        };
        let answer = self.wait_for(under_way.answer);
        self.conclude(under_way.batch, answer.map(drop))
            .inspect_err(|_| self.beginning = None)
    }

    pub(super) fn confirm_head(&mut self, within: Duration) -> Option<bool> {
        let Some(mut beginning) = self.beginning.take() else {
            return Some(true);
        };
        let head = beginning.as_mut();
        let waited = async { tokio::time::timeout(within, head).await };
        if self.runtime.block_on(waited).is_err() {
            self.beginning = Some(beginning);
            return None;
        }
        // If there is something wrong with the head, the batch that begins anew will find it.
        let taken = self.wait_for(beginning);
        let taken = taken.and_then(|rows| Taken::read(&rows)).ok();
        let taken = taken
            .filter(|taken| self.is_undisturbed(taken) && taken.schema_floor <= self.steps.known());
        self.is_disturbed = taken.is_none();
        let Some(taken) = taken else {
            return Some(false);
        };
        self.hand.begins(&taken);
        let (_, stepped_back_ms) = self.tell_time(&taken);
        self.stepped_back_ms = self.stepped_back_ms.or(stepped_back_ms);
        Some(true)
    }

    /// What a commit's answer means, and what its absence does.
    pub(super) fn conclude(
        &mut self,
        batch: Batch,
        answer: Result<(), Error>,
    ) -> Result<(), Error> {
        let done = match answer {
            Ok(()) => Ok(()),
            // The server said what was wrong, and took the commit that followed for a rollback.
            Err(error) if self.session.is_some() => Err(error),
            Err(error) => self.resolve(batch, &error),
        };
        if done.is_ok() {
            self.committed = batch.generation;
        }
        done
    }

    /// The connection broke while a commit was under way. Whoever takes the head after it knows what became of it.
    fn resolve(&mut self, batch: Batch, why: &Error) -> Result<(), Error> {
        tracing::warn!(%why, "the database went away during a commit; looking what became of it");
        let deadline = Instant::now() + RESOLVE_WITHIN;
        loop {
            self.retry = None;
            match self.look_for(batch) {
                Ok(Some(true)) => return Ok(()),
                Ok(Some(false)) => {
                    return Err(Error::Unavailable(format!("{why}; nothing was written")));
                }
                Ok(None) => return Err(Error::InDoubt(why.to_string())),
                Err(error) if Instant::now() >= deadline => {
                    return Err(Error::InDoubt(error.to_string()));
                }
                Err(_) => std::thread::sleep(RETRY_FIRST),
            }
        }
    }

    /// Whether a batch is in the ledger; `None` if nobody can tell.
    fn look_for(&mut self, batch: Batch) -> Result<Option<bool>, Error> {
        self.unsent.clear();
        self.connect()?;
        let begin = self.session.as_ref().map(Session::begin);
        let rows = self.send(begin, head_queries(), None)?;
        let taken = Taken::read(&rows)?;
        let found = match batch.first_event {
            _ if (taken.writer, taken.generation) == (self.me, batch.generation) => Some(true),
            _ if self.wrote_last(&taken) => Some(false),
            None => None,
            Some(first) => {
                let query = Query::new("SELECT 1 FROM sb_log WHERE first = $1 AND writer = $2");
                let query = query.int(signed(first)).int(self.me);
                let found = self.send(None, vec![query], None)?;
                Some(found.first().is_some_and(|rows| !rows.is_empty()))
            }
        };
        self.send(None, Vec::new(), Some("ROLLBACK"))?;
        Ok(found)
    }
}

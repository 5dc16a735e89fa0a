//! Commits: sent ahead while the next batch is decided, and looked for when their answer never came.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::maybe_done;
use tokio::task::JoinHandle;

use super::rows::signed;
use super::session::{Query, Session};
use super::{Answered, PostgresEngine, RETRY_FIRST, Taken, head_query, in_time};
use crate::{Begun, Error, Ring};

/// A commit that was sent.
pub(super) struct UnderWay {
    answer: JoinHandle<Answered>,
    is_answered: Arc<AtomicBool>,
    batch: Batch,
}

impl UnderWay {
    pub fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Acquire)
    }
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

    /// Sends what was saved and its commit; rings when the answer is there.
    pub(super) fn send_commit(&mut self, ring: Ring) -> Result<(), Error> {
        let batch = self.batch();
        let is_answered = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_answered);
        let answer = self.dispatch(None, Vec::new(), Some("COMMIT"), move || {
            told.store(true, Ordering::Release);
            ring();
        })?;
        self.in_batch = false;
        self.under_way = Some(UnderWay {
            answer,
            is_answered,
            batch,
        });
        Ok(())
    }

    /// Asks for the head behind the commit that is under way, and does not wait for it.
    pub(super) fn begin_ahead(&mut self) -> Result<Begun, Error> {
        let begin = self.session.as_ref().map(Session::begin);
        self.beginning = Some(self.dispatch(begin, vec![head_query()], None, || {})?);
        let now = self.time.estimate(self.told_at.elapsed());
        self.told_at = Instant::now();
        Ok(Begun {
            now,
            clock_stepped_back_ms: self.stepped_back_ms.take(),
        })
    }

    /// Sends a request and leaves it to itself. What is sent later comes later.
    fn dispatch(
        &mut self,
        first: Option<String>,
        queries: Vec<Query>,
        last: Option<&'static str>,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<Answered>, Error> {
        let request = self.request(first, queries, last)?;
        let mut request = Box::pin(maybe_done(request));
        self.runtime.block_on(poll_fn(|context| {
            let _ = request.as_mut().poll(context);
            Poll::Ready(())
        }));
        Ok(self.runtime.spawn(async move {
            let answer = in_time(async {
                request.as_mut().await;
                let answer = request.as_mut().take_output();
                answer.expect("it was just waited for")
            })
            .await;
            then();
            answer
        }))
    }

    fn wait_for(&mut self, answer: JoinHandle<Answered>) -> Result<Vec<Vec<super::Row>>, Error> {
        match self.runtime.block_on(answer) {
            Ok(answer) => self.heard(answer),
            Err(error) => {
                self.session = None;
                Err(Error::Unavailable(format!(
                    "a request was dropped: {error}"
                )))
            }
        }
    }

    pub(super) fn settle_commit(&mut self) -> Result<(), Error> {
        let Some(under_way) = self.under_way.take() else {
            return Ok(());
        };
        let answer = self.wait_for(under_way.answer);
        self.conclude(under_way.batch, answer.map(drop))
            .inspect_err(|_| self.beginning = None)
    }

    pub(super) fn confirm_head(&mut self) -> bool {
        let Some(beginning) = self.beginning.take() else {
            return true;
        };
        // If there is something wrong with the head, the batch that begins anew will find it.
        let taken = self.wait_for(beginning);
        let taken = taken.and_then(|rows| Taken::read(&rows)).ok();
        let taken = taken
            .filter(|taken| self.is_undisturbed(taken) && taken.schema_floor <= self.steps.known());
        self.is_disturbed = taken.is_none();
        let Some(taken) = taken else {
            return false;
        };
        let (_, stepped_back_ms) = self.tell_time(&taken);
        self.stepped_back_ms = self.stepped_back_ms.or(stepped_back_ms);
        true
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
        let rows = self.send(begin, vec![head_query()], None)?;
        let taken = Taken::read(&rows)?;
        let found = match batch.first_event {
            _ if (taken.writer, taken.generation) == (self.me, batch.generation) => Some(true),
            _ if self.is_undisturbed(&taken) => Some(false),
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

//! Commits, and what became of one whose answer never came.
//!
//! With synchronous replication a commit returns once a standby has it. If that wait is ended (by a cancel, by the end
//! of the server process or of the server), the change is there all the same, and a failover may lose it. So whatever
//! is found after a commit went wrong counts only after one more commit that waited to its end.

use std::time::{Duration, Instant};

use super::rows::signed;
use super::session::{Query, Session};
use super::{ANSWER_WITHIN, PostgresEngine, RECONNECT_FIRST, Taken};
use crate::{Engine as _, Error};

/// By what a batch is known again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    generation: i64,
    /// The number of its first event, if it has any.
    first_event: Option<u64>,
    last_event: u64,
    /// Warnings that were heard before its commit was sent.
    warnings: u64,
}

/// How long a lost commit is looked for. A standby looks every five seconds for a primary that was restarted.
const RESOLVE_WITHIN: Duration = Duration::from_secs(10);
/// What the last try may take beyond that.
const RESOLVE_GRACE: Duration = Duration::from_secs(1);

/// Writes nothing new, but waits for a standby like any write: a commit without one would not.
const WITNESS: &str = "UPDATE sb_head SET generation = generation WHERE id = 1";

impl PostgresEngine {
    pub(super) fn batch(&self) -> Batch {
        Batch {
            generation: self.generation,
            first_event: self.first_event,
            last_event: self.last_event,
            warnings: self.warnings(),
        }
    }

    fn warnings(&self) -> u64 {
        self.session.as_ref().map_or(0, Session::warnings)
    }

    /// What a commit's answer means, and what its absence does.
    pub(super) fn conclude(
        &mut self,
        batch: Batch,
        answer: Result<(), Error>,
    ) -> Result<(), Error> {
        let is_warned = self.warnings() > batch.warnings;
        let done = match answer {
            Ok(()) if !is_warned => Ok(()),
            Ok(()) => self.resolve(batch, "the database warned at the commit", true),
            // The server said what was wrong, and took the commit that followed for a rollback.
            Err(error) if self.session.is_some() => Err(error),
            // Whoever ends a connection may warn as well: that says nothing of the commit.
            Err(error) => self.resolve(batch, &error.to_string(), false),
        };
        if done.is_ok() {
            self.committed = batch.generation;
            self.vouched = Some((self.me, batch.generation));
            self.told.wrote(batch.first_event, batch.last_event);
        } else {
            self.log_hash = None;
        }
        done
    }

    /// The connection broke while a commit was under way, or it did not wait to its end. Whoever takes the head after it
    /// knows what became of it, and a commit that does wait makes sure of it.
    fn resolve(&mut self, batch: Batch, why: &str, mut was_there: bool) -> Result<(), Error> {
        tracing::warn!(why, "the outcome of a commit is unknown; checking it");
        let deadline = Instant::now() + RESOLVE_WITHIN;
        let found = loop {
            (self.session, self.retry) = (None, None);
            match self.look_for(batch, deadline, &mut was_there) {
                Ok(found) => break found,
                Err(error) if Instant::now() >= deadline => {
                    tracing::warn!(%error, "the outcome of a commit could not be determined in time");
                    break None;
                }
                Err(_) => std::thread::sleep(RECONNECT_FIRST),
            }
        };
        // Others may have read it on a database that is no longer the one.
        if was_there && found != Some(true) {
            self.told.wrote(batch.first_event, batch.last_event);
        }
        match found {
            Some(true) => Ok(()),
            Some(false) => Err(Error::Unavailable(format!("{why}; nothing was written"))),
            None => Err(Error::InDoubt(why.to_owned())),
        }
    }

    /// Whether a batch is in the ledger for good; `None` if nobody can tell.
    fn look_for(
        &mut self,
        batch: Batch,
        deadline: Instant,
        was_there: &mut bool,
    ) -> Result<Option<bool>, Error> {
        self.unsent.clear();
        self.connect()?;
        let rows = self.ask_head()?;
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
        if found == Some(true) {
            *was_there = true;
            let left = deadline.saturating_duration_since(Instant::now());
            self.bear_witness(left + RESOLVE_GRACE)?;
        } else {
            self.send(None, Vec::new(), Some("ROLLBACK"))?;
        }
        Ok(found)
    }

    /// Ends a batch that wrote nothing. What it was decided by may be somebody's whose commit did not wait to its end.
    pub(super) fn vouch(&mut self) -> Result<(), Error> {
        if !self.has_standbys || self.vouched == Some(self.found) {
            self.rollback();
            return Ok(());
        }
        self.unsent.clear();
        self.in_batch = false;
        self.bear_witness(ANSWER_WITHIN)
            .inspect(|()| self.vouched = Some(self.found))
            // On another connection there may be another ledger: what was decided is to be decided anew.
            .inspect_err(|_| self.session = None)
    }

    /// Commits the open transaction. All that was committed before it is then as safe as a commit can be.
    fn bear_witness(&mut self, within: Duration) -> Result<(), Error> {
        let before = self.warnings();
        let request = self.request(None, vec![Query::new(WITNESS)], Some("COMMIT"))?;
        let answer = async { tokio::time::timeout(within, request).await };
        let answer = self.runtime.block_on(answer);
        self.heard(answer)?;
        if self.warnings() == before {
            return Ok(());
        }
        Err(Error::Unavailable(
            "the database stopped waiting for a standby".to_owned(),
        ))
    }
}

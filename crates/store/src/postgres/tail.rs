//! Word of what other coordinators commit, and word to them.
//!
//! Notifications only shorten the wait: what was committed is read from the head, and whoever hears nothing looks again
//! after a moment. They are sent from here, in a transaction of their own, so that no batch waits for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_core::{AgentId, LaneKey, MessageId, TaskId};
use tokio::select;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::address::Address;
use super::line::{CHANNEL, Here, Line};
use super::rows::{rows_max, signed};
use super::session::{Bell, Query};
use crate::paging;
use crate::rows::Columns;
use crate::{Error, Foreign, Tail};

/// How long to wait for a notification before looking anyway.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The same where no notification comes.
const POLL_EVERY: Duration = Duration::from_millis(20);
/// Notifications are sent, and answered by a look, no closer together than this.
const SPACING: Duration = Duration::from_millis(10);
/// Agents that one look at messages finds.
const RECIPIENTS_MAX: usize = 20_000;

pub(super) struct PostgresTail {
    here: Here,
    line: Line,
    bell: Bell,
    me: i64,
    own: Arc<Own>,
    /// Others were told of everything up to here.
    announced: u64,
    announced_at: Instant,
    looked_at: Instant,
}

/// What this process committed.
#[derive(Default)]
struct Own {
    upto: AtomicU64,
    news: Notify,
}

impl PostgresTail {
    /// Connects when it first waits. `me` is what the log says of who wrote a batch.
    pub fn open(address: Address, me: i64) -> Result<PostgresTail, Error> {
        let bell = Bell::default();
        let now = Instant::now();
        Ok(PostgresTail {
            here: Here::new()?,
            line: Line::new(address, Some(bell.clone())),
            bell,
            me,
            own: Arc::default(),
            announced: 0,
            announced_at: now,
            looked_at: now,
        })
    }

    fn ask<T>(
        &mut self,
        query: &Query,
        read: impl FnMut(&tokio_postgres::Row) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let rows = self.here.run(self.line.ask(query))?;
        rows.iter().map(read).collect()
    }
}

impl Tail for PostgresTail {
    fn announcer(&self) -> Box<dyn Fn(u64) + Send + Sync> {
        let own = self.own.clone();
        Box::new(move |seq| {
            if own.upto.fetch_max(seq, Ordering::Relaxed) < seq {
                own.news.notify_one();
            }
        })
    }

    fn wait(&mut self) -> Result<u64, Error> {
        let PostgresTail {
            here,
            line,
            bell,
            me,
            own,
            announced,
            announced_at,
            looked_at,
        } = self;
        let head = here.run(async {
            let is_new = line.connect().await?;
            let mut until = match (is_new, line.listens()) {
                // Who was not there may have missed something.
                (true, _) => Instant::now(),
                (false, true) => Instant::now() + LOOK_EVERY,
                (false, false) => Instant::now() + POLL_EVERY,
            };
            let tells = line.address().notify();
            loop {
                let upto = own.upto.load(Ordering::Relaxed);
                let has_news = tells && upto > *announced;
                select! {
                    () = sleep_until(*announced_at + SPACING), if has_news => {
                        line.ask(&notification(*me)).await?;
                        (*announced, *announced_at) = (upto, Instant::now());
                    }
                    () = own.news.notified(), if tells && !has_news => {}
                    () = bell.notified() => until = until.min(*looked_at + SPACING),
                    () = sleep_until(until) => break,
                }
            }
            *looked_at = Instant::now();
            line.ask(&Query::new("SELECT seq FROM sb_head")).await
        })?;
        let seq = head.first().map(|row| row.int(0)).transpose()?.flatten();
        seq.map(i64::unsigned_abs)
            .ok_or_else(|| Error::Corrupt("it has no head".to_owned()))
    }

    fn foreign(&mut self, after: u64, limit: usize) -> Result<Foreign, Error> {
        let query = Query::new(
            "SELECT last, CASE WHEN writer <> $1 THEN body END FROM sb_log WHERE first > $2 ORDER BY first LIMIT $3",
        );
        let query = query.int(self.me).int(signed(after)).int(rows_max(limit));
        let (mut upto, mut events) = (after, Vec::new());
        self.ask(&query, |row| {
            upto = row.int(0)?.unwrap_or_default().unsigned_abs();
            if let Some(body) = row.text(1)? {
                for logged in paging::events(&body) {
                    events.push(logged?);
                }
            }
            Ok(())
        })?;
        Ok(Foreign { events, upto })
    }

    fn lanes_of(&mut self, tasks: &[TaskId]) -> Result<Vec<LaneKey>, Error> {
        let query = Query::new(
            "SELECT l.key FROM tasks t JOIN sb_lane l ON l.lane = t.lane WHERE t.id = ANY($1) AND t.status = 'ready'",
        );
        self.ask(&query.texts(tasks.iter().map(TaskId::as_str)), |row| {
            let key = row.text(0)?.unwrap_or_default();
            LaneKey::from_text(&key)
                .ok_or_else(|| Error::Corrupt(format!("a lane cannot be read: {key:?}")))
        })
    }

    fn recipients_of(&mut self, messages: &[MessageId]) -> Result<Vec<AgentId>, Error> {
        let query = Query::new(
            "SELECT DISTINCT d.agent FROM messages m JOIN sb_delivery d ON d.number = m.number
             WHERE m.id = ANY($1) AND d.state = 'queued' LIMIT $2",
        );
        let query = query.texts(messages.iter().map(MessageId::as_str));
        self.ask(&query.int(rows_max(RECIPIENTS_MAX)), |row| {
            Ok(AgentId::from(row.text(0)?.unwrap_or_default().into_owned()))
        })
    }
}

/// Tells everyone who listens that this writer wrote.
fn notification(me: i64) -> Query {
    Query::new(format!("SELECT pg_notify('{CHANNEL}', $1)")).text(&me.to_string())
}

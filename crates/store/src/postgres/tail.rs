//! Word of what other coordinators commit, and word to them.
//!
//! Notifications only shorten the wait: what was committed is read from the head, and whoever hears nothing looks again
//! after a moment. They are sent from here, in a transaction of their own, so that no batch waits for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_core::{AgentId, LaneKey, LedgerEpoch, MessageId, TaskId};
use tokio::select;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::Row;

use super::address::Address;
use super::line::{CHANNEL, Here, Line, Reached};
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
    look_every: Duration,
    by_hand: bool,
    epoch: LedgerEpoch,
    /// Where the writer learns how far others have written.
    seen: Arc<AtomicU64>,
}

/// What this process committed.
#[derive(Default)]
struct Own {
    upto: AtomicU64,
    news: Notify,
}

impl PostgresTail {
    /// Connects when it first waits. `me` is what the log says of who wrote a batch.
    pub fn open(address: Address, me: i64, seen: Arc<AtomicU64>) -> Result<PostgresTail, Error> {
        let bell = Bell::new(&me.to_string());
        let now = Instant::now();
        Ok(PostgresTail {
            here: Here::new()?,
            line: Line::new(address, Some(bell.clone()), Reached::default()),
            bell,
            me,
            own: Arc::default(),
            announced: 0,
            announced_at: now,
            looked_at: now,
            look_every: LOOK_EVERY,
            by_hand: false,
            epoch: LedgerEpoch::default(),
            seen,
        })
    }

    fn ask<T>(
        &mut self,
        query: &Query,
        read: impl FnMut(&Row) -> Result<T, Error>,
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
            look_every,
            by_hand,
            epoch,
            seen,
        } = self;
        let head = here.run(async {
            let is_new = line.connect().await?;
            let mut until = match (is_new, line.listens()) {
                // Who was not there may have missed something.
                (true, _) => Instant::now(),
                (false, true) => Instant::now() + *look_every,
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
                    () = bell.rung() => until = until.min(*looked_at + SPACING),
                    () = sleep_until(until) => break,
                }
            }
            *looked_at = Instant::now();
            let head = "SELECT seq, by_hand, epoch, epoch_after FROM sb_head";
            line.ask(&Query::new(head)).await
        })?;
        let no_head = || Error::Corrupt("it has no head".to_owned());
        let head = head.first().ok_or_else(no_head)?;
        *by_hand = head.int(1)?.is_some_and(|notes| notes != 0);
        let number = |at: usize| head.int(at).map(|it| it.map_or(0, i64::unsigned_abs));
        *epoch = LedgerEpoch {
            number: number(2)?,
            after: number(3)?,
        };
        let seq = number(0)?;
        seen.fetch_max(seq, Ordering::Relaxed);
        Ok(seq)
    }

    fn epoch(&self) -> LedgerEpoch {
        self.epoch
    }

    fn is_by_hand(&self) -> bool {
        self.by_hand
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

    // OFFSET 0 in both: ids lead to few rows, and the indexes of all that waits may be long.

    fn lanes_of(&mut self, tasks: &[TaskId]) -> Result<Vec<LaneKey>, Error> {
        let query = Query::new(
            "SELECT l.key FROM (SELECT lane, status FROM tasks WHERE id = ANY($1) OFFSET 0) t
             JOIN sb_lane l ON l.lane = t.lane WHERE t.status = 'ready'",
        );
        self.ask(&query.texts(tasks.iter().map(TaskId::as_str)), |row| {
            let key = row.text(0)?.unwrap_or_default();
            LaneKey::from_text(&key)
                .ok_or_else(|| Error::Corrupt(format!("a lane cannot be read: {key:?}")))
        })
    }

    fn recipients_of(&mut self, messages: &[MessageId]) -> Result<Vec<AgentId>, Error> {
        let query = Query::new(
            "SELECT DISTINCT agent FROM (
               SELECT d.agent, d.state FROM messages m JOIN sb_delivery d ON d.number = m.number
               WHERE m.id = ANY($1) OFFSET 0) found WHERE state = 'queued' LIMIT $2",
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

    use switchboard_test_cluster::{Cluster, Database, Server};
    use tokio_postgres::{AsyncMessage, Client};

    use super::*;
    use crate::postgres::PostgresEngine;

    /// Whoever waits longer than this waits in vain.
    const DEADLINE: Duration = Duration::from_secs(60);

    fn ledger(server: &Server) -> Database {
        let database = server.create_database();
        PostgresEngine::open(address(&database.url)).expect("a new database opens");
        database
    }

    fn address(url: &str) -> Address {
        Address::parse(url).expect("the cluster's address is understood")
    }

    fn tail(url: &str, me: i64) -> PostgresTail {
        let mut tail = PostgresTail::open(address(url), me, Arc::default())
            .expect("no connection is needed yet");
        assert_eq!(tail.wait().expect("it connects"), 0, "an empty ledger");
        tail
    }

    fn wait(mut tail: PostgresTail) -> Receiver<u64> {
        let (tell, told) = channel();
        thread::spawn(move || tell.send(tail.wait().expect("the head is read")));
        told
    }

    #[test]
    fn a_notification_of_another_ends_the_wait_and_ones_own_does_not() {
        let Some(server) = Cluster::shared("notifications between coordinators") else {
            return;
        };
        let database = ledger(server);
        let (mut left, mut right) = (tail(&database.url, 1), tail(&database.url, 2));
        for tail in [&mut left, &mut right] {
            assert!(tail.line.listens(), "no pooler is in between");
            tail.look_every = Duration::from_secs(24 * 3600);
        }
        let announce = left.announcer();
        let (left, right) = (wait(left), wait(right));
        database.sql("UPDATE sb_head SET seq = 7");
        announce(7);
        let heard = right.recv_timeout(DEADLINE).expect("it is told");
        assert_eq!(heard, 7, "what was committed");
        database.sql(&format!(
            "UPDATE sb_head SET seq = 8; NOTIFY {CHANNEL}, '3'"
        ));
        let heard = left.recv_timeout(DEADLINE).expect("a third one tells");
        assert_eq!(heard, 8, "it slept until then");
    }

    /// Hears what is said on the channel.
    struct Listener {
        here: Here,
        heard: tokio::sync::mpsc::UnboundedReceiver<String>,
        _client: Client,
    }

    impl Listener {
        fn on(database: &Database) -> Listener {
            let here = Here::new().expect("a runtime");
            let (tell, heard) = tokio::sync::mpsc::unbounded_channel();
            let address = address(&database.url);
            let client = here.run(async {
                let (client, mut connection) = address.connect().await.expect("it connects");
                tokio::spawn(async move {
                    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                        if let AsyncMessage::Notification(it) = message {
                            let _ = tell.send(it.payload().to_owned());
                        }
                    }
                });
                let listen = format!("LISTEN {CHANNEL}");
                client.batch_execute(&listen).await.expect("it listens");
                client
            });
            Listener {
                here,
                heard,
                _client: client,
            }
        }

        /// What was said until now.
        fn heard(&mut self, database: &Database) -> Vec<String> {
            database.sql(&format!("NOTIFY {CHANNEL}, 'now'"));
            let mut all = Vec::new();
            self.here.run(async {
                while let Some(payload) = self.heard.recv().await
                    && payload != "now"
                {
                    all.push(payload);
                }
            });
            all
        }
    }

    #[test]
    fn many_commits_are_announced_by_one_notification() {
        let Some(server) = Cluster::shared("coalesced notifications") else {
            return;
        };
        let database = ledger(server);
        let mut listener = Listener::on(&database);
        let mut tail = tail(&database.url, 42);
        let announce = tail.announcer();
        (1..=1000).for_each(&announce);
        announce(5);
        while tail.announced < 1000 {
            tail.wait().expect("the head is read");
        }
        assert_eq!(listener.heard(&database), ["42"]);
        announce(1001);
        while tail.announced < 1001 {
            tail.wait().expect("the head is read");
        }
        assert_eq!(listener.heard(&database), ["42"], "once more");
    }

    #[test]
    fn nothing_is_said_or_heard_where_notifications_are_off() {
        let Some(server) = Cluster::shared("notifications that are off") else {
            return;
        };
        let database = ledger(server);
        let mut listener = Listener::on(&database);
        let mut tail = tail(&format!("{}?notify=off", database.url), 42);
        assert!(!tail.line.listens());
        tail.announcer()(7);
        database.sql("UPDATE sb_head SET seq = 7");
        for _ in 0..10 {
            assert_eq!(tail.wait().expect("the head is read"), 7, "by looking");
        }
        assert!(listener.heard(&database).is_empty());
    }
}

//! Programs that know only the public tables: each thread has its own connection on the file, claims, completes, and claims again.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rusqlite::Connection;

use super::statements::{CLAIM, COMPLETE, Values, bound, claimed, rows_of};
use crate::load::{Outcome, Plan, Window};

/// As clients set it, after the notes on the protocol.
const BUSY_TIMEOUT: Duration = Duration::from_millis(5000);

/// How much of a commit is on disk when it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// SQLite's default: each commit is synced.
    Full,
    /// The log is synced at checkpoints only; a power failure may take the last commits back.
    Normal,
}

impl Durability {
    pub const ALL: [Self; 2] = [Self::Full, Self::Normal];

    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

/// One connection that works for one agent.
pub struct SqlClient {
    connection: Connection,
    agent: String,
}

impl SqlClient {
    /// On the hub's file.
    pub fn open(path: &Path, agent: String, durability: Durability) -> anyhow::Result<Self> {
        let connection = open(path, durability)?;
        Ok(Self { connection, agent })
    }

    /// On a file that is nobody's.
    pub fn open_bare(path: &Path, agent: String, durability: Durability) -> anyhow::Result<Self> {
        let connection = open_bare(path, durability)?;
        Ok(Self { connection, agent })
    }

    fn claim(&self) -> anyhow::Result<Option<(String, i64)>> {
        let values = Values {
            agent: &self.agent,
            ..Values::default()
        };
        claimed(bound(&self.connection, &CLAIM, values)?)
    }

    fn complete(&self, task: &str, epoch: i64) -> anyhow::Result<()> {
        let values = Values {
            agent: &self.agent,
            task,
            epoch,
        };
        let completed = rows_of(bound(&self.connection, &COMPLETE, values)?)?;
        ensure!(
            completed == 1,
            "{} does not hold task {task} any more",
            self.agent
        );
        Ok(())
    }
}

/// A connection on the hub's file, as a plain client has it. Checkpoints are the hub's business.
pub fn open(path: &Path, durability: Durability) -> anyhow::Result<Connection> {
    let connection = open_bare(path, durability)?;
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0")?;
    Ok(connection)
}

/// A connection on a file that nobody else looks after: its writers move the log themselves, every thousand pages.
pub fn open_bare(path: &Path, durability: Durability) -> anyhow::Result<Connection> {
    let connection =
        Connection::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    ensure!(
        mode == "wal",
        "SQLite refuses WAL on this disk (it says {mode})"
    );
    connection.execute_batch(&format!("PRAGMA synchronous = {}", durability.name()))?;
    Ok(connection)
}

/// How fast clients go.
#[derive(Clone, Copy)]
pub enum Pace {
    FlatOut,
    /// A pair at most this often.
    Every(Duration),
}

/// Runs the clients side by side, as the load generator runs its connections: latencies are those of a statement, units are pairs.
pub fn run(plan: Plan, pace: Pace, clients: Vec<SqlClient>) -> anyhow::Result<Outcome> {
    let ready = Barrier::new(clients.len());
    let stop = AtomicBool::new(false);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let running: Vec<_> = clients
            .into_iter()
            .map(|client| {
                let work = || {
                    ready.wait();
                    Work {
                        client,
                        window: Window::starting_now(plan),
                        outcome: Outcome::default(),
                        stop: &stop,
                    }
                    .run(pace)
                };
                scope.spawn(work)
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("the clients' threads do not panic"))
            .collect()
    });
    let mut sum = Outcome::default();
    for outcome in outcomes {
        sum.merge(outcome);
    }
    ensure!(
        sum.requests > 0 || sum.errors == 0,
        "no statement succeeded: {}",
        sum.errors_told.join("; ")
    );
    Ok(sum)
}

struct Work<'a> {
    client: SqlClient,
    window: Window,
    outcome: Outcome,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    fn run(mut self, pace: Pace) -> Outcome {
        while Instant::now() < self.window.closes_at && !self.stop.load(Ordering::Relaxed) {
            let began_at = Instant::now();
            match self.pair() {
                Ok(true) => {}
                // There is no work left for anybody.
                Ok(false) => self.stop.store(true, Ordering::Relaxed),
                Err(error) => self.outcome.fail(|| format!("{error:#}")),
            }
            if let Pace::Every(period) = pace {
                std::thread::sleep(period.saturating_sub(began_at.elapsed()));
            }
        }
        let ended_at = Instant::now().min(self.window.closes_at);
        self.outcome.elapsed = ended_at.saturating_duration_since(self.window.opens_at);
        self.outcome
    }

    /// Claims and completes one task; false if there was none.
    fn pair(&mut self) -> anyhow::Result<bool> {
        let claimed_at = Instant::now();
        let claimed = self.client.claim()?;
        self.count(claimed_at, 0);
        let Some((task, epoch)) = claimed else {
            return Ok(false);
        };
        let completed_at = Instant::now();
        self.client.complete(&task, epoch)?;
        self.count(completed_at, 1);
        Ok(true)
    }

    fn count(&mut self, sent_at: Instant, units: u64) {
        let now = Instant::now();
        if self.window.counts(now) {
            self.outcome.requests += 1;
            self.outcome.units += units;
            self.outcome.latency.record(now - sent_at);
        }
    }
}

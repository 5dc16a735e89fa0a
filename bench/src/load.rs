//! A closed-loop load generator: N connections, each sends, waits for the answer, and sends again.
//!
//! It shares the machine with the server it measures, so it is lean: one thread with its own event loop, buffers that are
//! reused, no look at an answer beyond what the script needs. The echo and the hub are measured by the same code.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use crate::histogram::Histogram;
use crate::http::{self, Answer};

/// A run that does not come to its end this long after it should have is given up.
const GRACE: Duration = Duration::from_secs(60);
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// How many failures are kept with their words; the others are counted.
const ERRORS_TOLD_MAX: usize = 3;

/// What one connection says, and how it takes the answers.
pub trait Script: Send + 'static {
    /// Writes the next request.
    fn request(&mut self, out: &mut Vec<u8>);

    /// Looks at the answer to the request written last.
    fn answer(&mut self, answer: &Answer<'_>) -> Verdict;

    /// Cuts one answer out of what arrived so far.
    fn cut<'a>(&self, buffer: &'a [u8]) -> anyhow::Result<Option<Answer<'a>>> {
        http::cut(buffer)
    }
}

/// What an answer was worth.
pub enum Verdict {
    /// As hoped; `units` is what the caller wants to have summed up.
    Good {
        units: u64,
    },
    Failed,
    /// There is no more work for anybody: the run ends here.
    Exhausted,
}

/// How long to load, and with what.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Load that is not counted, so that buffers and caches are warm.
    pub warm_up_for: Duration,
    pub measure_for: Duration,
}

/// What a run showed.
#[derive(Default)]
pub struct Outcome {
    pub requests: u64,
    pub units: u64,
    pub errors: u64,
    pub errors_told: Vec<String>,
    pub elapsed: Duration,
    pub latency: Histogram,
}

impl Outcome {
    pub fn requests_per_s(&self) -> f64 {
        per_second(self.requests, self.elapsed)
    }

    pub fn units_per_s(&self) -> f64 {
        per_second(self.units, self.elapsed)
    }

    /// Counts a failure, and keeps the words of the first ones.
    pub fn fail(&mut self, told: impl FnOnce() -> String) {
        self.errors += 1;
        if self.errors_told.len() < ERRORS_TOLD_MAX {
            self.errors_told.push(told());
        }
    }
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// Runs one connection per script until the time is over or the work is done.
pub fn run<S: Script>(plan: Plan, server: SocketAddr, scripts: Vec<S>) -> anyhow::Result<Outcome> {
    let to_one = scripts.into_iter().map(|script| (server, script));
    run_spread(plan, to_one.collect())
}

/// The same, with a server for each connection.
pub fn run_spread<S: Script>(plan: Plan, scripts: Vec<(SocketAddr, S)>) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the load generator's event loop")?;
    let local = LocalSet::new();
    let stop = Rc::new(Cell::new(false));
    let outcome = local.block_on(&runtime, async {
        let streams = connect_all(&scripts).await?;
        let window = Window::starting_now(plan);
        let deadline = window.closes_at + GRACE;
        let outcome = Rc::new(RefCell::new(Outcome::default()));
        let mut running = JoinSet::new();
        for (stream, (_, script)) in streams.into_iter().zip(scripts) {
            let connection = Connection {
                stream,
                script,
                outcome: Rc::clone(&outcome),
                window,
                stop: Rc::clone(&stop),
            };
            running.spawn_local(connection.drive());
        }
        let all_done = async {
            while let Some(done) = running.join_next().await {
                done.expect("a connection does not panic");
            }
        };
        tokio::time::timeout_at(deadline.into(), all_done)
            .await
            .context("the server stopped answering in the middle of a run")?;
        let ended_at = Instant::now().min(window.closes_at);
        let mut outcome = std::mem::take(&mut *outcome.borrow_mut());
        outcome.elapsed = ended_at.saturating_duration_since(window.opens_at);
        anyhow::Ok(outcome)
    })?;
    if outcome.requests == 0 {
        bail!("nothing succeeded: {}", outcome.errors_told.join("; "));
    }
    Ok(outcome)
}

async fn connect_all<S>(scripts: &[(SocketAddr, S)]) -> anyhow::Result<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(scripts.len());
    for &(server, _) in scripts {
        let stream = TcpStream::connect(server).await;
        let stream = stream.with_context(|| format!("cannot connect to {server}"))?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    Ok(streams)
}

/// The time in which answers count.
#[derive(Clone, Copy)]
pub struct Window {
    pub opens_at: Instant,
    pub closes_at: Instant,
}

impl Window {
    pub fn starting_now(plan: Plan) -> Self {
        let opens_at = Instant::now() + plan.warm_up_for;
        Self {
            opens_at,
            closes_at: opens_at + plan.measure_for,
        }
    }

    pub fn counts(&self, answered_at: Instant) -> bool {
        self.opens_at <= answered_at && answered_at <= self.closes_at
    }
}

struct Connection<S> {
    stream: TcpStream,
    script: S,
    outcome: Rc<RefCell<Outcome>>,
    window: Window,
    stop: Rc<Cell<bool>>,
}

impl<S: Script> Connection<S> {
    async fn drive(mut self) {
        if let Err(error) = self.exchange_all().await {
            let mut outcome = self.outcome.borrow_mut();
            outcome.fail(|| format!("connection lost: {error:#}"));
        }
    }

    async fn exchange_all(&mut self) -> anyhow::Result<()> {
        let (mut out, mut arrived) = (Vec::new(), Vec::with_capacity(READ_BUFFER_BYTES));
        let mut now = Instant::now();
        while now < self.window.closes_at && !self.stop.get() {
            out.clear();
            self.script.request(&mut out);
            let sent_at = now;
            self.stream.write_all(&out).await?;
            now = self.take_answer(&mut arrived, sent_at).await?;
        }
        Ok(())
    }

    /// Reads until the answer is whole, lets the script judge it, counts it.
    async fn take_answer(
        &mut self,
        arrived: &mut Vec<u8>,
        sent_at: Instant,
    ) -> anyhow::Result<Instant> {
        loop {
            if self.stream.read_buf(arrived).await? == 0 {
                bail!("the server closed it");
            }
            let Some(answer) = self.script.cut(arrived)? else {
                continue;
            };
            let now = Instant::now();
            let mut outcome = self.outcome.borrow_mut();
            match self.script.answer(&answer) {
                Verdict::Good { units } if self.window.counts(now) => {
                    outcome.units += units;
                    outcome.requests += 1;
                    outcome.latency.record(now - sent_at);
                }
                Verdict::Good { .. } => {}
                Verdict::Failed => outcome.fail(|| describe(&answer)),
                Verdict::Exhausted => self.stop.set(true),
            }
            let used = answer.used;
            drop(answer);
            arrived.drain(..used);
            return Ok(now);
        }
    }
}

fn describe(answer: &Answer<'_>) -> String {
    const BYTES_TOLD_MAX: usize = 300;
    let body = &answer.body[..answer.body.len().min(BYTES_TOLD_MAX)];
    format!("{} {}", answer.status, String::from_utf8_lossy(body))
}

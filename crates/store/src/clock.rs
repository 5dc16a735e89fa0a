//! What time it is: [`steady`] is the arithmetic, here are the clocks that it reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use switchboard_core::Timestamp;

use crate::Error;

mod steady;

pub use steady::{Mark, Reading};
pub(crate) use steady::{Steady, Unbelievable, unbelievable};

/// The clocks of a machine.
pub trait Clock: Send {
    fn read(&mut self) -> Reading;

    /// Names the start of the machine; empty where that is not known.
    fn boot(&self) -> &str;
}

/// The clocks of this machine.
#[derive(Debug)]
pub struct SystemClock {
    boot: String,
    /// Where no clock counts from the start of the machine.
    since: Instant,
}

impl SystemClock {
    pub fn new() -> Self {
        SystemClock {
            boot: boot_id().unwrap_or_default(),
            since: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn read(&mut self) -> Reading {
        Reading {
            wall: wall(),
            ran: ran().unwrap_or_else(|| self.since.elapsed()),
        }
    }

    fn boot(&self) -> &str {
        &self.boot
    }
}

#[cfg(target_os = "linux")]
fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> Option<String> {
    None
}

/// Counts also while the machine sleeps.
#[cfg(target_os = "linux")]
fn ran() -> Option<Duration> {
    let ran = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(ran).ok()
}

#[cfg(not(target_os = "linux"))]
fn ran() -> Option<Duration> {
    None
}

fn wall() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A clock that tests move by hand: as time that passes, or as a wall clock that is set.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now: Arc<AtomicI64>,
    ahead: Arc<AtomicI64>,
}

impl ManualClock {
    pub fn at(start: Timestamp) -> Self {
        ManualClock {
            now: Arc::new(AtomicI64::new(start.0)),
            ahead: Arc::default(),
        }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.now.fetch_add(millis, Ordering::SeqCst);
    }

    pub fn set(&self, to: Timestamp) {
        self.now.store(to.0, Ordering::SeqCst);
    }

    /// Sets the wall clock alone: so many milliseconds ahead of the time that passes, or behind.
    pub fn set_wall_ahead(&self, by_ms: i64) {
        self.ahead.store(by_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn read(&mut self) -> Reading {
        let now = self.now();
        Reading {
            wall: Timestamp(now.0.saturating_add(self.ahead.load(Ordering::SeqCst))),
            ran: now.since(Timestamp::ZERO),
        }
    }

    fn boot(&self) -> &str {
        "by hand"
    }
}

/// The ledger's time by the clocks of one machine.
pub(crate) struct LedgerClock {
    clock: Box<dyn Clock>,
    steady: Option<Steady>,
    /// The wall clock's word is taken, however long nobody served.
    trusts_wall: bool,
}

impl LedgerClock {
    pub fn new(clock: Box<dyn Clock>) -> Self {
        LedgerClock {
            clock,
            steady: None,
            trusts_wall: false,
        }
    }

    /// Looks, before the ledger is served, whether its time can go on by itself.
    pub fn start(&mut self, wall: Wall, mark: &Mark, seen: Timestamp) -> Result<(), Error> {
        self.trusts_wall = wall == Wall::Trusted;
        let reading = self.clock.read();
        wall.believe(unbelievable(mark, self.clock.boot(), reading, seen))
    }

    /// What time it is if the ledger has seen `seen`; `mark` is where it stopped, asked for once.
    pub fn tell<E>(
        &mut self,
        seen: Timestamp,
        mark: impl FnOnce() -> Result<Mark, E>,
    ) -> Result<Moment, E> {
        let reading = self.clock.read();
        let steady = match &mut self.steady {
            Some(steady) => {
                steady.tell(reading, seen);
                steady
            }
            none if self.trusts_wall => none.insert(Steady::trusting(&mark()?, reading, seen)),
            none => none.insert(Steady::resume(&mark()?, self.clock.boot(), reading, seen)),
        };
        Ok(Moment {
            now: steady.now(),
            wall: steady.wall(),
            clock_stepped_ms: steady.take_step(),
        })
    }

    /// Where the ledger stands, as of the last time that was told.
    pub fn mark(&self) -> Mark {
        let mark = |steady: &Steady| steady.mark(self.clock.boot());
        self.steady.as_ref().map(mark).unwrap_or_default()
    }
}

/// Whether somebody vouches for the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    Checked,
    Trusted,
}

impl Wall {
    pub(crate) fn believe(self, doubt: Option<Unbelievable>) -> Result<(), Error> {
        match (self, doubt) {
            (Wall::Checked, Some(Unbelievable { last, wall })) => {
                Err(Error::ClockInDoubt { last, wall })
            }
            (Wall::Trusted, _) | (Wall::Checked, None) => Ok(()),
        }
    }
}

/// The time at the beginning of a batch.
pub(crate) struct Moment {
    pub now: Timestamp,
    pub wall: Timestamp,
    pub clock_stepped_ms: Option<i64>,
}

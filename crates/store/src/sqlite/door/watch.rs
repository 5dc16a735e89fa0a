//! Looks at a running statement every so many instructions, and stops it when it goes too far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::ffi;

use super::turn::Turn;
use super::{HUB_WAITS_MAX, MEMORY_BYTES_MAX};

#[derive(Debug)]
pub(super) struct StatementWatch {
    began: Instant,
    /// Microseconds after `began`.
    stop_at: AtomicU64,
    /// The statement, or the transaction around it, keeps others from writing.
    writes: AtomicBool,
    /// What the process had in use when it was first looked at; 0 before.
    memory: AtomicU64,
    /// When to look at it again.
    memory_at: AtomicU64,
    why: AtomicU8,
    /// What functions did since it was last looked at.
    steps: AtomicU64,
}

/// Looks at a statement from inside of a function: a call is one instruction, however long it takes.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    watch: Arc<StatementWatch>,
    turn: Arc<Turn>,
}

/// Why a statement was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Time = 1,
    HubWaits = 2,
    Memory = 3,
    Closed = 4,
}

/// Nearly all statements are done before their memory is looked at once.
const MEMORY_EVERY: Duration = Duration::from_millis(5);
/// Steps of functions between two looks.
const STEPS: u64 = 16 * 1024;

impl Meter {
    pub fn new(watch: &Arc<StatementWatch>, turn: &Arc<Turn>) -> Self {
        Meter {
            watch: Arc::clone(watch),
            turn: Arc::clone(turn),
        }
    }

    /// Charges for work, and refuses to go on when the statement must stop.
    pub fn charge(&self, steps: usize) -> rusqlite::Result<()> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let before = self.watch.steps.fetch_add(steps, Ordering::Relaxed);
        if before.saturating_add(steps) < STEPS {
            return Ok(());
        }
        self.watch.steps.store(0, Ordering::Relaxed);
        match self.watch.must_stop(&self.turn) {
            true => Err(rusqlite::Error::SqliteFailure(
                ffi::Error::new(ffi::SQLITE_INTERRUPT),
                None,
            )),
            false => Ok(()),
        }
    }
}

impl StatementWatch {
    pub fn new() -> Self {
        StatementWatch {
            began: Instant::now(),
            stop_at: AtomicU64::new(u64::MAX),
            writes: AtomicBool::new(false),
            memory: AtomicU64::new(0),
            memory_at: AtomicU64::new(0),
            why: AtomicU8::new(0),
            steps: AtomicU64::new(0),
        }
    }

    /// From now on a statement runs, until `until` at the latest.
    pub fn begin(&self, until: Instant, writes: bool) {
        self.why.store(0, Ordering::Relaxed);
        self.writes.store(writes, Ordering::Relaxed);
        self.memory.store(0, Ordering::Relaxed);
        let at = self.micros(Instant::now() + MEMORY_EVERY);
        self.memory_at.store(at, Ordering::Relaxed);
        self.stop_at.store(self.micros(until), Ordering::Relaxed);
    }

    /// The statement turned out to write.
    pub fn shorten(&self, until: Instant) {
        self.writes.store(true, Ordering::Relaxed);
        let until = self.micros(until);
        self.stop_at.fetch_min(until, Ordering::Relaxed);
    }

    /// No statement runs; what the connection does now, it does for itself.
    pub fn end(&self) {
        self.stop_at.store(u64::MAX, Ordering::Relaxed);
    }

    pub fn why(&self) -> Option<Why> {
        [Why::Time, Why::HubWaits, Why::Memory, Why::Closed]
            .into_iter()
            .find(|why| *why as u8 == self.why.load(Ordering::Relaxed))
    }

    pub fn must_stop(&self, turn: &Turn) -> bool {
        let stop_at = self.stop_at.load(Ordering::Relaxed);
        if stop_at == u64::MAX {
            return false;
        }
        let now = self.micros(Instant::now());
        let why = if now >= stop_at {
            Why::Time
        } else if self.writes.load(Ordering::Relaxed) && hub_waits(turn) {
            Why::HubWaits
        } else if now >= self.memory_at.load(Ordering::Relaxed) && self.takes_too_much(now) {
            Why::Memory
        } else if turn.is_closed() {
            Why::Closed
        } else {
            return false;
        };
        self.why.store(why as u8, Ordering::Relaxed);
        true
    }

    fn takes_too_much(&self, now: u64) -> bool {
        let every = u64::try_from(MEMORY_EVERY.as_micros()).unwrap_or(u64::MAX);
        self.memory_at
            .store(now.saturating_add(every), Ordering::Relaxed);
        let Some(used) = memory_used() else {
            return false;
        };
        let before = self.memory.load(Ordering::Relaxed);
        if before == 0 {
            self.memory.store(used.max(1), Ordering::Relaxed);
            return false;
        }
        used > before.saturating_add(MEMORY_BYTES_MAX)
    }

    fn micros(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.began);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX - 1)
    }
}

fn hub_waits(turn: &Turn) -> bool {
    let waited = turn.hub_waited();
    waited.is_some_and(|waited| waited > HUB_WAITS_MAX)
}

/// What this process has in use, where the system tells. SQLite itself does not count: that would cost every
/// allocation a lock.
pub(super) fn memory_used() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes = line.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_stopped_for_the_first_reason_there_is() {
        let (turn, watch) = (Turn::new(), StatementWatch::new());
        let later = Instant::now() + Duration::from_secs(60);
        assert!(!watch.must_stop(&turn), "nothing runs");
        watch.begin(later, false);
        assert!(!watch.must_stop(&turn));
        watch.begin(Instant::now(), false);
        assert!(watch.must_stop(&turn));
        assert_eq!(watch.why(), Some(Why::Time));
        watch.begin(later, false);
        assert_eq!(watch.why(), None);
        watch.shorten(Instant::now());
        assert!(watch.must_stop(&turn));
        watch.end();
        turn.close();
        assert!(!watch.must_stop(&turn), "a rollback is not disturbed");
        watch.begin(later, true);
        assert!(watch.must_stop(&turn));
        assert_eq!(watch.why(), Some(Why::Closed));
    }
    #[test]
    fn work_is_charged_until_the_statement_must_stop() {
        let (turn, watch) = (Arc::new(Turn::new()), Arc::new(StatementWatch::new()));
        let meter = Meter::new(&watch, &turn);
        meter.charge(usize::MAX).unwrap();
        watch.begin(Instant::now(), false);
        for _ in 0..STEPS - 1 {
            meter.charge(1).unwrap();
        }
        assert!(meter.charge(1).is_err());
        assert_eq!(watch.why(), Some(Why::Time));
    }
}

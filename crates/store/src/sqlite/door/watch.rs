//! Looks at a running statement every so many instructions, and stops it when it goes too far.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::turn::Turn;
use super::{HUB_WAITS_MAX, MEMORY_BYTES_MAX};

#[derive(Debug)]
pub(super) struct Watch {
    began: Instant,
    /// Microseconds after `began`.
    stop_at: AtomicU64,
    /// The statement, or the transaction around it, keeps others from writing.
    writes: AtomicBool,
    memory_max: AtomicI64,
    why: AtomicU8,
}

/// Why a statement was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Time = 1,
    HubWaits = 2,
    Memory = 3,
    Closed = 4,
}

impl Watch {
    pub fn new() -> Self {
        Watch {
            began: Instant::now(),
            stop_at: AtomicU64::new(u64::MAX),
            writes: AtomicBool::new(false),
            memory_max: AtomicI64::new(i64::MAX),
            why: AtomicU8::new(0),
        }
    }

    /// From now on a statement runs, until `until` at the latest.
    pub fn begin(&self, until: Instant, writes: bool) {
        self.why.store(0, Ordering::Relaxed);
        self.writes.store(writes, Ordering::Relaxed);
        let memory = memory_used().saturating_add(MEMORY_BYTES_MAX);
        self.memory_max.store(memory, Ordering::Relaxed);
        self.stop_at.store(self.micros(until), Ordering::Relaxed);
    }

    /// The statement turned out to write.
    pub fn shorten(&self, until: Instant) {
        self.writes.store(true, Ordering::Relaxed);
        self.stop_at
            .fetch_min(self.micros(until), Ordering::Relaxed);
    }

    /// No statement runs; what the connection does now, it does for itself.
    pub fn end(&self) {
        self.stop_at.store(u64::MAX, Ordering::Relaxed);
        self.writes.store(false, Ordering::Relaxed);
        self.memory_max.store(i64::MAX, Ordering::Relaxed);
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
        let hub_waits = || {
            turn.hub_waited()
                .is_some_and(|waited| waited > HUB_WAITS_MAX)
        };
        let why = if self.micros(Instant::now()) >= stop_at {
            Why::Time
        } else if self.writes.load(Ordering::Relaxed) && hub_waits() {
            Why::HubWaits
        } else if memory_used() > self.memory_max.load(Ordering::Relaxed) {
            Why::Memory
        } else if turn.is_closed() {
            Why::Closed
        } else {
            return false;
        };
        self.why.store(why as u8, Ordering::Relaxed);
        true
    }

    fn micros(&self, at: Instant) -> u64 {
        let since: Duration = at.saturating_duration_since(self.began);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX - 1)
    }
}

/// What all connections of this process have in use.
#[allow(unsafe_code)]
fn memory_used() -> i64 {
    // SAFETY: it takes nothing, changes nothing, and may be called by any thread at any time.
    unsafe { rusqlite::ffi::sqlite3_memory_used() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_stopped_for_the_first_reason_there_is() {
        let (turn, watch) = (Turn::new(), Watch::new());
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
}

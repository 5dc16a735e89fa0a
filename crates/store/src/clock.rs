//! What time it is: the wall clock when the process began, carried on by the monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use switchboard_core::Timestamp;

pub trait Clock: Send {
    fn now(&mut self) -> Timestamp;

    /// The ledger has seen this instant: time goes on from there at the least.
    fn at_least(&mut self, _at: Timestamp) {}

    /// How far the wall clock was set back since the last question; told once.
    fn stepped_back_ms(&mut self) -> Option<u64> {
        None
    }
}

/// Follows the wall clock forwards (a machine that slept), never backwards.
#[derive(Debug)]
pub struct SystemClock {
    base: Timestamp,
    since: Instant,
    behind_ms: i64,
    told_ms: i64,
}

/// Drift up to this is left to the monotonic clock.
const SLACK_MS: i64 = 1000;

impl SystemClock {
    pub fn new() -> Self {
        SystemClock {
            base: wall(),
            since: Instant::now(),
            behind_ms: 0,
            told_ms: 0,
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&mut self) -> Timestamp {
        let steady = self.base + self.since.elapsed();
        let ahead = wall().0 - steady.0;
        if ahead > SLACK_MS {
            self.base = Timestamp(steady.0 + ahead);
            self.since = Instant::now();
            self.behind_ms = 0;
            self.told_ms = 0;
            return self.base;
        }
        self.behind_ms = (-ahead).max(0);
        steady
    }

    fn at_least(&mut self, at: Timestamp) {
        if self.now() < at {
            self.base = at;
            self.since = Instant::now();
        }
    }

    fn stepped_back_ms(&mut self) -> Option<u64> {
        if self.behind_ms - self.told_ms > SLACK_MS {
            self.told_ms = self.behind_ms;
            return u64::try_from(self.behind_ms).ok();
        }
        None
    }
}

fn wall() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A clock that tests move by hand.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    pub fn at(start: Timestamp) -> Self {
        ManualClock(Arc::new(AtomicI64::new(start.0)))
    }

    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    pub fn set(&self, to: Timestamp) {
        self.0.store(to.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&mut self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_from_what_the_ledger_has_seen() {
        let mut clock = SystemClock::new();
        let tomorrow = clock.now() + Duration::from_secs(24 * 3600);
        clock.at_least(tomorrow);
        let first = clock.now();
        assert!(first >= tomorrow);
        while clock.now() == first {
            std::hint::spin_loop();
        }
        assert!(clock.stepped_back_ms().is_some_and(|by| by > 86_000_000));
        assert_eq!(clock.stepped_back_ms(), None, "told once");
    }
}

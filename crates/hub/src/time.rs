//! What time it is on the ledger, between batches.
//!
//! Every batch brings the ledger's time; from there the monotonic clock carries on. The machine's own idea of the
//! date is never asked, so that coordinators with wrong clocks decide and answer like all others.

use std::time::Instant;

use parking_lot::Mutex;
use switchboard_core::Timestamp;

pub(crate) struct LedgerTime(Mutex<Heard>);

struct Heard {
    now: Timestamp,
    wall: Timestamp,
    at: Instant,
    /// The latest that anybody was told.
    told: Timestamp,
}

impl LedgerTime {
    pub fn new() -> Self {
        LedgerTime(Mutex::new(Heard {
            now: Timestamp::ZERO,
            wall: Timestamp::ZERO,
            at: Instant::now(),
            told: Timestamp::ZERO,
        }))
    }

    /// It was `now` on the ledger at this instant, and the wall clock showed `wall`.
    pub fn heard(&self, now: Timestamp, wall: Timestamp, at: Instant) {
        let mut heard = self.0.lock();
        (heard.now, heard.wall, heard.at) = (now, wall, at);
    }

    /// What the wall clock shows: what signatures are held against. It may be set, back too.
    pub fn wall(&self) -> Timestamp {
        let heard = self.0.lock();
        heard.wall + heard.at.elapsed()
    }

    /// How far the wall clock was ahead of the ledger's at the last batch, in milliseconds.
    pub fn wall_ahead_ms(&self) -> i64 {
        let heard = self.0.lock();
        heard.wall.0.saturating_sub(heard.now.0)
    }

    /// Never goes back: what was told too early is told again until it is true.
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    fn at(&self, instant: Instant) -> Timestamp {
        let mut heard = self.0.lock();
        let estimate = heard.now + instant.saturating_duration_since(heard.at);
        heard.told = heard.told.max(estimate);
        heard.told
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn time_goes_on_between_batches_and_never_back() {
        let time = LedgerTime::new();
        let start = Instant::now();
        time.heard(Timestamp(1_000_000), Timestamp::ZERO, start);
        assert_eq!(time.at(start), Timestamp(1_000_000));
        assert_eq!(time.at(start + 3 * SECOND), Timestamp(1_003_000));
        // The ledger's clock is slower than ours.
        time.heard(Timestamp(1_002_000), Timestamp::ZERO, start + 3 * SECOND);
        assert_eq!(time.at(start + 3 * SECOND), Timestamp(1_003_000));
        assert_eq!(time.at(start + 5 * SECOND), Timestamp(1_004_000));
        // It stands still: so does what we tell, but for the time since the last word.
        for second in 5..100 {
            time.heard(
                Timestamp(1_004_000),
                Timestamp::ZERO,
                start + second * SECOND,
            );
        }
        assert_eq!(time.at(start + 100 * SECOND), Timestamp(1_005_000));
    }
}

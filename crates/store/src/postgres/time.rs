//! The ledger's time: the database's clock, which may be set back, or be another one after a failover.

use std::time::Duration;

use switchboard_core::Timestamp;

#[derive(Debug, Default)]
pub(super) struct LedgerTime {
    /// How far the ledger is ahead of the clock.
    ahead_ms: i64,
    /// The latest instant that was told.
    last: Timestamp,
}

/// A clock that is behind by this much or less was not set back.
const SLACK_MS: i64 = 1000;

impl LedgerTime {
    /// What time it is by the clock of this machine, so long after it was last told.
    pub fn estimate(&mut self, since: Duration) -> Timestamp {
        self.last = self.last + since;
        self.last
    }

    /// What time it is when the clock shows `shown` and the ledger has seen `seen`; and how far the clock was set back,
    /// told once. Time goes on from what was seen, at the clock's pace, until the clock has caught up.
    pub fn tell(&mut self, shown: Timestamp, seen: Timestamp) -> (Timestamp, Option<u64>) {
        let last = seen.max(self.last);
        let behind = last.0 - shown.0;
        let mut stepped_back = None;
        if behind <= 0 {
            self.ahead_ms = 0;
        } else if behind > self.ahead_ms {
            let step = behind - self.ahead_ms;
            stepped_back = u64::try_from(step).ok().filter(|_| step > SLACK_MS);
            self.ahead_ms = behind;
        }
        self.last = Timestamp(shown.0 + self.ahead_ms);
        (self.last, stepped_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back_nor_stands_still() {
        const HOUR: i64 = 3_600_000;
        let mut time = LedgerTime::default();
        let mut tell = |shown: i64, seen: i64| {
            let (now, back) = time.tell(Timestamp(shown), Timestamp(seen));
            (now.0, back)
        };
        assert_eq!(tell(2 * HOUR, 0), (2 * HOUR, None));
        // Set back by an hour: told once, and the ledger goes on.
        assert_eq!(tell(HOUR, 2 * HOUR), (2 * HOUR, Some(HOUR.unsigned_abs())));
        assert_eq!(tell(HOUR + 10, 2 * HOUR), (2 * HOUR + 10, None));
        // Another coordinator was a little further.
        assert_eq!(tell(HOUR + 20, 2 * HOUR + 50), (2 * HOUR + 50, None));
        assert_eq!(tell(HOUR + 30, 0), (2 * HOUR + 60, None));
        // Put right again.
        assert_eq!(tell(2 * HOUR + 70, 0), (2 * HOUR + 70, None));
    }
}

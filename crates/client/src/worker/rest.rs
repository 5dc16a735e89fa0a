//! How long the slots of a worker rest once their program has met its usage limit.

use std::time::Duration;

use switchboard_child::stream::Reset;
use tokio::time::Instant;

/// After a limit that does not tell when it ends; twice as long each time that it is met again right afterwards.
const FIRST_FOR: Duration = Duration::from_secs(5 * 60);
const FOR_MAX: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Default)]
pub(super) struct Rest {
    until: Option<Instant>,
    /// Limits that did not tell when they end, one after the other.
    untold: u32,
}

impl Rest {
    /// The limit was met. `wall` is the time since 1970.
    pub(super) fn limited(&mut self, reset: Option<Reset>, now: Instant, wall: Duration) {
        let left = reset.map(|reset| match reset {
            Reset::At(at) => Duration::from_secs(at).saturating_sub(wall),
            Reset::In(left) => Duration::from_secs(left),
        });
        // One that is over by what it tells, and yet is met, tells nothing.
        let told = left.filter(|left| !left.is_zero());
        let until = match told.and_then(|left| now.checked_add(left)) {
            Some(until) => until,
            // Another slot has just met it.
            None if self.left(now).is_some() => return,
            None => {
                let factor = 2_u32.checked_pow(self.untold).unwrap_or(u32::MAX);
                self.untold += 1;
                now + FIRST_FOR.saturating_mul(factor).min(FOR_MAX)
            }
        };
        self.until = self.until.max(Some(until));
    }

    /// The program did its work.
    pub(super) fn worked(&mut self) {
        self.untold = 0;
    }

    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Duration = Duration::from_secs(1_000_000);

    #[test]
    fn a_limit_that_tells_its_end_is_rested_for_until_then() {
        let now = Instant::now();
        for (reset, left) in [(Reset::At(1_000_090), 90), (Reset::In(7), 7)] {
            let mut rest = Rest::default();
            rest.limited(Some(reset), now, WALL);
            assert_eq!(rest.left(now), Some(Duration::from_secs(left)));
            assert_eq!(rest.left(now + Duration::from_secs(left)), None);
        }
        let mut rest = Rest::default();
        rest.limited(Some(Reset::In(90)), now, WALL);
        rest.limited(Some(Reset::In(7)), now, WALL);
        assert_eq!(rest.left(now), Some(Duration::from_secs(90)));
    }

    #[test]
    fn without_an_end_it_is_five_minutes_doubling_to_an_hour_until_something_was_done() {
        let mut now = Instant::now();
        let mut rest = Rest::default();
        let over = [None, Some(Reset::At(999_999)), Some(Reset::In(u64::MAX))];
        for (reset, minutes) in over.into_iter().cycle().zip([5, 10, 20, 40, 60, 60]) {
            rest.limited(reset, now, WALL);
            // Another slot meets it in the same moment.
            rest.limited(reset, now, WALL);
            let left = rest.left(now).expect("it rests");
            assert_eq!(left, Duration::from_secs(minutes * 60), "{reset:?}");
            now += left;
        }
        rest.untold = 400;
        rest.limited(None, now, WALL);
        assert_eq!(rest.left(now), Some(FOR_MAX));
        now += FOR_MAX;
        rest.worked();
        rest.limited(None, now, WALL);
        assert_eq!(rest.left(now), Some(FIRST_FOR));
    }
}

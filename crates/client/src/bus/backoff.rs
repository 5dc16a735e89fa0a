//! How long to wait before connecting again: longer each time, up to a bound, and never in step with others.

use std::time::Duration;

use ulid::Ulid;

/// A connection that lasted so long was good: the next wait is a first one.
pub(super) const GOOD_AFTER: Duration = Duration::from_secs(10);

/// The bounds of the waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// No first wait is longer; the bound doubles with each try.
    pub first: Duration,
    /// No wait is longer.
    pub max: Duration,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            max: Duration::from_secs(30),
        }
    }
}

/// The waits of one client. They do not end: whoever is cut off tries for as long as it lives.
///
/// Each wait is drawn evenly from nothing to its bound, so that clients that were cut off together come back apart.
#[derive(Clone, Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    tries: u32,
    dice: Dice,
}

impl Backoff {
    /// `seed` tells one client's waits from another's.
    pub fn new(policy: BackoffPolicy, seed: u64) -> Self {
        Self {
            policy,
            tries: 0,
            dice: Dice(seed),
        }
    }

    /// Seeded differently for every client that ever was.
    pub fn random(policy: BackoffPolicy) -> Self {
        Self::new(policy, Ulid::generate().random() as u64)
    }

    /// The wait before the next try.
    pub fn draw(&mut self) -> Duration {
        let bound = self.bound();
        self.tries = self.tries.saturating_add(1);
        bound.mul_f64(self.dice.roll())
    }

    /// The longest that the next wait can be.
    pub fn bound(&self) -> Duration {
        let doubled = 1u32.checked_shl(self.tries).filter(|factor| *factor > 0);
        doubled
            .and_then(|factor| self.policy.first.checked_mul(factor))
            .unwrap_or(self.policy.max)
            .min(self.policy.max)
    }

    /// The connection was good: the next wait is a first one again.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

/// SplitMix64: small, even, and nobody's secret depends on it.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    /// From 0 up to, but not including, 1.
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // As many bits as a float keeps exactly.
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(bounds: &[Duration]) -> Vec<u64> {
        bounds.iter().map(Duration::as_secs).collect()
    }

    #[test]
    fn bounds_double_up_to_the_ceiling_and_never_end() {
        // agentbus.reconnect.bounded_backoff
        let mut backoff = Backoff::new(BackoffPolicy::default(), 7);
        let bounds: Vec<Duration> = (0..8)
            .map(|_| {
                let bound = backoff.bound();
                assert!(backoff.draw() <= bound);
                bound
            })
            .collect();
        assert_eq!(secs(&bounds), [1, 2, 4, 8, 16, 30, 30, 30]);
        for _ in 0..1000 {
            assert!(backoff.draw() <= Duration::from_secs(30));
        }
        assert_eq!(backoff.bound(), Duration::from_secs(30));
        backoff.reset();
        assert_eq!(backoff.bound(), Duration::from_secs(1));
    }

    #[test]
    fn no_policy_overflows() {
        let policy = BackoffPolicy {
            first: Duration::from_secs(u64::MAX / 2),
            max: Duration::from_secs(60),
        };
        let mut backoff = Backoff::new(policy, 1);
        for _ in 0..100 {
            assert!(backoff.draw() <= policy.max);
        }
    }

    #[test]
    fn clients_that_were_cut_off_together_come_back_apart() {
        // agentbus.reconnect.jitter
        let policy = BackoffPolicy::default();
        let mut clients: Vec<Backoff> = (0..64).map(|seed| Backoff::new(policy, seed)).collect();
        let mut instants = vec![Duration::ZERO; clients.len()];
        for _ in 0..5 {
            for (client, at) in clients.iter_mut().zip(&mut instants) {
                *at += client.draw();
            }
            let mut millis: Vec<u128> = instants.iter().map(Duration::as_millis).collect();
            millis.sort_unstable();
            millis.dedup();
            assert!(millis.len() > 56, "{} of 64 apart", millis.len());
        }
    }

    #[test]
    fn waits_are_drawn_from_the_whole_range() {
        let policy = BackoffPolicy {
            first: Duration::from_secs(10),
            max: Duration::from_secs(10),
        };
        let mut backoff = Backoff::new(policy, 3);
        let mut tenths = [0u32; 10];
        for _ in 0..10_000 {
            tenths[backoff.draw().as_secs() as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (800..1200).contains(count)));
    }
}

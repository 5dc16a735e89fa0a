//! When to try again, and how long to wait before.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// How transient errors are retried.
///
/// The default is the protocol's own: three tries, waiting 1 s, then 2 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a call is sent at most; 1 means never again.
    pub tries: u32,
    /// The wait after the first failure; it doubles each time.
    pub first_wait: Duration,
    /// No wait is longer. A `Retry-After` beyond it ends the call instead of being cut short.
    pub wait_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            tries: 3,
            first_wait: Duration::from_secs(1),
            wait_max: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// Send once and report whatever happens.
    pub const NEVER: Self = Self {
        tries: 1,
        first_wait: Duration::ZERO,
        wait_max: Duration::ZERO,
    };

    /// The waits between the tries.
    pub(crate) fn waits(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        self.builder()
            .with_max_times(self.tries.saturating_sub(1) as usize)
            .build()
    }

    /// The waits between reconnects of a stream, which never end.
    pub(crate) fn endless_waits(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        self.builder().without_max_times().build()
    }

    /// The wait that honours both the backoff and what the hub asked for; `None` to give up.
    pub(crate) fn wait(
        &self,
        backoff: Duration,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        match retry_after {
            Some(asked) if asked > self.wait_max => None,
            Some(asked) => Some(asked.max(backoff)),
            None => Some(backoff),
        }
    }

    fn builder(&self) -> ExponentialBuilder {
        ExponentialBuilder::new()
            .with_factor(2.0)
            .with_min_delay(self.first_wait)
            .with_max_delay(self.wait_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_three_tries_with_one_and_two_seconds_between() {
        let waits: Vec<_> = RetryPolicy::default().waits().collect();
        assert_eq!(waits, [Duration::from_secs(1), Duration::from_secs(2)]);
        assert_eq!(RetryPolicy::NEVER.waits().count(), 0);
    }

    #[test]
    fn reconnects_grow_to_their_bound_and_stay_there() {
        let waits: Vec<_> = RetryPolicy::default()
            .endless_waits()
            .take(9)
            .map(|wait| wait.as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn retry_after_is_honoured_or_the_call_ends() {
        let policy = RetryPolicy::default();
        let second = Duration::from_secs(1);
        assert_eq!(policy.wait(second, None), Some(second));
        assert_eq!(policy.wait(second, Some(second * 5)), Some(second * 5));
        assert_eq!(policy.wait(second * 2, Some(second)), Some(second * 2));
        assert_eq!(policy.wait(second, Some(second * 60)), Some(second * 60));
        assert_eq!(policy.wait(second, Some(second * 61)), None);
    }
}

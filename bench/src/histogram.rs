//! Latencies, counted with three significant digits.

use std::time::Duration;

/// A count of durations by size, in nanoseconds.
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// Longer ones are counted as this.
const LONGEST: Duration = Duration::from_secs(3600);

impl Default for Histogram {
    fn default() -> Self {
        let longest = LONGEST.as_nanos() as u64;
        Self(hdrhistogram::Histogram::new_with_max(longest, 3).expect("the bounds are sound"))
    }
}

impl Histogram {
    pub fn record(&mut self, took: Duration) {
        self.0.saturating_record(took.as_nanos() as u64);
    }

    pub fn total(&self) -> u64 {
        self.0.len()
    }

    pub fn longest_ms(&self) -> f64 {
        self.0.max() as f64 / 1e6
    }

    /// The median in milliseconds, NaN when nothing was counted.
    pub fn p50_ms(&self) -> f64 {
        self.quantile_ms(0.5)
    }

    /// What one in a hundred exceeded, in milliseconds.
    pub fn p99_ms(&self) -> f64 {
        self.quantile_ms(0.99)
    }

    fn quantile_ms(&self, share: f64) -> f64 {
        match self.0.is_empty() {
            true => f64::NAN,
            false => self.0.value_at_quantile(share) as f64 / 1e6,
        }
    }
}

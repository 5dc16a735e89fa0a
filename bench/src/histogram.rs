//! Latencies in logarithmic buckets: constant memory, at most 1.6 % off.

use std::time::Duration;

/// Buckets per power of two.
const STEPS: u64 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Enough for 2^41 ns, over half an hour; what takes longer lands in the last bucket.
const BUCKETS: usize = (STEPS * 37) as usize;

/// A count of durations by size.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            total: 0,
            longest: Duration::ZERO,
        }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(nanos)] += 1;
        self.total += 1;
        self.longest = self.longest.max(took);
    }

    /// Adds everything that another histogram counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// How many durations were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest one in milliseconds, exactly.
    pub fn longest_ms(&self) -> f64 {
        self.longest.as_secs_f64() * 1e3
    }

    /// The duration in milliseconds that `share` of all did not exceed; `None` when nothing was counted.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(middle_of(bucket) / 1e6);
            }
        }
        None
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - STEP_BITS;
    let bucket = u64::from(shift + 1) * STEPS + ((nanos >> shift) - STEPS);
    (bucket as usize).min(BUCKETS - 1)
}

fn middle_of(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket as f64;
    }
    let shift = bucket / STEPS - 1;
    let low = (STEPS + bucket % STEPS) << shift;
    low as f64 + (1u64 << shift) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lands_within_two_percent_of_its_bucket() {
        for nanos in (0..40).map(|power| (1u64 << power) + (1u64 << power) / 3) {
            let middle = middle_of(bucket_of(nanos));
            let off = (middle - nanos as f64).abs();
            assert!(off <= 1.0 + nanos as f64 * 0.02, "{nanos} became {middle}");
        }
    }

    #[test]
    fn quantiles_of_a_hundred_values_are_those_values() {
        let mut histogram = Histogram::default();
        for ms in 1..=100 {
            histogram.record(Duration::from_millis(ms));
        }
        let p50 = histogram.quantile_ms(0.5).expect("counted");
        let p99 = histogram.quantile_ms(0.99).expect("counted");
        assert!((p50 - 50.0).abs() < 1.0, "{p50}");
        assert!((p99 - 99.0).abs() < 2.0, "{p99}");
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        assert_eq!(Histogram::default().quantile_ms(0.5), None);
    }

    #[test]
    fn endless_durations_land_in_the_last_bucket() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::MAX);
        assert_eq!(histogram.total(), 1);
    }
}

//! What keeps one connection from costing the others: faults are counted, frames are rationed.

/// So many frames a second, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub per_second: u32,
    pub burst: u32,
}

/// Frames a second that a connection may send on and on.
pub const FRAMES_PER_SECOND: u32 = 2_000;
/// Frames that it may send at once.
pub const FRAMES_BURST: u32 = 4_000;

impl Default for Rate {
    fn default() -> Self {
        Self {
            per_second: FRAMES_PER_SECOND,
            burst: FRAMES_BURST,
        }
    }
}

/// The last faults, as long as they count.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<u64>);

impl Faults {
    /// Whether this one is one too many.
    pub(super) fn add(&mut self, now: u64, max: usize, within: u64) -> bool {
        self.0.retain(|at| now.saturating_sub(*at) < within);
        self.0.push(now);
        self.0.len() >= max
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    Yes,
    /// The first beyond the rate: its sender is told.
    FirstDropped,
    Dropped,
    /// As many were dropped as may come at once, and still they come.
    Ignored,
}

/// A bucket of tokens, in thousandths of a frame.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: Option<Rate>,
    tokens: u64,
    filled_at: u64,
    dropped: u32,
}

const FRAME: u64 = 1000;

impl Bucket {
    pub(super) fn new(rate: Option<Rate>, now: u64) -> Self {
        Self {
            rate,
            tokens: rate.map_or(0, |rate| u64::from(rate.burst) * FRAME),
            filled_at: now,
            dropped: 0,
        }
    }

    pub(super) fn admit(&mut self, now: u64) -> Admitted {
        let Some(rate) = self.rate else {
            return Admitted::Yes;
        };
        let full = u64::from(rate.burst) * FRAME;
        let earned = now
            .saturating_sub(self.filled_at)
            .saturating_mul(u64::from(rate.per_second));
        self.tokens = self.tokens.saturating_add(earned).min(full);
        self.filled_at = self.filled_at.max(now);
        if self.tokens >= full / 2 {
            // It has slowed down: what was is forgiven.
            self.dropped = 0;
        }
        if self.tokens >= FRAME {
            self.tokens -= FRAME;
            return Admitted::Yes;
        }
        self.dropped = self.dropped.saturating_add(1);
        match self.dropped {
            1 => Admitted::FirstDropped,
            dropped if dropped > rate.burst => Admitted::Ignored,
            _ => Admitted::Dropped,
        }
    }
}

//! How much of everything a run of the bus part takes.

use std::time::Duration;

/// Numbers and lengths of the bus part.
pub struct Scale {
    /// Connected workers whose memory is weighed.
    pub workers: usize,
    /// The usual pace of a worker.
    pub beat_every: Duration,
    /// How long their CPU is watched.
    pub beat_for: Duration,
    /// Workers whose heartbeats an operator sees.
    pub screen_workers: usize,
    pub screen_paces: Vec<Pace>,
    /// Connections that send as fast as they can.
    pub connections: usize,
    /// Each run beside an operator.
    pub slow_for: Duration,
}

/// Each worker beats once in `every`, all of them for `lasts_for`.
#[derive(Clone, Copy)]
pub struct Pace {
    pub every: Duration,
    pub lasts_for: Duration,
}

const fn pace(every_ms: u64, lasts_for_ms: u64) -> Pace {
    Pace {
        every: Duration::from_millis(every_ms),
        lasts_for: Duration::from_millis(lasts_for_ms),
    }
}

impl Scale {
    pub fn full() -> Self {
        Self {
            workers: 10_000,
            beat_every: Duration::from_secs(15),
            beat_for: Duration::from_secs(30),
            screen_workers: 1_000,
            screen_paces: vec![pace(15_000, 30_000), pace(1_000, 10_000)],
            connections: 64,
            slow_for: Duration::from_secs(10),
        }
    }

    /// Fewer workers at their usual pace, and fewer rounds.
    pub fn quick() -> Self {
        Self {
            workers: 2_000,
            beat_for: Duration::from_secs(15),
            screen_paces: vec![pace(1_000, 5_000)],
            slow_for: Duration::from_secs(4),
            ..Self::full()
        }
    }
}

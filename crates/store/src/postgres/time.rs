//! The ledger's time among coordinators: the database's clock is the wall clock, each one's own machine measures what
//! passes, and none goes beyond what the head or its own last look allows.

use std::time::{Duration, Instant};

use switchboard_core::Timestamp;

use crate::Error;
use crate::clock::{Clock, Mark, Moment, Reading, Steady, SystemClock, Wall, unbelievable};

/// What was asked longer ago than this says nothing about the wall clock any more.
const FRESH_FOR: Duration = Duration::from_secs(1);

pub(super) struct LedgerTime {
    machine: SystemClock,
    /// What a test brings; it is the wall clock too.
    by_hand: Option<Box<dyn Clock>>,
    steady: Option<Steady>,
    trusts_wall: bool,
}

/// What a coordinator finds when it takes the head.
#[derive(Clone, Copy)]
pub(super) struct ClockReading<'a> {
    /// What the database's clock shows.
    pub shown: Timestamp,
    /// When that was asked for.
    pub asked_at: Instant,
    pub mark: &'a Mark,
    /// Another coordinator left it.
    pub is_foreign: bool,
    /// The last instant of the ledger.
    pub seen: Timestamp,
}

impl LedgerTime {
    pub fn new(by_hand: Option<Box<dyn Clock>>) -> LedgerTime {
        LedgerTime {
            machine: SystemClock::new(),
            by_hand,
            steady: None,
            trusts_wall: false,
        }
    }

    pub fn is_by_hand(&self) -> bool {
        self.by_hand.is_some()
    }

    /// Looks, before the ledger is served, whether its time can go on by itself.
    pub fn start(
        &mut self,
        wall: Wall,
        shown: Timestamp,
        mark: &Mark,
        seen: Timestamp,
    ) -> Result<(), Error> {
        self.trusts_wall = wall == Wall::Trusted;
        let reading = self.read(shown);
        wall.believe(unbelievable(mark, self.boot(), reading, seen))
    }

    /// What time it is by the head that was just taken.
    pub fn tell(&mut self, look: &ClockReading<'_>) -> Moment {
        let ClockReading {
            shown,
            asked_at,
            mark,
            is_foreign,
            seen,
        } = *look;
        let reading = self.read(shown);
        let is_fresh = self.is_by_hand() || asked_at.elapsed() <= FRESH_FOR;
        let seen = seen.max(mark.at);
        if let Some(steady) = &mut self.steady {
            if is_foreign {
                steady.heard(mark);
            }
            match is_fresh {
                true => steady.tell(reading, seen),
                false => steady.carry(reading.ran, seen),
            };
        } else {
            self.steady = Some(match self.trusts_wall {
                true => Steady::trusting(mark, reading, seen),
                false => Steady::resume(mark, self.boot(), reading, seen),
            });
        }
        self.told()
    }

    pub fn mark(&self) -> Mark {
        let mark = |steady: &Steady| steady.mark(self.boot());
        self.steady.as_ref().map(mark).unwrap_or_default()
    }

    fn told(&mut self) -> Moment {
        let none = Moment {
            now: Timestamp::ZERO,
            wall: Timestamp::ZERO,
            clock_stepped_ms: None,
        };
        self.steady.as_mut().map_or(none, |steady| Moment {
            now: steady.now(),
            wall: steady.wall(),
            clock_stepped_ms: steady.take_step(),
        })
    }

    fn read(&mut self, shown: Timestamp) -> Reading {
        match &mut self.by_hand {
            Some(clock) => clock.read(),
            None => Reading {
                wall: shown,
                ..self.machine.read()
            },
        }
    }

    fn boot(&self) -> &str {
        match &self.by_hand {
            Some(clock) => clock.boot(),
            None => self.machine.boot(),
        }
    }
}

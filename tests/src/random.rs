//! Reproducible chance: the same seed gives the same draws.

use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64: small, and good enough to choose moments and moves.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn seeded(seed: u64) -> Random {
        Random(seed)
    }

    /// The seed in this variable, or a new one. Print it: it is the only way back to a failure.
    pub fn seed_from(variable: &str) -> u64 {
        match std::env::var(variable) {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")),
            Err(_) => {
                let since = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                since.as_nanos() as u64
            }
        }
    }

    /// An independent stream, for a thread of its own.
    pub fn fork(&mut self) -> Random {
        Random(self.draw())
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, which is above zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }
}

//! Signatures that were used a moment ago, so that the same one does not count twice.
//!
//! Bounded: past the bound the oldest go first. Those of changes are also in the ledger, which forgets none of them
//! while it could still be valid.

use std::collections::{HashSet, VecDeque};

use aws_lc_rs::digest;
use switchboard_core::Timestamp;
use switchboard_core::changes::Nonce;

const SEEN_MAX: usize = 65_536;

#[derive(Debug)]
pub struct Replays {
    seen: HashSet<u128>,
    order: VecDeque<(Timestamp, u128)>,
    seen_max: usize,
}

impl Default for Replays {
    fn default() -> Self {
        Replays {
            seen: HashSet::new(),
            order: VecDeque::new(),
            seen_max: SEEN_MAX,
        }
    }
}

impl Replays {
    /// Remembers a signature; false if it was there already.
    pub fn first_time(&mut self, nonce: &Nonce, now: Timestamp) -> bool {
        let mark = mark(nonce);
        if self.seen.contains(&mark) {
            return false;
        }
        let full = |order: &VecDeque<_>| order.len() >= self.seen_max;
        while full(&self.order) || self.order.front().is_some_and(|(until, _)| *until < now) {
            let Some((_, oldest)) = self.order.pop_front() else {
                break;
            };
            self.seen.remove(&oldest);
        }
        self.seen.insert(mark);
        self.order.push_back((nonce.valid_until, mark));
        true
    }
}

fn mark(nonce: &Nonce) -> u128 {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(nonce.agent.as_str().as_bytes());
    context.update(b"\n");
    context.update(nonce.value.as_bytes());
    let digest = context.finish();
    let (half, _) = digest
        .as_ref()
        .split_first_chunk()
        .expect("SHA-256 gives 32 bytes");
    u128::from_be_bytes(*half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(value: &str, valid_until: i64) -> Nonce {
        Nonce {
            agent: "a1".into(),
            value: value.into(),
            valid_until: Timestamp(valid_until),
        }
    }

    #[test]
    fn a_signature_counts_once_while_it_is_valid() {
        let mut replays = Replays::default();
        assert!(replays.first_time(&nonce("s", 100), Timestamp(0)));
        assert!(!replays.first_time(&nonce("s", 100), Timestamp(0)));
        assert!(!replays.first_time(&nonce("s", 100), Timestamp(100)));
        assert!(replays.first_time(&nonce("t", 100), Timestamp(0)));
        let other = Nonce {
            agent: "a2".into(),
            ..nonce("s", 100)
        };
        assert!(replays.first_time(&other, Timestamp(0)));
    }

    #[test]
    fn the_memory_is_bounded_and_loses_the_oldest() {
        let mut replays = Replays {
            seen_max: 3,
            ..Replays::default()
        };
        for value in ["1", "2", "3"] {
            assert!(replays.first_time(&nonce(value, 100), Timestamp(0)));
        }
        assert!(
            !replays.first_time(&nonce("3", 100), Timestamp(0)),
            "n is kept"
        );
        assert!(replays.first_time(&nonce("4", 100), Timestamp(0)));
        assert!(replays.seen.len() <= 3 && replays.order.len() <= 3);
        assert!(!replays.first_time(&nonce("4", 100), Timestamp(0)));
        assert!(
            replays.first_time(&nonce("1", 100), Timestamp(0)),
            "the oldest is forgotten first"
        );
    }

    #[test]
    fn what_can_no_longer_be_valid_is_let_go() {
        let mut replays = Replays::default();
        for number in 0..100 {
            assert!(replays.first_time(&nonce(&number.to_string(), number), Timestamp(number)));
        }
        assert!(replays.order.len() <= 2);
    }
}

//! Signatures that were used a moment ago, so that the same one does not count twice.
//!
//! Bounded: past the bound the oldest go first. Those of changes, made or refused, are also in the ledger, which forgets
//! none of them while it could still be valid.

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

/// What is remembered of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u128);

impl Replays {
    /// Remembers a signature; `None` if it was there already.
    pub fn first_time(&mut self, nonce: &Nonce, now: Timestamp) -> Option<Mark> {
        let mark = mark(nonce);
        if self.seen.contains(&mark) {
            return None;
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
        Some(Mark(mark))
    }

    /// A call that came too soon may come again as it is.
    pub fn forgive(&mut self, Mark(mark): Mark) {
        if !self.seen.remove(&mark) {
            return;
        }
        // It came a moment ago, so it stands near the end.
        if let Some(at) = self.order.iter().rposition(|(_, seen)| *seen == mark) {
            self.order.remove(at);
        }
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

    fn is_first(replays: &mut Replays, nonce: &Nonce, now: i64) -> bool {
        replays.first_time(nonce, Timestamp(now)).is_some()
    }

    #[test]
    fn a_signature_counts_once_while_it_is_valid() {
        let mut replays = Replays::default();
        assert!(is_first(&mut replays, &nonce("s", 100), 0));
        assert!(!is_first(&mut replays, &nonce("s", 100), 0));
        assert!(!is_first(&mut replays, &nonce("s", 100), 100));
        assert!(is_first(&mut replays, &nonce("t", 100), 0));
        let other = Nonce {
            agent: "a2".into(),
            ..nonce("s", 100)
        };
        assert!(is_first(&mut replays, &other, 0));
    }

    #[test]
    fn the_memory_is_bounded_and_loses_the_oldest() {
        let mut replays = Replays {
            seen_max: 3,
            ..Replays::default()
        };
        for value in ["1", "2", "3"] {
            assert!(is_first(&mut replays, &nonce(value, 100), 0));
        }
        assert!(!is_first(&mut replays, &nonce("3", 100), 0), "n is kept");
        assert!(is_first(&mut replays, &nonce("4", 100), 0));
        assert!(replays.seen.len() <= 3 && replays.order.len() <= 3);
        assert!(!is_first(&mut replays, &nonce("4", 100), 0));
        assert!(
            is_first(&mut replays, &nonce("1", 100), 0),
            "the oldest is forgotten first"
        );
    }

    #[test]
    fn what_can_no_longer_be_valid_is_let_go() {
        let mut replays = Replays::default();
        for number in 0..100 {
            assert!(is_first(
                &mut replays,
                &nonce(&number.to_string(), number),
                number
            ));
        }
        assert!(replays.order.len() <= 2);
    }

    #[test]
    fn a_signature_that_is_forgiven_counts_once_again_and_leaves_nothing_behind() {
        let mut replays = Replays::default();
        let (one, two) = (nonce("1", 100), nonce("2", 100));
        let mark = replays.first_time(&one, Timestamp(0)).unwrap();
        assert!(is_first(&mut replays, &two, 0));
        replays.forgive(mark);
        assert_eq!((replays.seen.len(), replays.order.len()), (1, 1));
        replays.forgive(mark);
        assert!(is_first(&mut replays, &one, 0));
        assert!(!is_first(&mut replays, &one, 0) && !is_first(&mut replays, &two, 0));
    }
}

//! Any mix of hand writes and verbs leaves a ledger that counts right.

use proptest::prelude::*;

use super::desk::Desk;
use crate::hand::{history, pause};

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_by_hand_the_ledger_counts_right(
        choices in prop::collection::vec(any::<u64>(), 1..160),
        page in 1..5_usize,
        recursive in any::<bool>(),
        forgets in any::<bool>(),
    ) {
        let mut desk = Desk::new();
        desk.forgets = forgets;
        desk.hand.db.pragma_update(None, "recursive_triggers", recursive).unwrap();
        history(&mut desk, &choices, page);
    }
}

/// Waiting is the hub's: what a hand wrote is judged by the hub's clock when it is taken in.
#[test]
fn a_long_pause_between_a_write_and_its_adoption_is_no_harm() {
    pause(&mut Desk::new());
}

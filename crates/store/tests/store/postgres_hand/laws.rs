//! Any mix of hand writes and verbs leaves a ledger that counts right.

use std::sync::OnceLock;

use proptest::prelude::*;

use super::desk::Room;
use crate::hand::{history, pause};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_by_hand_the_ledger_counts_right(
        choices in prop::collection::vec(any::<u64>(), 1..120),
        page in 1..5_usize,
    ) {
        if let Some(room) = room() {
            history(&mut room.desk(), &choices, page);
        }
    }
}

fn room() -> Option<&'static Room> {
    static ROOM: OnceLock<Option<Room>> = OnceLock::new();
    ROOM.get_or_init(|| Room::new("laws of hand writes"))
        .as_ref()
}

/// Waiting is the hub's: what a hand wrote is judged by the hub's clock when it is taken in.
#[test]
fn a_long_pause_between_a_write_and_its_adoption_is_no_harm() {
    if let Some(room) = room() {
        pause(&mut room.desk());
    }
}

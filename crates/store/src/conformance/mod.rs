//! What every engine must do, as a suite that any engine's tests can call.
//!
//! [`run`] drives real verbs through a small sequencer ([`Ledger`]) and looks at what readers see; [`differential`]
//! runs the same random history on two ledgers and compares everything. Both panic with what went wrong.

use std::time::Duration;

use switchboard_core::Timestamp;
use switchboard_core::verb::PruneTasks;

use crate::{Engine, ManualClock};

mod deeds;
mod errands;
mod ledger;
mod random;
mod rows;

pub use deeds::{Deed, best_for};
pub use ledger::{AnyVerb, Cache, Ledger};
pub use random::Random;
pub use rows::{Everything, all};

/// When the histories of this suite begin: an arbitrary day.
pub const START: Timestamp = Timestamp(1_760_000_000_000);

/// Makes an empty ledger that tells the time by this clock.
pub type Make<'a> = &'a mut dyn FnMut(ManualClock) -> Box<dyn Engine>;

/// The same random history on two ledgers: equal replies, equal rows, equal log.
///
/// `left` and `right` are empty and share `clock`. The left one shows what there is to choose from.
pub fn differential(
    left: &mut Ledger,
    right: &mut Ledger,
    clock: &ManualClock,
    seed: u64,
    steps: usize,
) {
    let mut random = Random::new(seed);
    let mut seen = Everything::read(&*left.reader());
    let mut step = 0;
    while step < steps {
        // A few deeds at a time share a batch, chosen from what was seen before it.
        let count = 1 + random.below(3) as usize;
        let deeds: Vec<Deed> = (0..count)
            .map(|_| Deed::choose(random.next(), &seen))
            .collect();
        let when = format!("after step {step} of seed {seed}, {deeds:?}");
        for turn in deeds.split_inclusive(|deed| matches!(deed, Deed::Wait(_))) {
            let (verbs, wait) = match turn.split_last() {
                Some((Deed::Wait(span), verbs)) => (verbs, *span),
                Some(_) | None => (turn, Duration::ZERO),
            };
            let ours = perform(left, clock, verbs);
            let theirs = perform(right, clock, verbs);
            assert_eq!(ours, theirs, "replies {when}");
            clock.advance(wait);
        }
        seen = Everything::read(&*left.reader());
        seen.assert_same(&Everything::read(&*right.reader()), &when);
        let (ours, theirs) = (left.engine().next_due(), right.engine().next_due());
        let (ours, theirs) = (
            ledger::must("say what is due", ours),
            ledger::must("say what is due", theirs),
        );
        assert_eq!(ours, theirs, "what is due next {when}");
        step += count;
    }
}

/// Runs deeds: neighbours that are verbs share a batch. Replies and refusals come back as text.
pub fn perform(ledger: &mut Ledger, clock: &ManualClock, deeds: &[Deed]) -> Vec<String> {
    let mut replies = Vec::new();
    let mut batch: Vec<&dyn AnyVerb> = Vec::new();
    for deed in deeds {
        match deed {
            Deed::Claim(claim) => batch.push(claim),
            Deed::Other(verb) => batch.push(&**verb),
            Deed::Wait(span) => {
                replies.extend(text_of(ledger, &std::mem::take(&mut batch)));
                clock.advance(*span);
            }
            Deed::Sweep(keep) => {
                replies.extend(text_of(ledger, &std::mem::take(&mut batch)));
                sweep(ledger, *keep);
            }
        }
    }
    replies.extend(text_of(ledger, &batch));
    replies
}

fn text_of(ledger: &mut Ledger, verbs: &[&dyn AnyVerb]) -> Vec<String> {
    if verbs.is_empty() {
        return Vec::new();
    }
    let replies = ledger.run_batch(verbs);
    replies
        .into_iter()
        .map(|reply| format!("{reply:?}"))
        .collect()
}

/// Engines may cut the search into other steps, so only its end is compared.
fn sweep(ledger: &mut Ledger, keep: Duration) {
    let mut from = 0;
    for _ in 0..10_000 {
        let next = ledger.run(PruneTasks { keep, from });
        match next.expect("a caretaker is not refused") {
            Some(next) => from = next,
            None => return,
        }
    }
    panic!("the search for finished tasks does not end");
}

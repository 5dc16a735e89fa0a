//! What every engine must do, as a suite that any engine's tests can call.
//!
//! [`run`] drives real verbs through a small sequencer ([`Ledger`]) and looks at what readers see; [`differential`]
//! runs the same random history on two ledgers and compares everything. Both panic with what went wrong.

use std::time::Duration;

use switchboard_core::Timestamp;
use switchboard_core::verb::PruneTasks;

use crate::{Engine, ManualClock};

mod acts;
mod batches;
mod deeds;
mod engrams;
mod errands;
mod lanes;
mod ledger;
mod lists;
mod nodes;
mod private_rows;
mod prunes;
mod put;
mod random;
mod ranges;
mod records;
mod rows;
mod rows_kept;
mod streams;

pub use acts::{claim, complete, fail, register, send};
pub use deeds::{Deed, best_for};
pub use ledger::{AnyVerb, Cache, Ledger};
pub use random::Random;
pub use rows::{Everything, all};

/// When the histories of this suite begin: an arbitrary day.
pub const START: Timestamp = Timestamp(1_760_000_000_000);

/// Makes an empty ledger that tells the time by this clock.
pub type Make<'a> = &'a mut dyn FnMut(ManualClock) -> Box<dyn Engine>;

/// Everything an engine must do. Panics at the first thing it does not.
pub fn run(make: Make<'_>) {
    for cache in [
        Cache::Kept,
        Cache::Forgotten,
        Cache::ForgottenAtRandom(Random::new(1)),
    ] {
        let mut world = World {
            make: &mut *make,
            cache,
        };
        for (name, case) in CASES {
            tracing::debug!("conformance: {name}");
            case(&mut world);
        }
    }
    for seed in 0..4 {
        let clock = ManualClock::at(START);
        let mut kept = Ledger::new(make(clock.clone()));
        let mut lost = Ledger::new(make(clock.clone())).with_cache(Cache::Forgotten);
        differential(&mut kept, &mut lost, &clock, seed, 150);
    }
}

/// Where a case gets its empty ledgers from.
struct World<'a> {
    make: Make<'a>,
    cache: Cache,
}

impl World<'_> {
    fn ledger(&mut self) -> (Ledger, ManualClock) {
        let clock = ManualClock::at(START);
        let ledger = Ledger::new((self.make)(clock.clone()));
        (ledger.with_cache(self.cache.clone()), clock)
    }
}

type Case = fn(&mut World<'_>);

const CASES: &[(&str, Case)] = &[
    ("tasks come back", rows_kept::tasks_come_back),
    ("agents come back", rows_kept::agents_come_back),
    (
        "signs of life are added",
        rows_kept::signs_of_life_are_added,
    ),
    (
        "messages and deliveries come back",
        rows_kept::messages_and_deliveries_come_back,
    ),
    (
        "a task of another node comes back, and its steps are numbered",
        nodes::a_task_of_another_node_comes_back_and_its_steps_are_numbered,
    ),
    ("leases come back", rows_kept::leases_come_back),
    (
        "history and quality come back",
        rows_kept::history_and_quality_come_back,
    ),
    ("keys come back", rows_kept::keys_come_back),
    ("agents by presence", ranges::agents_by_presence),
    (
        "dependants and finished tasks",
        ranges::dependants_and_finished_tasks,
    ),
    ("what is due", ranges::what_is_due),
    (
        "leases by path, agent and task",
        ranges::leases_by_path_agent_and_task,
    ),
    ("inboxes", ranges::inboxes),
    ("lanes and queues", ranges::lanes_and_queues),
    ("many lanes of a word", ranges::many_lanes_of_a_word),
    (
        "a rolled back batch leaves nothing",
        batches::a_rolled_back_batch_leaves_nothing,
    ),
    (
        "verbs of a batch see each other",
        batches::verbs_of_a_batch_see_each_other,
    ),
    (
        "readers see what was committed",
        batches::readers_see_what_was_committed,
    ),
    (
        "the log is gapless and paged",
        batches::the_log_is_gapless_and_paged,
    ),
    ("time does not go back", batches::time_does_not_go_back),
    (
        "a clock that is set moves time slowly",
        batches::a_clock_that_is_set_moves_time_slowly,
    ),
    (
        "a quiet batch writes its head",
        batches::a_quiet_batch_writes_its_head,
    ),
    (
        "held back signs of life",
        batches::held_back_signs_of_life_are_written_when_due,
    ),
    ("tasks by filter", lists::tasks_by_filter),
    (
        "pages have no gap and no repeat",
        lists::pages_have_no_gap_and_no_repeat,
    ),
    (
        "the queue and who holds what",
        lists::the_queue_and_who_holds_what,
    ),
    ("agents by filter", lists::agents_by_filter),
    ("leases by filter", lists::leases_by_filter),
    (
        "messages by filter and since",
        lists::messages_by_filter_and_since,
    ),
    (
        "snapshots, attempts, learnings",
        lists::snapshots_attempts_and_learnings,
    ),
    (
        "engrams come back and go",
        engrams::engrams_come_back_and_go,
    ),
    (
        "engrams are adopted together",
        engrams::engrams_are_adopted_together,
    ),
    (
        "skills decide who gets what",
        lanes::skills_decide_who_gets_what,
    ),
    (
        "claims go by priority, then age",
        lanes::claims_go_by_priority_then_age,
    ),
    (
        "foreign lanes do not hide a task",
        lanes::foreign_lanes_do_not_hide_a_task,
    ),
    (
        "exclusions go past a page",
        lanes::exclusions_go_past_a_page,
    ),
    (
        "retries, audiences, closing lanes",
        lanes::retries_audiences_and_closing_lanes,
    ),
    (
        "old events go oldest first",
        prunes::old_events_go_oldest_first,
    ),
    (
        "read messages go, waiting ones stay",
        prunes::read_messages_go_and_waiting_ones_stay,
    ),
    (
        "old answers and signatures go",
        prunes::old_answers_and_signatures_go,
    ),
    ("forgotten rows are gone", prunes::forgotten_rows_are_gone),
    (
        "what stays of a forgotten agent",
        prunes::what_stays_of_a_forgotten_agent,
    ),
    (
        "private rows by owner and position",
        private_rows::by_owner_and_position,
    ),
    ("private rows that are due", private_rows::that_are_due),
    ("records come back", records::records_come_back),
    (
        "records change by their verbs",
        records::records_change_by_their_verbs,
    ),
    (
        "engrams are kept in order and evicted",
        records::engrams_are_kept_in_order_and_evicted,
    ),
    ("numbers and watches", records::numbers_and_watches),
    ("doors and silence", records::doors_and_silence),
    ("messages on their way", streams::messages_on_their_way),
    ("messages that fail", streams::messages_that_fail),
    ("streams that end", streams::streams_that_end),
];

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
            .map(|_| Deed::choose(random.draw(), &seen))
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
    seen.assert_as_logged(seed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryEngine;

    #[test]
    fn the_model_conforms() {
        run(&mut |clock| Box::new(MemoryEngine::new(Box::new(clock))));
    }
}

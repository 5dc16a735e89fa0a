//! Any mix of hand writes and verbs leaves a ledger that counts right.

use std::time::Duration;

use proptest::prelude::*;
use switchboard_store::conformance::{AnyVerb, Deed, Everything, Random};

use crate::desk::Desk;
use crate::grammar::Maker;
use crate::recount::recount;

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
        desk.hand.pragma_update(None, "recursive_triggers", recursive).unwrap();
        history(&mut desk, &choices, page);
    }
}

fn history(desk: &mut Desk, choices: &[u64], page: usize) {
    let mut told: Vec<String> = Vec::new();
    let mut seen = desk.everything();
    for choice in choices {
        let mut random = Random::new(*choice);
        match random.below(10) {
            0..=5 => {
                let written = write(desk, &mut random, &seen);
                told.extend(written);
                continue;
            }
            6 => told.push(format!("{:?}", desk.run(page, &[]))),
            _ => told.push(verb(desk, random.draw(), &seen, page)),
        }
        let last: Vec<&str> = told
            .iter()
            .rev()
            .take(40)
            .rev()
            .map(String::as_str)
            .collect();
        seen = recount(desk, &last.join("\n"));
    }
    desk.run(page, &[]);
    recount(desk, &told.join("\n"));
}

fn verb(desk: &mut Desk, choice: u64, seen: &Everything, page: usize) -> String {
    match Deed::choose(choice, seen) {
        Deed::Wait(span) => {
            desk.wait(span);
            desk.run(page, &[]);
            format!("wait {span:?}")
        }
        Deed::Sweep(_) => format!("{:?}", desk.run(page, &[])),
        Deed::Claim(claim) => format!("{claim:?}: {:?}", desk.run(page, &[&claim as &dyn AnyVerb])),
        Deed::Other(verb) => format!("{verb:?}: {:?}", desk.run(page, &[&*verb])),
    }
}

/// A few statements by hand, in one transaction or in none.
fn write(desk: &Desk, random: &mut Random, seen: &Everything) -> Vec<String> {
    let mut made = Maker { random, seen };
    let together = made.random.percent(40);
    let undone = together && made.random.percent(10);
    let mut told = Vec::new();
    if together {
        desk.by_hand("BEGIN IMMEDIATE");
    }
    for _ in 0..=made.random.below(4) {
        let sql = made.statement();
        let outcome = desk.hand.execute_batch(&sql);
        if let Err(error) = &outcome {
            let code = error.sqlite_error_code();
            let refused = matches!(
                code,
                Some(rusqlite::ErrorCode::ConstraintViolation | rusqlite::ErrorCode::TypeMismatch)
            ) || error.to_string().contains("BLOB");
            assert!(refused, "{error}: {sql}");
        }
        told.push(format!("{sql}; {outcome:?}"));
    }
    if together {
        let end = if undone { "ROLLBACK" } else { "COMMIT" };
        desk.by_hand(end);
        told.push(end.to_owned());
    }
    told
}

/// Waiting is the hub's: what a hand wrote is judged by the hub's clock when it is taken in.
#[test]
fn a_long_pause_between_a_write_and_its_adoption_is_no_harm() {
    let mut desk = Desk::new();
    desk.by_hand("INSERT INTO agents(id, name) VALUES ('ann', 'ann'); INSERT INTO tasks(id, title) VALUES ('t', 't');
        INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src', 'ann', datetime('now', '+1 minute'));");
    desk.wait(Duration::from_secs(86_400));
    desk.run(1, &[]);
    recount(&desk, "a day");
}

//! Histories of hand writes and verbs, with a count after each step.

use std::time::Duration;

use switchboard_store::conformance::{AnyVerb, Deed, Everything, Random};

use super::grammar::Maker;
use super::{Desk, Hand, recount};

/// Each choice is a few hand writes, a batch or a verb.
pub fn history<H: Hand>(desk: &mut Desk<H>, choices: &[u64], page: usize) {
    let mut told: Vec<String> = Vec::new();
    let mut seen = desk.everything();
    for choice in choices {
        let mut random = Random::new(*choice);
        match random.below(10) {
            0..=5 => {
                let written = write(&desk.hand, &mut random, &seen);
                told.extend(written);
                continue;
            }
            6 => told.push(format!("{:?}", desk.run(page, &[]))),
            _ => told.push(verb(desk, random.draw(), &seen, page)),
        }
        let last = &told[told.len().saturating_sub(40)..];
        seen = recount(desk, &last.join("\n"));
    }
    desk.run(page, &[]);
    recount(desk, &told.join("\n"));
}

fn verb<H: Hand>(desk: &mut Desk<H>, choice: u64, seen: &Everything, page: usize) -> String {
    match Deed::choose(choice, seen) {
        Deed::Wait(span) => {
            desk.clock.advance(span);
            desk.run(page, &[]);
            format!("wait {span:?}")
        }
        Deed::Sweep(_) => format!("{:?}", desk.run(page, &[])),
        Deed::Claim(claim) => format!("{claim:?}: {:?}", desk.run(page, &[&claim as &dyn AnyVerb])),
        Deed::Other(verb) => format!("{verb:?}: {:?}", desk.run(page, &[&*verb])),
    }
}

/// A few statements by hand, in one transaction or in none.
fn write<H: Hand>(hand: &H, random: &mut Random, seen: &Everything) -> Vec<String> {
    let words = &H::WORDS;
    let mut made = Maker {
        random,
        seen,
        words,
    };
    let together = made.random.percent(40);
    let undone = together && made.random.percent(10);
    let mut told = Vec::new();
    if together {
        hand.rows(words.begin);
    }
    for _ in 0..=made.random.below(4) {
        let sql = made.statement();
        let outcome = hand.attempt(&sql, together);
        told.push(format!("{sql}; {outcome:?}"));
    }
    if together {
        let end = if undone { "ROLLBACK" } else { "COMMIT" };
        hand.rows(end);
        told.push(end.to_owned());
    }
    told
}

/// A day goes by between writes and their adoption.
pub fn pause<H: Hand>(desk: &mut Desk<H>) {
    let in_a_minute = H::WORDS.in_a_minute;
    for sql in [
        "INSERT INTO agents(id, name) VALUES ('ann', 'ann')",
        "INSERT INTO tasks(id, title) VALUES ('t', 't')",
        &format!(
            "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src', 'ann', {in_a_minute})"
        ),
    ] {
        desk.hand.rows(sql);
    }
    desk.clock.advance(Duration::from_secs(86_400));
    desk.run(1, &[]);
    recount(desk, "a day");
}

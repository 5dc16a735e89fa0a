//! Engrams: kept in order, found by their words, gone when they are evicted.

use switchboard_core::engram::{Budget, Budgets, Scope};
use switchboard_core::query::Readable;
use switchboard_core::verb::{AdoptEngrams, KeepEngram, Kept, NoteMemory};
use switchboard_core::{Ask, Engram, EngramEntry, EngramId, Event, Timestamp, Want};

use super::World;
use super::ledger::{Ledger, must};
use crate::Error;

const FEW: Budgets = Budgets {
    short_term: Budget {
        bytes_max: 1 << 20,
        files_max: 2,
    },
    long_term: Budget {
        bytes_max: 1 << 20,
        files_max: 2,
    },
};

pub(super) fn engram(n: u64, scope: Scope, words: &str) -> Engram {
    let body = format!("{{\"facts\":[\"{words}\"], \"é\":\"日本\\n\"}}\n");
    Engram {
        entry: EngramEntry {
            id: format!("e{n}").into(),
            scope,
            version: format!("20260212-{n:06}Z"),
            created_at: Timestamp(1_770_897_600_000 + n.cast_signed()),
            hash: format!("sha256:{n}"),
            bytes: body.len() as u64,
            topics: vec![format!("topic-{n}"), "\"quoted\"".to_owned()],
            from_seq: n * 10 - 9,
            to_seq: n * 10,
        },
        body: body.into(),
        words: words.into(),
    }
}

fn keep(ledger: &mut Ledger, engram: &Engram, instead_of: &[&str]) -> Kept {
    let kept = ledger.run(KeepEngram {
        engram: engram.clone(),
        after: engram.entry.from_seq - 1,
        instead_of: instead_of.iter().map(|id| EngramId::from(*id)).collect(),
        budgets: FEW,
        fence: None,
    });
    kept.expect("an engram is never refused")
}

pub(super) fn engrams_come_back_and_go(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let made = [
        engram(1, Scope::ShortTerm, "Mind the LOCK order"),
        engram(2, Scope::ShortTerm, "the lock is reentrant\nsrc/lock.rs"),
        engram(3, Scope::ShortTerm, "orders come late"),
    ];
    for engram in &made[..2] {
        let evicted = Vec::new();
        assert_eq!(keep(&mut ledger, engram, &[]), Kept::Yes { evicted });
    }
    holds(&mut ledger, &made[..2], "two are kept");
    assert_eq!(found(&ledger, "lock", 9), ["e1", "e2"], "in any case");
    assert_eq!(
        found(&ledger, "LOCK ord", 9),
        ["e1"],
        "all words, by their beginning"
    );
    assert_eq!(
        found(&ledger, "facts", 9),
        [""; 0],
        "what only the file says"
    );
    assert_eq!(
        found(&ledger, "\"zebra'* OR (-- lock", 9),
        [""; 0],
        "signs are no syntax"
    );
    assert_eq!(found(&ledger, "lock", 1).len(), 1, "no more than asked for");
    assert_eq!(found(&ledger, " ", 9), ["e1", "e2"], "no words are in all");

    let evicted = vec![EngramId::from("e1")];
    assert_eq!(keep(&mut ledger, &made[2], &[]), Kept::Yes { evicted });
    holds(&mut ledger, &made[1..], "the oldest went");
    assert_eq!(
        found(&ledger, "lock", 9),
        ["e2"],
        "and is not found any more"
    );
    assert_eq!(found(&ledger, "order", 9), ["e3"], "nor by what it shared");

    let long = engram(4, Scope::LongTerm, "what is left of the lock");
    keep(&mut ledger, &long, &["e2"]);
    holds(&mut ledger, &[made[2].clone(), long.clone()], "condensed");
    assert_eq!(found(&ledger, "lock", 9), ["e4"]);
    assert_eq!(
        keep(&mut ledger, &made[0], &[]),
        Kept::TooLate,
        "that was before"
    );
    holds(&mut ledger, &[made[2].clone(), long], "nothing changed");
    let kinds = must("read the log", ledger.reader().events(0, 100));
    let kept =
        |logged: &&switchboard_core::Logged| matches!(logged.event, Event::EngramKept { .. });
    assert_eq!(kinds.iter().filter(kept).count(), 4);
}

pub(super) fn engrams_are_adopted_together(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let made: Vec<Engram> = (1..=3)
        .map(|n| engram(n, Scope::ShortTerm, &format!("number {n}")))
        .collect();
    let adopt = AdoptEngrams {
        engrams: made.clone(),
        budgets: FEW,
    };
    ledger.run(adopt).expect("the ledger has none");
    holds(&mut ledger, &made[1..], "within the budget");
    assert_eq!(found(&ledger, "number", 9), ["e2", "e3"]);
    ledger.join("ann", &[]);
    let noted = NoteMemory {
        agent: "ann".into(),
        event_type: "heartbeat.v1".to_owned(),
        text: "slow on Mondays".to_owned(),
    };
    ledger.run(noted).expect("ann is there");
    let log = must("read the log", ledger.reader().events(0, 100));
    let last = &log.last().expect("something happened").event;
    assert!(matches!(last, Event::MemoryNoted { .. }), "{last:?}");
}

/// The writer and the readers see these, in this order.
fn holds(ledger: &mut Ledger, engrams: &[Engram], when: &str) {
    let entries: Vec<EngramEntry> = engrams.iter().map(|it| it.entry.clone()).collect();
    let slice = ledger.look(&[Ask::Records(EngramEntry::all())]);
    let known = Want::new(&slice).privates::<EngramEntry>(&EngramEntry::all());
    assert!(known.into_iter().eq(&entries), "the writer, {when}");
    let reader = &*ledger.reader() as &dyn Readable<Error = Error>;
    assert_eq!(must("list engrams", reader.engrams()), entries, "{when}");
    for engram in engrams {
        let found = must("read an engram", reader.engram(&engram.entry.id));
        assert_eq!(found.as_ref(), Some(engram), "{when}");
    }
    assert_eq!(must("read an engram", reader.engram(&"none".into())), None);
}

fn found(ledger: &Ledger, words: &str, limit: usize) -> Vec<String> {
    let reader = &*ledger.reader() as &dyn Readable<Error = Error>;
    let found = must("search engrams", reader.engrams_with(words, limit));
    let mut ids: Vec<String> = found.iter().map(|it| it.entry.id.to_string()).collect();
    ids.sort();
    ids
}

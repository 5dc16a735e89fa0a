//! What an engram keeps of its records.

use proptest::prelude::*;

use super::super::testing::{cover, decided, engram, noted};
use super::*;

fn printed_len(engram: &Engram) -> usize {
    engram.to_text().len()
}

#[test]
fn an_engram_tells_what_its_records_told() {
    let records = [
        decided(1, "Login", "sessions are cookies"),
        decided(2, "Login", "sessions expire"),
        noted(3, "learned: the build needs clang"),
    ];
    let (engram, taken) = compact(&records, &cover(1, Scope::Short), 12_000);
    assert_eq!(taken, 3);
    assert_eq!(
        engram.facts,
        records.iter().map(|it| it.fact.clone()).collect::<Vec<_>>()
    );
    assert_eq!(engram.decisions.len(), 2);
    assert_eq!(engram.topics, ["login"]);
    assert_eq!(engram.links.len(), 2);
    assert_eq!(engram.source_window.start_ts.0, records[0].at.0);
    assert_eq!(engram.source_window.end_ts.0, records[2].at.0);
    assert_eq!(engram.provenance.created_by, "director");
    let again =
        Engram::from_text(engram.to_text().as_bytes()).expect("what is written can be read");
    assert_eq!(again, engram);
}

#[test]
fn what_does_not_fit_is_left_for_the_next_engram_and_the_oldest_go_first() {
    // agentbus.memory_event.bounded_buffer
    let records: Vec<Noted> = (1..200)
        .map(|seq| noted(seq, &format!("done: {} {}", seq, "x".repeat(90))))
        .collect();
    let mut rest = &records[..];
    let mut told = Vec::new();
    while !rest.is_empty() {
        let (engram, taken) = compact(rest, &cover(1, Scope::Short), ENGRAM_BYTES_MIN);
        assert!(taken > 0);
        assert!(printed_len(&engram) <= ENGRAM_BYTES_MIN);
        told.extend(engram.facts);
        rest = &rest[taken..];
    }
    let facts: Vec<String> = records.into_iter().map(|it| it.fact).collect();
    assert_eq!(told, facts);
}

#[test]
fn a_single_record_always_fits_without_what_is_too_much() {
    let mut record = decided(1, &"\"".repeat(160), &"\\".repeat(600));
    record.fact = "\"".repeat(500);
    record.links = (0..4).map(|_| super::super::testing::link(1)).collect();
    let (engram, taken) = compact([&record], &cover(1, Scope::Short), 1);
    assert_eq!((taken, engram.facts.len()), (1, 1));
    assert!(
        printed_len(&engram) <= ENGRAM_BYTES_MIN,
        "{}",
        printed_len(&engram)
    );
}

#[test]
fn of_several_engrams_the_most_telling_facts_and_the_newest_decisions_stay() {
    let filler = "x".repeat(400);
    let parts: Vec<Engram> = (1..=8)
        .map(|n| {
            let done = format!("done: {n} {filler}");
            let learned = format!("learned: {n}");
            let failed = format!("failed: {n}");
            engram(n, Scope::Short, &[&done, &learned, &failed])
        })
        .collect();
    let left = condense(&parts, &cover(9, Scope::Long), ENGRAM_BYTES_MIN);
    assert!(printed_len(&left) <= ENGRAM_BYTES_MIN);
    let of = |word: &str| {
        let facts = left.facts.iter().filter(|fact| fact.starts_with(word));
        facts
            .map(|fact| fact.split(' ').nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let all: Vec<String> = (1..=8).map(|n| n.to_string()).collect();
    assert_eq!(of("learned"), all);
    assert_eq!(of("failed"), all);
    let done = of("done");
    assert!(!done.is_empty() && done.len() < 8);
    assert_eq!(done, all[8 - done.len()..], "the newest of them, in order");
    assert_eq!(left.source_window.start_ts, parts[0].source_window.start_ts);
    assert_eq!(left.source_window.end_ts, parts[7].source_window.end_ts);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z \"\\\\é日]{0,300}", "(learned|failed|done): .{0,80}"]
}

fn record(seq: u64) -> impl Strategy<Value = Noted> {
    (
        text(),
        proptest::option::of((text(), text())),
        proptest::bool::ANY,
    )
        .prop_map(move |(fact, decision, linked)| {
            let line = super::super::line::line;
            let mut made = noted(seq, &line(&fact, 500));
            made.decision = decision.map(|(title, rationale)| Decision {
                title: line(&title, 160),
                rationale: line(&rationale, 600),
            });
            made.topics = super::super::topics::words(&made.fact).take(8).collect();
            made.links = linked
                .then(|| super::super::testing::link(seq))
                .into_iter()
                .collect();
            made
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_engram_is_larger_than_allowed_and_all_records_are_used_in_order(
        records in (1..40_usize).prop_flat_map(|many| (0..many as u64).map(record).collect::<Vec<_>>()),
        most in 0..20_000_usize,
    ) {
        let most = most.max(ENGRAM_BYTES_MIN);
        let mut rest = &records[..];
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let n = parts.len() as u64;
            let (engram, taken) = compact(rest, &cover(n, Scope::Short), most);
            prop_assert!(taken > 0);
            prop_assert!(printed_len(&engram) <= most);
            let facts: Vec<&String> = rest[..taken].iter().map(|it| &it.fact).collect();
            prop_assert_eq!(engram.facts.iter().collect::<Vec<_>>(), facts);
            parts.push(engram);
            rest = &rest[taken..];
        }
        let left = condense(&parts, &cover(99, Scope::Long), most);
        prop_assert!(printed_len(&left) <= most);
        for fact in &left.facts {
            prop_assert!(parts.iter().any(|part| part.facts.contains(fact)));
        }
    }
}

//! Private rows: by key, by owner and position, by when they are due; dropped, and pruned once they are of the past.

use std::time::Duration;

use switchboard_core::record::{Kind, Listed, Place, RecordRange, Sample};
use switchboard_core::verb::{Prune, Retention};
use switchboard_core::{Ask, Record, Timestamp, Want};

use super::ledger::{Ledger, must};
use super::rows_kept::{ODD, put};
use super::{START, World};

const MINUTE: Duration = Duration::from_secs(60);

fn sample(name: &str, owner: &str, position: i64) -> Sample {
    Sample {
        name: name.to_owned(),
        owner: owner.to_owned(),
        position: Some(position),
        due_at: None,
        text: ODD.to_owned(),
    }
}

/// What the writer and a reader find in a range, by name.
fn samples(ledger: &mut Ledger, range: &RecordRange) -> Vec<String> {
    let slice = ledger.look(&[Ask::Records(range.clone())]);
    let mut want = Want::new(&slice);
    let found = want.privates::<Sample>(range).into_iter();
    let found: Vec<String> = found.map(|sample| sample.name.clone()).collect();
    let read = must("list rows", ledger.reader().records(range));
    let read = read.iter().filter_map(Sample::of);
    let read: Vec<&str> = read.map(|sample| &*sample.name).collect();
    assert_eq!(read, found, "a reader and a batch");
    found
}

pub(super) fn by_owner_and_position(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let alone = Sample {
        position: None,
        ..sample("alone", "ann", 0)
    };
    put(&mut ledger, |changes| {
        for (name, owner, position) in [
            ("a.1", "ann", -3),
            ("b", "ann", 7),
            ("a", "ann", 7),
            ("c", "ann", i64::MAX),
            ("d", "bob", 1),
            (ODD, "", 1),
        ] {
            changes.put(sample(name, owner, position));
        }
        changes.put(alone.clone());
    });
    let counts = must("count rows", ledger.reader().record_counts(Kind::Sample));
    let counts: Vec<(&str, u64)> = counts
        .iter()
        .map(|(owner, count)| (&**owner, *count))
        .collect();
    assert_eq!(
        counts,
        [("", 1), ("ann", 4), ("bob", 1)],
        "those that are in a list"
    );
    let ann = RecordRange::of::<Sample>("ann", 9);
    let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(samples(&mut ledger, &ann), names(&["a.1", "a", "b", "c"]));
    let backwards = RecordRange {
        newest_first: true,
        limit: 3,
        ..ann.clone()
    };
    assert_eq!(samples(&mut ledger, &backwards), names(&["c", "b", "a"]));
    let after = |range: &RecordRange, text: &str| RecordRange {
        after: Some(text.parse().expect("a place")),
        ..range.clone()
    };
    assert_eq!(
        samples(&mut ledger, &after(&ann, "7.a")),
        names(&["b", "c"])
    );
    let before = after(&backwards, "7.b");
    assert_eq!(samples(&mut ledger, &before), names(&["a", "a.1"]));
    let place = Record::from(sample("x.y", "", -3)).place();
    assert_eq!("-3.x.y".parse::<Place>().ok(), place);
    let nobody = RecordRange::of::<Sample>("", 9);
    assert_eq!(samples(&mut ledger, &nobody), names(&[ODD]));
    let key = Sample::at("alone");
    let found = must("read a row", ledger.reader().record(&key));
    assert_eq!(found, Some(alone.into()), "in no list");

    // A row that moves is where it is now, one that is dropped nowhere, and one that comes again is there.
    put(&mut ledger, |changes| {
        changes.remove::<Record>(Sample::at("a"));
        changes.remove::<Record>(Sample::at("d"));
        changes.put(sample("b", "bob", 2));
        changes.put(sample("d", "bob", 3));
    });
    assert_eq!(samples(&mut ledger, &ann), names(&["a.1", "c"]));
    let bob = RecordRange::of::<Sample>("bob", 9);
    assert_eq!(samples(&mut ledger, &bob), names(&["b", "d"]));
    let dropped = must("read a row", ledger.reader().record(&Sample::at("a")));
    assert_eq!(dropped, None);
}

pub(super) fn that_are_due(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    let due = |name: &str, at: Duration| Sample {
        due_at: Some(START + at),
        position: None,
        ..sample(name, "", 0)
    };
    put(&mut ledger, |changes| {
        changes.put(due("late", 3 * MINUTE));
        changes.put(due("b", MINUTE));
        changes.put(due("a", MINUTE));
        changes.put(sample("never", "", 0));
    });
    let next = |ledger: &mut Ledger| must("say what is due", ledger.engine().next_due());
    assert_eq!(next(&mut ledger), Some(START + MINUTE));
    let found = |ledger: &mut Ledger, until: Timestamp, limit| {
        let kind = Sample::KIND;
        let slice = ledger.look(&[Ask::DueRecords { kind, until, limit }]);
        let found = Want::new(&slice).due_privates::<Sample>(until, limit);
        let names = found.iter().map(|sample| sample.name.clone());
        names.collect::<Vec<_>>().join(" ")
    };
    let minute = START + MINUTE;
    let moment = Duration::from_millis(1);
    assert_eq!(found(&mut ledger, START + (MINUTE - moment), 9), "");
    assert_eq!(found(&mut ledger, minute, 9), "a b");
    assert_eq!(found(&mut ledger, minute, 1), "a");
    put(&mut ledger, |changes| {
        changes.remove::<Record>(Sample::at("a"));
        changes.put(due("b", 4 * MINUTE));
    });
    assert_eq!(found(&mut ledger, minute + 9 * MINUTE, 9), "late b");
    assert_eq!(next(&mut ledger), Some(START + 3 * MINUTE));

    // Those of the past go an hour after their position, others stay.
    put(&mut ledger, |changes| {
        changes.put(sample("gone", "past", START.0));
        changes.put(sample("young", "past", (START + 2 * MINUTE).0));
        changes.put(sample("other", "present", START.0));
    });
    clock.advance(61 * MINUTE);
    let keep = Retention::default();
    ledger.run(Prune { keep }).expect("a caretaker");
    let left = |ledger: &mut Ledger, owner: &'static str| {
        samples(ledger, &RecordRange::of::<Sample>(owner, 9))
    };
    assert_eq!(left(&mut ledger, "past"), ["young"]);
    assert_eq!(left(&mut ledger, "present"), ["other"]);
}

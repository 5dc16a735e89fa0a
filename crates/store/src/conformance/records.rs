//! What streams brought to the ledger: records, engrams, doors, watched tasks.

use std::time::Duration;

use switchboard_core::budget::{self, Budget, Kind, Outcome, Resource, Standing, Urgency};
use switchboard_core::director::{Director, Paused, Release};
use switchboard_core::engram::{self, Engram, EngramEntry, Scope};
use switchboard_core::query::Readable;
use switchboard_core::record::Listed;
use switchboard_core::task::Watch;
use switchboard_core::verb::{
    AcquireBudget, Assign, Deregister, EndOverdue, GrantBudgets, Join, KeepEngram, Kept, Order,
    ReportBudget, Steer,
};
use switchboard_core::{
    Ask, Door, EngramId, Record, RecordKey, RowKey, TaskId, Timestamp, Want, limits,
};

use super::acts::{claim, register};
use super::ledger::{Ledger, must};
use super::rows_kept::{ODD, put};
use super::{START, World};
use crate::Error;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const NEVER: Timestamp = Timestamp::ZERO;

fn record(ledger: &Ledger, key: &RecordKey) -> Option<Record> {
    must("read a record", ledger.reader().record(key))
}

pub(super) fn records_come_back(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let at = START + Duration::from_millis(3);
    let director = Director {
        paused: Some(Paused {
            by: ODD.to_owned(),
            reason: ODD.to_owned(),
            at,
        }),
        cooldown_until: Some(at),
        cooldown: Some(Paused {
            by: "desk".to_owned(),
            reason: ODD.to_owned(),
            at,
        }),
        release: Some(Release {
            id: "v2".to_owned(),
            branch: ODD.to_owned(),
            pr_number: Some(u64::MAX),
            main_sha: Some("abc".to_owned()),
            image_tag: None,
        }),
        release_seq: u64::MAX >> 1,
    };
    let rows = [
        Record::Director(director),
        Record::Director(Director::default()),
        Record::Budget(full_budget(Resource::Github, at)),
        Record::Budget(full_budget(Resource::Model, at)),
        Record::Budget(Budget::new(Resource::Model, LIMITS)),
    ];
    for row in &rows {
        let key = row.key();
        put(&mut ledger, |changes| changes.put(row.clone()));
        assert_eq!(record(&ledger, &key).as_ref(), Some(row), "in a reader");
        let slice = ledger.look(&[Ask::Row(RowKey::Record(key.clone()))]);
        assert_eq!(slice.known::<Record>(&key), Some(Some(row)), "in a batch");
    }
    let github = Budget::at(Resource::Github.as_str());
    assert_eq!(
        record(&ledger, &github).as_ref(),
        Some(&rows[2]),
        "each kind and key has a row of its own"
    );
    let (mut empty, _) = world.ledger();
    assert_eq!(record(&empty, &github), None, "there is none yet");
    let slice = empty.look(&[Ask::Row(RowKey::Record(github.clone()))]);
    assert_eq!(slice.known::<Record>(&github), Some(None), "which is known");
}

const LIMITS: budget::Limits = budget::Limits {
    concurrent_max: 1,
    apart_for: SECOND,
    cooldown_for: MINUTE,
};

fn full_budget(resource: Resource, at: Timestamp) -> Budget {
    let grant = |kind| budget::Grant {
        id: format!("{resource}-7").into(),
        request: ODD.into(),
        agent: "ann".into(),
        kind,
        at,
        until: at + MINUTE,
    };
    let request = |urgency| budget::Request {
        id: ODD.into(),
        agent: "bob".into(),
        kind: Kind::Write,
        urgency,
        at,
    };
    Budget {
        grants: Kind::ALL.iter().map(|kind| grant(*kind)).collect(),
        queue: Urgency::ALL.iter().map(|class| request(*class)).collect(),
        cooldown_until: Some(at),
        spaced_at: Some(at),
        served: [("ann".into(), at), (ODD.into(), at)].into(),
        given: u64::MAX,
        ..Budget::new(resource, LIMITS)
    }
}

pub(super) fn records_change_by_their_verbs(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    for agent in ["ann", "bob", "cas"] {
        ledger.join(agent, &[]);
    }
    let ask = |agent: &str| AcquireBudget {
        agent: agent.into(),
        request: "r".into(),
        resource: Resource::Model,
        kind: Kind::Request,
        urgency: Urgency::CurrentRead,
        limits: LIMITS,
    };
    // In one batch each sees what the one before was given.
    let replies = ledger.run_batch(&[&ask("ann"), &ask("bob"), &ask("ann"), &ask("cas")]);
    let replies: Vec<String> = replies
        .into_iter()
        .map(|reply| reply.expect("they are there"))
        .collect();
    assert_eq!(replies[0], replies[2], "asked again");
    assert!(replies[3].contains("position: 2"), "{}", replies[3]);
    let Ok(Standing::Granted(grant)) = ledger.run(ask("ann")) else {
        panic!("ann has lost its grant");
    };
    let reported = ledger.run(ReportBudget {
        agent: "ann".into(),
        grant: grant.id,
        outcome: Outcome::RateLimited,
        retry_after: None,
    });
    reported.expect("ann is there");
    ledger
        .run(Deregister {
            agent: "bob".into(),
        })
        .expect("bob is there");
    let swept = ledger.run(GrantBudgets).expect("a caretaker");
    assert_eq!((swept.granted, swept.due), (0, Some(START + MINUTE)));
    clock.advance(MINUTE);
    let swept = ledger.run(GrantBudgets).expect("a caretaker");
    assert_eq!((swept.granted, swept.due), (1, None));
    let found = record(&ledger, &Budget::at(Resource::Model.as_str()));
    let budget = found.and_then(Budget::out_of).expect("there is a budget");
    assert_eq!(budget.grants[0].agent, "cas".into(), "bob has left");
    let steered = ledger.run(Steer {
        by: "desk".to_owned(),
        reason: ODD.to_owned(),
        order: Order::Cooldown { lasts_for: MINUTE },
    });
    let director = steered.expect("anyone may steer");
    let stored = record(&ledger, &Director::at(""));
    assert_eq!(stored, Some(Record::Director(director)));
}

fn engram(number: u64, scope: Scope, words: &str) -> Engram {
    let body = format!("{{\"words\":{words:?}}}");
    Engram {
        entry: EngramEntry {
            id: format!("e_{}", 10 - number).into(),
            scope,
            version: format!("20260212-00000{number}Z"),
            created_at: START + Duration::from_secs(number),
            hash: format!("sha256:{number}"),
            bytes: body.len() as u64,
            topics: vec![ODD.to_owned(), number.to_string()],
            from_seq: number,
            to_seq: number + 1,
        },
        body: body.into(),
        words: words.into(),
    }
}

pub(super) fn engrams_are_kept_in_order_and_evicted(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let roomy = engram::Budget {
        bytes_max: 1 << 20,
        files_max: 2,
    };
    let budgets = engram::Budgets {
        short_term: roomy,
        long_term: roomy,
    };
    let rows = [
        engram(1, Scope::LongTerm, "the parser was rewritten"),
        engram(2, Scope::ShortTerm, ODD),
        engram(3, Scope::ShortTerm, "The tests of the Parser"),
        engram(4, Scope::ShortTerm, ""),
    ];
    let mut after = 0;
    let mut evicted = Vec::new();
    for row in &rows {
        let kept = ledger.run(KeepEngram {
            engram: row.clone(),
            after,
            instead_of: Vec::new(),
            budgets,
            fence: None,
        });
        match kept.expect("it is as large as it says") {
            Kept::Yes { evicted: gone } => evicted.extend(gone),
            Kept::TooLate => panic!("nobody else keeps any"),
        }
        after = row.entry.to_seq;
    }
    assert_eq!(
        evicted,
        [rows[1].entry.id.clone()],
        "the oldest of its tier"
    );
    let left = [&rows[0], &rows[2], &rows[3]];
    let entries: Vec<EngramEntry> = left.iter().map(|row| row.entry.clone()).collect();
    let reader = ledger.reader();
    let reader = &*reader as &dyn Readable<Error = Error>;
    let listed = must("list engrams", reader.engrams());
    assert_eq!(listed, entries, "oldest first, whatever their ids");
    for row in left {
        let found = must("read an engram", reader.engram(&row.entry.id));
        assert_eq!(found.as_ref(), Some(row), "with its text");
    }
    for gone in [&rows[1].entry.id, &EngramId::from("e_none")] {
        let found = must("read an engram", reader.engram(gone));
        assert_eq!(found, None, "{gone} is not there");
    }
    let mut found: Vec<EngramId> = must("search", reader.engrams_with("parser", 9))
        .into_iter()
        .map(|engram| engram.entry.id)
        .collect();
    found.sort();
    let mut both = [rows[0].entry.id.clone(), rows[2].entry.id.clone()];
    both.sort();
    assert_eq!(found, both, "by a word of their texts");
    let some = must("search", reader.engrams_with("parser", 1));
    assert_eq!(some.len(), 1, "no more than asked for");
    let slice = ledger.look(&[Ask::Records(EngramEntry::all())]);
    let known = Want::new(&slice).privates::<EngramEntry>(&EngramEntry::all());
    assert!(known.into_iter().eq(&entries), "in a batch");
}

pub(super) fn numbers_and_watches(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    for agent in ["ann", "bob", "cas"] {
        ledger.join(agent, &[]);
    }
    let numbered = |ledger: &mut Ledger, number: u64| {
        let slice = ledger.look(&[Ask::Numbered(number)]);
        let id: &Option<TaskId> = &slice.ranges.numbered[&number];
        id.as_ref().map(ToString::to_string)
    };
    for id in ["t1", "t2", "t3"] {
        ledger.add(id);
    }
    assert_eq!(numbered(&mut ledger, 2).as_deref(), Some("t2"));
    assert_eq!(numbered(&mut ledger, 4), None, "a number that nobody has");
    for (agent, stale_after) in [("ann", 3), ("bob", 2)] {
        let assigned = ledger.run(Assign {
            claim: claim(agent),
            cap: 10 * MINUTE,
            stale_after: stale_after * MINUTE,
        });
        assigned.expect("there are tasks");
    }
    ledger.hold("cas", "t3");
    let watched = must(
        "read a task",
        ledger.reader().task(&crate::TaskRef::Number(1)),
    );
    let expected = Watch {
        deadline_at: START + 10 * MINUTE,
        stale_after: 3 * MINUTE,
        look_at: START + 3 * MINUTE,
    };
    let watch = watched.and_then(|task| task.watch);
    assert_eq!(watch, Some(expected), "a watch in a reader");
    let due = |ledger: &mut Ledger, until: Timestamp, limit| {
        let slice = ledger.look(&[Ask::WatchedTasks { until, limit }]);
        let found = slice.ranges.watched_tasks[&(until, limit)].iter();
        found.map(ToString::to_string).collect::<Vec<_>>()
    };
    let tick = Duration::from_millis(1);
    assert!(due(&mut ledger, START + 2 * MINUTE - tick, 9).is_empty());
    assert_eq!(due(&mut ledger, START + 2 * MINUTE, 9), ["t2"]);
    let later = START + 5 * MINUTE;
    assert_eq!(due(&mut ledger, later, 9), ["t2", "t1"], "the most overdue");
    assert_eq!(due(&mut ledger, later, 1), ["t2"], "no more than asked for");
    clock.advance(2 * MINUTE);
    for agent in ["ann", "bob", "cas"] {
        let alive = switchboard_core::verb::Touch {
            agent: agent.into(),
        };
        ledger.run(alive).expect("they are there");
    }
    let next = must("say what is due", ledger.engine().next_due());
    assert_eq!(next, Some(START + 2 * MINUTE), "a watch is due");
    assert_eq!(ledger.run(EndOverdue).expect("a caretaker").done, 1);
    assert_eq!(due(&mut ledger, later, 9), ["t1"], "t2 was given back");
}

pub(super) fn doors_and_silence(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let join = |agent: &str, seconds: Option<u64>| Join {
        silent_after: seconds.map(Duration::from_secs),
        stream: Some(format!("{agent}'s \"first\"")),
        ..Join::by(Door::Bus, agent)
    };
    ledger.run(join("stoic", None)).expect("the id is free");
    ledger.run(join("hasty", Some(30))).expect("the id is free");
    ledger.run(join("both", Some(90))).expect("the id is free");
    ledger.run(register("both", &[])).expect("one more door");
    ledger.run(join("calm", Some(300))).expect("the id is free");
    for (agent, doors, silent_after) in [
        ("stoic", &[Door::Bus][..], None),
        ("hasty", &[Door::Bus], Some(Duration::from_secs(30))),
        (
            "both",
            &[Door::Jetpack, Door::Bus],
            Some(limits::SILENT_AFTER),
        ),
        ("calm", &[Door::Bus], Some(Duration::from_secs(300))),
    ] {
        let row = must("read an agent", ledger.reader().agent(&agent.into()));
        let row = row.expect("it has joined");
        assert_eq!((&row.doors[..], row.silent_after), (doors, silent_after));
    }
    let next = must("say what is due", ledger.engine().next_due());
    assert_eq!(next, Some(START + 30 * SECOND), "the least patient");
    let mut quiet = |now: Timestamp, floor: Timestamp, limit| {
        let slice = ledger.look(&[Ask::QuietAgents { now, floor, limit }]);
        let found = slice.ranges.quiet_agents[&(now, floor, limit)].iter();
        found.map(ToString::to_string).collect::<Vec<_>>()
    };
    let at = |seconds| START + Duration::from_secs(seconds);
    assert!(quiet(at(29), NEVER, 9).is_empty(), "nobody yet");
    assert_eq!(quiet(at(30), NEVER, 9), ["hasty"], "each by its own limit");
    assert_eq!(quiet(at(120), NEVER, 9), ["hasty", "both"]);
    let all = ["hasty", "both", "calm"];
    assert_eq!(quiet(at(900), NEVER, 9), all, "one is never silent");
    assert_eq!(quiet(at(900), NEVER, 2), ["hasty", "both"], "no more");
    // The ledger is served again since 880: nobody has been silent for longer than since then.
    assert!(quiet(at(900), at(880), 9).is_empty());
    assert_eq!(quiet(at(910), at(880), 9), ["hasty"]);
    assert_eq!(quiet(at(1000), at(880), 9), ["hasty", "both"]);
}

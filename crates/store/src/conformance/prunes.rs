//! What goes when it is old, and what stays.

use std::time::Duration;

use switchboard_core::changes::{Nonce, Prune};
use switchboard_core::idempotency::{Key, Remembered};
use switchboard_core::verb::{Cancel, Receive, Serve};
use switchboard_core::{Agent, Ask, Door, FormerAgent, Noun as _, RowKey, Task, TaskId, limits};

use super::acts::{send, task_with};
use super::ledger::must;
use super::rows::Everything;
use super::rows_kept::put;
use super::{START, World};

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn old_events_go_oldest_first(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    for at in 0..6 {
        ledger.add(&format!("t{at}"));
        clock.advance(MINUTE);
    }
    let before = START + 3 * MINUTE;
    put(&mut ledger, |changes| {
        changes.prunes.push(Prune::Events {
            before,
            upto: u64::MAX,
            limit: 2,
        })
    });
    let reader = ledger.reader();
    assert_eq!(
        must("ask for the oldest", reader.oldest_event()),
        Some(3),
        "two at a time"
    );
    for (upto, oldest) in [(3, 3), (4, 4), (9, 4)] {
        let limit = 9;
        let prune = Prune::Events {
            before,
            upto,
            limit,
        };
        put(&mut ledger, |changes| changes.prunes.push(prune));
        let kept = ledger.look(&[Ask::Kept]).ranges.kept;
        let kept = kept.map(|kept| (kept.oldest_event, kept.messages));
        assert_eq!(kept, Some((oldest, 0)), "only below {upto}");
    }
    assert_eq!(
        must("ask for the oldest", reader.oldest_event()),
        Some(4),
        "only the old"
    );
    let log = must("read the log", reader.events(0, 100));
    assert_eq!(log[0].seq, 4, "the log begins later");
    assert_eq!(
        must("read the head", reader.head()).seq,
        10,
        "and goes on where it was"
    );
}

pub(super) fn read_messages_go_and_waiting_ones_stay(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    ledger.join("ann", &[]);
    ledger.join("bob", &[]);
    for id in ["read", "waiting", "young"] {
        if id == "young" {
            clock.advance(MINUTE);
        }
        ledger
            .run(send(id, "ann", Some("bob")))
            .expect("bob is there");
        if id != "waiting" {
            let receive = Receive {
                agent: "bob".into(),
                kinds: Vec::new(),
                limit: 1,
                via: Door::Jetpack,
            };
            ledger.run(receive).expect("bob is there");
        }
    }
    // "young" was sent after "waiting", so bob has fetched "read" and "waiting".
    let before = START + MINUTE;
    put(&mut ledger, |changes| {
        changes.prunes.push(Prune::Messages { before, limit: 9 })
    });
    let seen = Everything::read(&*ledger.reader());
    let left: Vec<&str> = seen.messages.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(left, ["young"], "what was read and is old is gone");
    assert_eq!(seen.deliveries.len(), 1, "with its deliveries");
    clock.advance(MINUTE);
    let before = START + 5 * MINUTE;
    put(&mut ledger, |changes| {
        changes.prunes.push(Prune::Messages { before, limit: 9 })
    });
    let seen = Everything::read(&*ledger.reader());
    assert_eq!(seen.messages.len(), 1, "what nobody fetched stays");
}

pub(super) fn old_answers_and_signatures_go(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    let key = |name: &str| Key {
        principal: "ann".into(),
        operation: "claim",
        key: name.into(),
    };
    let nonce = |name: &str, valid_until| Nonce {
        agent: "ann".into(),
        value: name.into(),
        valid_until,
    };
    for (name, minutes) in [("old", 0), ("older", 0), ("young", 2)] {
        let at = START + minutes * MINUTE;
        put(&mut ledger, |changes| {
            changes.put(Remembered {
                key: key(name),
                body_hash: [1; 32],
                answer: b"answer".as_slice().into(),
                at,
            });
            changes.put(nonce(name, at));
        });
    }
    clock.advance(3 * MINUTE);
    let before = START + MINUTE;
    put(&mut ledger, |changes| {
        changes.prunes.push(Prune::Remembered { before, limit: 1 });
        changes.prunes.push(Prune::Nonces { before, limit: 9 });
    });
    let serve = || Serve { starting: false };
    ledger.run(serve()).expect("serving is not refused");
    let head = must("read the head", ledger.reader().head());
    assert_eq!(
        (head.idempotency_rows, head.idempotency_bytes),
        (2, 12),
        "one answer is gone"
    );
    put(&mut ledger, |changes| {
        let limit = limits::CARETAKER_STEP;
        changes.prunes.push(Prune::Remembered { before, limit });
    });
    ledger.run(serve()).expect("serving is not refused");
    let head = must("read the head", ledger.reader().head());
    assert_eq!(
        (head.idempotency_rows, head.idempotency_bytes),
        (1, 6),
        "the young one stays"
    );
    let (young, old) = (nonce("young", START + 2 * MINUTE), nonce("old", START));
    let slice = ledger.look(&[
        Ask::Row(RowKey::Remembered(key("young"))),
        Ask::Row(RowKey::Remembered(key("old"))),
        Ask::Row(RowKey::Nonce(young.key())),
        Ask::Row(RowKey::Nonce(old.key())),
    ]);
    let kept = ["young", "old"].map(|name| slice.row::<Remembered>(&key(name)).is_some());
    assert_eq!(kept, [true, false], "answers");
    let kept = [young, old].map(|nonce| slice.row::<Nonce>(&nonce.key()).is_some());
    assert_eq!(kept, [true, false], "signatures");
}

pub(super) fn forgotten_rows_are_gone(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &[]);
    ledger.create(vec![task_with("t", |_| ()), task_with("u", |_| ())]);
    ledger.hold("ann", "t");
    let (task, reason): (TaskId, _) = ("t".into(), String::new());
    ledger.run(Cancel { task, reason }).expect("t is open");
    ledger.leave("ann");
    put(&mut ledger, |changes| {
        changes.remove::<Task>("t".into());
        changes.remove::<Agent>("ann".into());
        changes.put(former("ann", 0));
    });
    let seen = Everything::read(&*ledger.reader());
    let left: Vec<&str> = seen.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!((left, seen.head.tasks_total()), (vec!["u"], 1), "tasks");
    assert!(seen.agents.is_empty(), "agents");
    let attempts = must("list attempts", ledger.reader().attempts(1));
    assert!(attempts.is_empty(), "attempts go with their task");
    ledger.join("ann", &[]);
    ledger.add("t");
    let seen = Everything::read(&*ledger.reader());
    assert_eq!(
        seen.tasks.last().map(|task| task.number),
        Some(3),
        "an id may be used again"
    );
}

pub(super) fn what_stays_of_a_forgotten_agent(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    for completed in [3, 7] {
        ledger.join("ann", &[]);
        ledger.leave("ann");
        let kept = former("ann", completed);
        put(&mut ledger, |changes| {
            changes.remove::<Agent>("ann".into());
            changes.put(kept.clone());
        });
        let slice = ledger.look(&[
            Ask::Row(RowKey::Agent("ann".into())),
            Ask::Row(RowKey::Agent("bob".into())),
        ]);
        assert!(slice.agent(&"ann".into()).is_none(), "the row is gone");
        assert_eq!(slice.former_agent(&"ann".into()), Some(&kept));
        assert_eq!(slice.former_agent(&"bob".into()), None, "never seen");
    }
    ledger.join("ann", &[]);
    let seen = Everything::read(&*ledger.reader());
    assert_eq!(seen.agents[0].completed, 7, "it goes on where it ended");
}

fn former(id: &str, completed: u64) -> FormerAgent {
    FormerAgent {
        id: id.into(),
        name: format!("{id} of old"),
        completed,
        failed: 2,
        runtime_ms: 61_000,
        registered_at: START,
        gone_at: START + MINUTE,
    }
}

//! Claims through the engine: the right task, in the right order, from any number of lanes.

use std::time::Duration;

use switchboard_core::verb::{Claim, Fail, ReleaseRetries};
use switchboard_core::{AgentId, Priority, Skills, TaskId, TaskKind, limits};

use super::World;
use super::acts::{claim, complete, fail, task_with};

pub(super) fn skills_decide_who_gets_what(world: &mut World<'_>) {
    let table: [(&[&str], &[&str], bool); 10] = [
        (&[], &[], true),
        (&[], &["rust"], true),
        (&["rust"], &["rust"], true),
        (&["RUST"], &["rust"], true),
        (&["rust"], &[], false),
        (&["rust"], &["rustic"], false),
        (&["rust", "sql"], &["rust"], false),
        (&["rust", "sql"], &["sql", "rust"], true),
        (&["rust", "sql"], &["go", "rust", "sql", "web"], true),
        (&["a", "b", "c"], &["a", "c"], false),
    ];
    for (required, offered, fits) in table {
        let (mut ledger, _) = world.ledger();
        ledger.join("ann", offered);
        ledger.create(vec![task_with("t", |task| {
            task.about.required_skills = Skills::new(required)
        })]);
        let got = ledger.takes("ann").is_some();
        assert_eq!(got, fits, "{required:?} by an agent with {offered:?}");
    }
}

pub(super) fn claims_go_by_priority_then_age(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &["rust", "web"]);
    let sets: [&[&str]; 4] = [&[], &["rust"], &["web"], &["rust", "web"]];
    let mut expected = Vec::new();
    for at in 0..24 {
        let priority = Priority::ALL[(at * 7) % 4];
        let id = format!("t{at:02}");
        ledger.create(vec![task_with(&id, |task| {
            task.about.priority = priority;
            task.about.required_skills = Skills::new(sets[(at * 5) % 4]);
            task.about.kind = [TaskKind::Code, TaskKind::Review][at % 2];
        })]);
        expected.push((priority, id));
    }
    expected.sort();
    let expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
    let mut got = Vec::new();
    while let Some(id) = ledger.takes("ann") {
        got.push(id);
    }
    assert_eq!(got, expected, "the order of claims");
}

pub(super) fn foreign_lanes_do_not_hide_a_task(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &["rust"]);
    let many = limits::LANES_PER_LOAD * 2 + 1;
    let tasks = (0..many).map(|at| {
        task_with(&format!("f{at}"), |task| {
            task.about.priority = Priority::Critical;
            task.about.estimated_minutes = Some(61 + at as u32);
        })
    });
    ledger.create(tasks.collect());
    assert_eq!(ledger.takes("ann"), None, "all take too long");
    ledger.create(vec![task_with("mine", |task| {
        task.about.priority = Priority::Low
    })]);
    assert_eq!(
        ledger.takes("ann").as_deref(),
        Some("mine"),
        "behind all the others"
    );
}

pub(super) fn exclusions_go_past_a_page(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &[]);
    let many = limits::QUEUE_PER_LOAD + 1;
    ledger.create(
        (0..=many)
            .map(|at| task_with(&format!("t{at}"), |_| ()))
            .collect(),
    );
    let mut picky: Claim = claim("ann");
    picky.filter.excluded = (0..many).map(|at| TaskId::from(format!("t{at}"))).collect();
    let got = format!("{:?}", ledger.run(picky).expect("ann is there"));
    assert!(
        got.contains(&format!("id: t{many}")),
        "the one that is left: {got}"
    );
}

pub(super) fn retries_audiences_and_closing_lanes(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    ledger.join("ann", &[]);
    ledger.join("bob", &[]);
    ledger.create(vec![
        task_with("retried", |task| task.about.max_retries = 1),
        task_with("for bob", |task| {
            task.about.audience = vec![AgentId::from("bob")]
        }),
    ]);
    assert_eq!(
        ledger.takes("ann").as_deref(),
        Some("retried"),
        "the first try"
    );
    ledger.run(fail("ann", "retried")).expect("ann holds it");
    clock.advance(Duration::from_secs(60));
    let step = ledger
        .run(ReleaseRetries)
        .expect("a caretaker is not refused");
    assert_eq!(step.done, 1, "the retry is due");
    assert_eq!(
        ledger.takes("ann"),
        None,
        "bob has not tried yet, and the other is for bob"
    );
    assert_eq!(
        ledger.takes("bob").as_deref(),
        Some("retried"),
        "the older one first"
    );
    assert_eq!(
        ledger.takes("bob").as_deref(),
        Some("for bob"),
        "then his own"
    );
    ledger
        .run(complete("bob", "for bob"))
        .expect("bob holds it");
    let last = Fail {
        recoverable: false,
        ..fail("bob", "retried")
    };
    ledger.run(last).expect("bob holds it");
    let head = super::ledger::must("read the head", ledger.reader().head());
    for lane in 1..=head.lane {
        let id = switchboard_core::LaneId(lane);
        let slice = ledger.look(&[switchboard_core::Ask::LaneById(id)]);
        assert_eq!(
            slice.lanes.known(id),
            Some(None),
            "lane {lane} is empty and closed"
        );
    }
    for rep in ["", "@bob"].map(|word| switchboard_core::lane::Rep(word.into())) {
        let slice = ledger.look(&[switchboard_core::Ask::LanesUnder(rep.clone())]);
        assert_eq!(
            slice.lanes.lanes_under(&rep),
            Some(0),
            "no lane is left under {rep:?}"
        );
    }
}

//! What a batch is: all of it or nothing, one log without gaps, a time that does not go back.

use std::time::Duration;

use switchboard_core::verb::{Serve, SetBaseline};
use switchboard_core::{Event, Logged, Slice, TaskStatus, Timestamp};

use super::acts::{claim, complete, register, send, task_with};
use super::ledger::{AnyVerb, must};
use super::rows::Everything;
use super::{Cache, START, World};
use switchboard_core::verb::{BaselineSource, CreateTasks};

pub(super) fn a_rolled_back_batch_leaves_nothing(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &[]);
    ledger.add("t");
    let before = Everything::read(&*ledger.reader());
    let tasks = vec![task_with("u", |task| task.dependencies = vec!["t".into()])];
    let create = CreateTasks { tasks };
    let metrics = switchboard_core::Metrics {
        build_success: true,
        type_errors: 0,
        lint_errors: 0,
        lint_warnings: 0,
        tests_passing: 0,
        tests_failing: 0,
        test_coverage: None,
    };
    let baseline = SetBaseline {
        source: BaselineSource::Given(metrics),
        by: "a person".to_owned(),
    };
    let verbs: [&dyn AnyVerb; 5] = [
        &create,
        &claim("ann"),
        &register("bob", &[]),
        &send("m", "ann", None),
        &baseline,
    ];
    let replies = ledger.run_in_vain(&verbs);
    assert!(
        replies.iter().all(Result::is_ok),
        "all were decided: {replies:?}"
    );
    Everything::read(&*ledger.reader()).assert_same(&before, "after a rollback");
    assert_eq!(
        ledger.takes("ann").as_deref(),
        Some("t"),
        "and it goes on from there"
    );
    let seen = Everything::read(&*ledger.reader());
    assert_eq!(seen.head.seq, before.head.seq + 1, "no number was lost");
}

pub(super) fn verbs_of_a_batch_see_each_other(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let create = |id: &str| CreateTasks {
        tasks: vec![task_with(id, |_| ())],
    };
    let (one, two) = (create("one"), create("two"));
    let verbs: [&dyn AnyVerb; 9] = [
        &register("ann", &[]),
        &one,
        &claim("ann"),
        &claim("ann"),
        &complete("ann", "one"),
        &two,
        &claim("ann"),
        &claim("bob"),
        &complete("ann", "two"),
    ];
    let replies = ledger.run_batch(&verbs);
    let ok: Vec<bool> = replies.iter().map(Result::is_ok).collect();
    let expected = [true, true, true, true, true, true, true, false, true];
    assert_eq!(ok, expected, "{replies:?}");
    let seen = Everything::read(&*ledger.reader());
    let states: Vec<TaskStatus> = seen.tasks.iter().map(|task| task.status()).collect();
    assert_eq!(states, [TaskStatus::Completed; 2], "both are done");
    assert_eq!(seen.attempts.len(), 2, "with one row of history each");
    assert_eq!(seen.agents[0].completed, 2, "and counted");
}

pub(super) fn readers_see_what_was_committed(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let reader = ledger.reader();
    let seq = || must("read the head", reader.head()).seq;
    assert_eq!(seq(), 0, "an empty ledger");
    ledger.join("ann", &[]);
    assert_eq!(seq(), 1, "a reader that was opened before sees it");
    let events = must("read the log", reader.events(0, 10));
    assert_eq!(events.len(), 1, "with its event");
}

pub(super) fn the_log_is_gapless_and_paged(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    let reader = ledger.reader();
    assert_eq!(
        must("ask for the oldest", reader.oldest_event()),
        None,
        "no event"
    );
    ledger.join("ann", &[]);
    for at in 0..10 {
        clock.advance(Duration::from_millis(3));
        let tasks = vec![
            task_with(&format!("a{at}"), |_| ()),
            task_with(&format!("b{at}"), |_| ()),
        ];
        ledger.create(tasks);
        // A refused verb leaves no number out.
        assert!(ledger.run(claim("nobody")).is_err(), "nobody is nobody");
    }
    let log: Vec<Logged> = must("read the log", reader.events(0, 1000));
    let numbers: Vec<u64> = log.iter().map(|logged| logged.seq).collect();
    assert_eq!(numbers, (1..=21).collect::<Vec<u64>>(), "numbers");
    assert_eq!(
        must("read the head", reader.head()).seq,
        21,
        "the head's number"
    );
    assert_eq!(
        must("ask for the oldest", reader.oldest_event()),
        Some(1),
        "the oldest"
    );
    assert!(log.windows(2).all(|pair| pair[0].at <= pair[1].at), "times");
    for (after, limit, expected) in [
        (0, 3, vec![1, 2, 3]),
        (3, 3, vec![4, 5, 6]),
        (4, 2, vec![5, 6]),
        (19, 10, vec![20, 21]),
        (21, 10, vec![]),
        (500, 10, vec![]),
    ] {
        let page = must("read the log", reader.events(after, limit));
        let numbers: Vec<u64> = page.iter().map(|logged| logged.seq).collect();
        assert_eq!(numbers, expected, "{limit} events after {after}");
        assert!(
            page.iter().all(|logged| log.contains(logged)),
            "the same events"
        );
    }
    let first = Event::AgentRegistered {
        agent: "ann".into(),
        resumed: false,
    };
    assert_eq!(log[0].event, first, "an event comes back as it was");
}

pub(super) fn time_does_not_go_back(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    ledger.join("ann", &[]);
    clock.set(Timestamp(START.0 - 3_600_000));
    ledger.add("t");
    let seen = Everything::read(&*ledger.reader());
    assert_eq!(
        seen.log[1].at, START,
        "the clock was set back, the ledger goes on"
    );
    clock.set(START + Duration::from_secs(5));
    ledger.add("u");
    let seen = Everything::read(&*ledger.reader());
    assert_eq!(
        seen.log[2].at,
        START + Duration::from_secs(5),
        "and forward again"
    );
}

pub(super) fn a_clock_that_is_set_moves_time_slowly(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    ledger.join("ann", &[]);
    let mut told = || {
        let mut slice = Slice::default();
        let begun = must("begin", ledger.engine().begin(&mut slice));
        ledger.engine().rollback();
        let passed_ms = begun.now.0 - START.0;
        let ahead_ms = begun.wall.0 - begun.now.0;
        (passed_ms, ahead_ms, begun.clock_stepped_ms)
    };
    assert_eq!(told(), (0, 0, None));
    for step in [3_600_000_i64, -3_600_000] {
        let before = clock.now().0 - START.0;
        clock.set_wall_ahead(step);
        assert_eq!(told(), (before, step, Some(step)), "it is told");
        assert_eq!(told(), (before, step, None), "once");
        clock.advance(Duration::from_secs(10));
        let drawn = 1000 * step.signum();
        let expected = (before + 10_000 + drawn, step - drawn, None);
        assert_eq!(told(), expected, "a tenth of the time that passes");
        clock.set_wall_ahead(0);
        assert_eq!(told().2, Some(-step), "it was put right");
        clock.advance(Duration::from_secs(10));
        assert_eq!(told(), (before + 20_000, 0, None), "and so is the ledger");
    }
}

pub(super) fn a_quiet_batch_writes_its_head(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    let serve = Serve { starting: true };
    ledger.run(serve).expect("serving is not refused");
    clock.advance(Duration::from_secs(5));
    let serve = Serve { starting: false };
    ledger.run(serve).expect("serving is not refused");
    let head = must("read the head", ledger.reader().head());
    assert_eq!(
        head.served_at,
        START + Duration::from_secs(5),
        "when it was last served"
    );
    assert_eq!((head.floor, head.seq), (START, 0), "without an event");
}

pub(super) fn held_back_signs_of_life_are_written_when_due(world: &mut World<'_>) {
    let (ledger, clock) = world.ledger();
    let mut ledger = ledger.with_cache(Cache::Kept).with_late_pulses();
    ledger.join("ann", &[]);
    let mut beat = |seconds: u64| {
        clock.advance(Duration::from_secs(seconds));
        let beat = switchboard_core::verb::Heartbeat {
            agent: "ann".into(),
            doing: switchboard_core::Doing::Idle,
            task: None,
            metrics: None,
        };
        ledger.run(beat).expect("ann is there");
        let row = must("read an agent", ledger.reader().agent(&"ann".into()));
        let row = row.expect("ann is there");
        (row.seen_at.since(START).as_secs(), row.heartbeats)
    };
    assert_eq!(beat(1), (0, 0), "held back");
    assert_eq!(beat(3), (0, 0), "still");
    assert_eq!(
        beat(2),
        (6, 3),
        "written once the first is five seconds old"
    );
    assert_eq!(beat(1), (6, 3), "held back again");
}

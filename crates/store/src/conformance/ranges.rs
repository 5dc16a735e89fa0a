//! Every ask that is not a single row: what belongs to the answer, in which order, how much of it.

use std::time::Duration;

use switchboard_core::lane::{LaneKey, Rep};
use switchboard_core::slice::{InboxAsk, InboxOrder};
use switchboard_core::verb::{Cancel, Receive, Send};
use switchboard_core::{
    AgentId, Ask, Door, LeasePath, MessageId, Priority, Skills, TaskId, Timestamp, limits,
};

use super::acts::{complete, fail, send, task_with};
use super::{START, World};

const MINUTE: Duration = Duration::from_secs(60);

fn ids<T: ToString>(ids: &[T]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

pub(super) fn agents_by_presence(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    for name in ["dee", "ann", "cas", "bob"] {
        ledger.join(name, &[]);
        clock.advance(MINUTE);
    }
    ledger.leave("cas");
    clock.advance(MINUTE);
    ledger.leave("dee");
    let present = ledger.look(&[Ask::PresentAgents]);
    let found = present
        .ranges
        .present_agents
        .as_ref()
        .expect("it was asked for");
    let mut found = ids(found);
    found.sort();
    assert_eq!(found, ["ann", "bob"], "agents that are not gone");
    assert!(
        present.agent(&"ann".into()).is_some(),
        "their rows are there too"
    );
    let quiet = |ledger: &mut super::Ledger, since: Timestamp, limit| {
        let (now, floor) = (since + limits::SILENT_AFTER, Timestamp::ZERO);
        let slice = ledger.look(&[Ask::QuietAgents { now, floor, limit }]);
        ids(&slice.ranges.quiet_agents[&(now, floor, limit)])
    };
    assert_eq!(
        quiet(&mut ledger, START + MINUTE, 9),
        ["ann"],
        "seen at that very instant"
    );
    let before = START + MINUTE - Duration::from_millis(1);
    assert!(quiet(&mut ledger, before, 9).is_empty(), "seen later");
    assert_eq!(
        quiet(&mut ledger, START + 9 * MINUTE, 9),
        ["ann", "bob"],
        "oldest first"
    );
    assert_eq!(
        quiet(&mut ledger, START + 9 * MINUTE, 1),
        ["ann"],
        "no more than asked for"
    );
    let gone = |ledger: &mut super::Ledger, before: Timestamp, limit| {
        let slice = ledger.look(&[Ask::GoneAgents { before, limit }]);
        ids(&slice.ranges.gone_agents[&(before, limit)])
    };
    assert_eq!(
        gone(&mut ledger, START + 9 * MINUTE, 9),
        ["cas", "dee"],
        "gone agents"
    );
    assert_eq!(
        gone(&mut ledger, START + 9 * MINUTE, 1),
        ["cas"],
        "the first to leave"
    );
    assert_eq!(
        gone(&mut ledger, START + 5 * MINUTE, 9),
        ["cas"],
        "those that left before"
    );
}

pub(super) fn dependants_and_finished_tasks(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    ledger.join("ann", &[]);
    ledger.add("root");
    let after = |id: &str| task_with(id, |task| task.dependencies = vec!["root".into()]);
    ledger.create(vec![after("x"), after("y")]);
    let slice = ledger.look(&[Ask::Dependants("root".into()), Ask::Dependants("x".into())]);
    assert_eq!(
        ids(&slice.ranges.dependants[&"root".into()]),
        ["x", "y"],
        "dependants"
    );
    assert!(
        slice.ranges.dependants[&"x".into()].is_empty(),
        "no dependants"
    );
    ledger.hold("ann", "root");
    ledger.run(complete("ann", "root")).expect("ann holds it");
    clock.advance(MINUTE);
    let reason = String::new();
    let task: TaskId = "x".into();
    ledger.run(Cancel { task, reason }).expect("x is open");
    let mut finished = |before: Timestamp| {
        let (mut from, mut found) = (0, Vec::new());
        loop {
            let limit = 1;
            let slice = ledger.look(&[Ask::FinishedTasks {
                from,
                before,
                limit,
            }]);
            let page = &slice.ranges.finished[&(from, before, limit)];
            found.extend(ids(&page.tasks));
            match page.next {
                Some(next) => from = next,
                None => return found,
            }
        }
    };
    assert_eq!(finished(START + 2 * MINUTE), ["root", "x"], "what ended");
    assert_eq!(finished(START + MINUTE), ["root"], "what ended before");
    assert!(finished(START).is_empty(), "nothing that old");
}

pub(super) fn what_is_due(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    let due = |ledger: &mut super::Ledger| {
        super::ledger::must("say what is due", ledger.engine().next_due())
    };
    assert_eq!(due(&mut ledger), None, "nothing is due in an empty ledger");
    ledger.join("ann", &[]);
    ledger.join("bob", &[]);
    assert_eq!(
        due(&mut ledger),
        Some(START + limits::SILENT_AFTER),
        "an agent's silence"
    );
    ledger.add("t1");
    ledger.add("t2");
    for id in ["t1", "t2"] {
        ledger.hold("ann", id);
        ledger.run(fail("ann", id)).expect("ann holds it");
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(due(&mut ledger), Some(START + MINUTE), "a retry");
    ledger.lease("ann", "src", None, Duration::from_secs(10));
    ledger.lease("ann", "docs", None, Duration::from_secs(9));
    assert_eq!(
        due(&mut ledger),
        Some(START + Duration::from_secs(11)),
        "a lease's end"
    );
    for (id, seconds) in [("m1", 5), ("m2", 4)] {
        let message = Send {
            expires_in: Some(Duration::from_secs(seconds)),
            ..send(id, "ann", Some("bob"))
        };
        ledger.run(message).expect("bob is there");
    }
    ledger
        .run(send("m3", "ann", Some("bob")))
        .expect("bob is there");
    assert_eq!(
        due(&mut ledger),
        Some(START + Duration::from_secs(6)),
        "a message's end"
    );
    let until = START + MINUTE;
    let limit = 9;
    let asks = [
        Ask::DueRetries { until, limit },
        Ask::DueLeases { until, limit },
        Ask::DueDeliveries { until, limit },
    ];
    let slice = ledger.look(&asks);
    let key = (until, limit);
    assert_eq!(ids(&slice.ranges.due_retries[&key]), ["t1"], "due retries");
    assert_eq!(
        ids(&slice.ranges.due_leases[&key]),
        ["docs", "src"],
        "due leases"
    );
    let deliveries = &slice.ranges.due_deliveries[&key];
    let messages: Vec<&str> = deliveries
        .iter()
        .map(|(message, _)| message.as_str())
        .collect();
    assert_eq!(messages, ["m2", "m1"], "due deliveries");
    let limit = 1;
    let until = START + Duration::from_secs(3600);
    let slice = ledger.look(&[
        Ask::DueRetries { until, limit },
        Ask::DueLeases { until, limit },
    ]);
    assert_eq!(
        slice.ranges.due_retries[&(until, 1)].len(),
        1,
        "no more than asked for"
    );
    assert_eq!(
        slice.ranges.due_leases[&(until, 1)].len(),
        1,
        "no more than asked for"
    );
}

pub(super) fn leases_by_path_agent_and_task(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &[]);
    ledger.join("bob", &[]);
    ledger.add("t");
    ledger.hold("ann", "t");
    let paths = [
        "src/a.rs",
        "src/b.rs",
        "src/deep/c.rs",
        "docs/*.md",
        "srcs",
        "a",
        "a/b/c.rs",
    ];
    for (at, path) in paths.iter().enumerate() {
        let task = (at == 0).then_some("t");
        ledger.lease("ann", path, task, MINUTE);
    }
    ledger.lease("bob", "ui", None, MINUTE);
    let everything = paths.len() + 1;
    let table: [(&str, Vec<&str>); 8] = [
        ("src", vec!["src/a.rs", "src/b.rs", "src/deep/c.rs"]),
        ("src/*.rs", vec!["src/a.rs", "src/b.rs"]),
        ("src/deep/c.rs", vec!["src/deep/c.rs"]),
        ("docs/x.md", vec!["docs/*.md"]),
        (
            "**/*.rs",
            vec![
                "a",
                "a/b/c.rs",
                "src/a.rs",
                "src/b.rs",
                "src/deep/c.rs",
                "srcs",
                "ui",
            ],
        ),
        ("a/b/c.rs/d", vec!["a", "a/b/c.rs"]),
        ("nothing", vec![]),
        (
            ".",
            vec![
                "a",
                "a/b/c.rs",
                "docs/*.md",
                "src/a.rs",
                "src/b.rs",
                "src/deep/c.rs",
                "srcs",
                "ui",
            ],
        ),
    ];
    for (path, expected) in table {
        let path = LeasePath::stored(path);
        let slice = ledger.look(&[Ask::LeasesNear(path.clone())]);
        let near = &slice.ranges.leases_near[&path];
        let overlapping = near.iter().filter(|lease| lease.overlaps(&path));
        let mut found: Vec<&str> = overlapping.map(LeasePath::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "leases that overlap with {path}");
        assert!(
            near.iter().all(|path| slice.lease(path).is_some()),
            "their rows are there too"
        );
    }
    let asks = [
        Ask::LeasesOfAgent("ann".into()),
        Ask::LeasesOfAgent("bob".into()),
        Ask::LeasesOfTask("t".into()),
        Ask::LeasesOfTask("u".into()),
    ];
    let slice = ledger.look(&asks);
    let of_agent = |agent: &str| slice.ranges.leases_of_agent[&AgentId::from(agent)].len();
    assert_eq!(
        (of_agent("ann"), of_agent("bob")),
        (everything - 1, 1),
        "leases by agent"
    );
    let of_task = |task: &str| ids(&slice.ranges.leases_of_task[&TaskId::from(task)]);
    assert_eq!(
        (of_task("t"), of_task("u")),
        (vec!["src/a.rs".to_owned()], vec![]),
        "by task"
    );
}

pub(super) fn inboxes(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    for name in ["ann", "bob", "cas"] {
        ledger.join(name, &[]);
    }
    for (id, kind, to, priority) in [
        ("m3", "custom", Some("bob"), Priority::Medium),
        ("m1", "info.discovery", None, Priority::Low),
        ("m2", "custom", Some("bob"), Priority::High),
        ("m4", "custom", Some("cas"), Priority::Medium),
    ] {
        let message = Send {
            priority,
            kind: kind.to_owned(),
            ..send(id, "ann", to)
        };
        ledger.run(message).expect("they are there");
    }
    let inbox = |agent: &str, kinds: &[&str], limit| InboxAsk {
        agent: agent.into(),
        kinds: kinds.iter().map(ToString::to_string).collect(),
        limit,
        order: InboxOrder::Oldest,
    };
    let urgent = |agent: &str, kinds: &[&str], limit| InboxAsk {
        order: InboxOrder::MostUrgent,
        ..inbox(agent, kinds, limit)
    };
    let mut found = |ask: InboxAsk| {
        let slice = ledger.look(&[Ask::Inbox(ask.clone())]);
        let found: &Vec<MessageId> = &slice.ranges.inbox[&ask];
        for id in found {
            assert!(slice.message(id).is_some(), "the message {id} is there too");
            assert!(slice.delivery(id, &ask.agent).is_some(), "and its delivery");
        }
        ids(found)
    };
    assert_eq!(
        found(inbox("bob", &[], 9)),
        ["m3", "m1", "m2"],
        "oldest first"
    );
    assert_eq!(
        found(inbox("bob", &["custom"], 9)),
        ["m3", "m2"],
        "of one kind"
    );
    assert_eq!(
        found(inbox("bob", &["custom", "info.discovery"], 2)),
        ["m3", "m1"],
        "of two kinds"
    );
    assert_eq!(
        found(inbox("bob", &[], 1)),
        ["m3"],
        "no more than asked for"
    );
    assert_eq!(
        found(inbox("cas", &[], 9)),
        ["m1", "m4"],
        "of another agent"
    );
    let by_urgency = [("bob", &["m2", "m3", "m1"][..]), ("cas", &["m4", "m1"])];
    for (agent, expected) in by_urgency {
        for limit in 1..=3 {
            let expected = &expected[..expected.len().min(limit)];
            assert_eq!(
                found(urgent(agent, &[], limit)),
                expected,
                "most urgent first"
            );
        }
    }
    assert_eq!(
        found(urgent("bob", &["custom"], 9)),
        ["m2", "m3"],
        "of one kind"
    );
    assert!(
        found(inbox("ann", &[], 9)).is_empty(),
        "the sender gets nothing"
    );
    let receive = Receive {
        agent: "bob".into(),
        kinds: Vec::new(),
        limit: 2,
        via: Door::Jetpack,
    };
    ledger.run(receive).expect("bob is there");
    let ask = inbox("bob", &[], 9);
    let slice = ledger.look(&[Ask::Inbox(ask.clone())]);
    assert_eq!(
        ids(&slice.ranges.inbox[&ask]),
        ["m2"],
        "what was handed over is gone"
    );
    assert_eq!(slice.head.queued_deliveries, 3, "what still waits");
}

pub(super) fn lanes_and_queues(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &["rust"]);
    let rust = |id: &str| {
        task_with(id, |task| {
            task.about.required_skills = Skills::new(["rust"])
        })
    };
    let many = limits::QUEUE_PER_LOAD + 2;
    ledger.create((0..many).map(|at| rust(&format!("t{at}"))).collect());
    ledger.add("plain");
    ledger.hold("ann", "t0");
    let key = LaneKey {
        priority: switchboard_core::Priority::Medium,
        kind: switchboard_core::TaskKind::Code,
        minutes: None,
        skills: Skills::new(["rust"]),
        audience: vec![],
        barred: vec![],
        previous: vec![],
    };
    let (rep, other) = (Rep("rust".into()), Rep("go".into()));
    let slice = ledger.look(&[
        Ask::LaneByKey(key.clone()),
        Ask::LanesUnder(rep.clone()),
        Ask::LanesUnder(other.clone()),
        Ask::HeldLanes(rep.clone()),
        Ask::HeldLanes(Rep::nobody_special()),
        Ask::Lanes {
            rep: rep.clone(),
            from: None,
        },
    ]);
    let lane = slice.lanes.by_key(&key).flatten().expect("the lane exists");
    assert_eq!(
        (lane.ready, lane.held, lane.rep.clone()),
        (many as u64 - 1, 1, rep.clone()),
        "a lane"
    );
    let under = (
        slice.lanes.lanes_under(&rep),
        slice.lanes.lanes_under(&other),
    );
    assert_eq!(under, (Some(1), Some(0)), "lanes under a word");
    let held = |rep: &Rep| slice.lanes.held_under(rep).map(Iterator::count);
    assert_eq!(
        (held(&rep), held(&Rep::nobody_special())),
        (Some(1), Some(0)),
        "held lanes"
    );
    assert_eq!(
        slice.lanes.ready_under(&rep).count(),
        1,
        "lanes with waiting tasks"
    );
    assert_eq!(slice.lanes.unknown_from(&rep), None, "all of them");
    let id = lane.id;
    let by_id = ledger.look(&[
        Ask::LaneById(id),
        Ask::LaneById(switchboard_core::LaneId(999)),
    ]);
    assert_eq!(by_id.lanes.get(id), Some(lane), "a lane by its id");
    assert_eq!(
        by_id.lanes.known(switchboard_core::LaneId(999)),
        Some(None),
        "no such lane"
    );
    let mut slice = ledger.look(&[Ask::Queue { lane: id, from: 0 }]);
    let queue = slice.lanes.queue(id).expect("it was asked for");
    let page = queue.waiting().count();
    assert!(
        (1..=limits::QUEUE_PER_LOAD).contains(&page),
        "a page of a queue has {page}"
    );
    let mut next = queue.unknown_from();
    assert!(next.is_some(), "there is more");
    let first = queue
        .waiting()
        .next()
        .map(|(number, task)| (*number, task.to_string()));
    assert_eq!(
        first,
        Some((2, "t1".to_owned())),
        "what is held does not wait"
    );
    let mut asks = vec![Ask::Queue { lane: id, from: 0 }];
    let mut rest = switchboard_core::Slice::default();
    while let Some(from) = next {
        asks.push(Ask::Queue { lane: id, from });
        rest = ledger.look(&asks);
        next = rest.lanes.queue(id).and_then(|queue| queue.unknown_from());
    }
    let queue = rest.lanes.queue(id).expect("it was asked for");
    assert_eq!(
        (queue.waiting().count(), queue.unknown_from()),
        (many - 1, None),
        "all of a queue"
    );
    slice.end_batch();
}

pub(super) fn many_lanes_of_a_word(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let many = limits::LANES_PER_LOAD + 3;
    for at in 0..many {
        // Each has an estimate of its own, so each is a lane; the priority goes up as they get younger.
        ledger.create(vec![task_with(&format!("t{at}"), |task| {
            task.about.estimated_minutes = Some(1 + at as u32);
            if at == many - 1 {
                task.about.priority = switchboard_core::Priority::High;
            }
        })]);
    }
    let rep = Rep::nobody_special();
    let first = Ask::Lanes {
        rep: rep.clone(),
        from: None,
    };
    let slice = ledger.look(std::slice::from_ref(&first));
    let lanes: Vec<u64> = slice
        .lanes
        .ready_under(&rep)
        .map(|lane| lane.head)
        .collect();
    assert_eq!(lanes.len(), limits::LANES_PER_LOAD, "a full page of lanes");
    assert_eq!(
        (lanes[0], lanes[1], lanes[2]),
        (many as u64, 1, 2),
        "by priority, then age"
    );
    let from = slice.lanes.unknown_from(&rep).expect("there is more");
    let next = Ask::Lanes {
        rep: rep.clone(),
        from,
    };
    let slice = ledger.look(&[first, next]);
    assert_eq!(slice.lanes.ready_under(&rep).count(), many, "all lanes");
    assert_eq!(slice.lanes.unknown_from(&rep), None, "that is the end");
}

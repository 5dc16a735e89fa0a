//! Every kind of row comes back as it was written, with all its fields and with none of the optional ones.

use std::time::Duration;

use switchboard_core::agent::{AgentMetrics, Command, CommandKind, Current, Machine, Presence};
use switchboard_core::attempt::{Attempt, Outcome};
use switchboard_core::changes::{Nonce, Pulse, Served};
use switchboard_core::idempotency::{Key, Remembered};
use switchboard_core::message::Afar;
use switchboard_core::node::Timings;
use switchboard_core::talk::Given;
use switchboard_core::task::{Failure, OnDependencyFailure, Progress};
use switchboard_core::token::{Scope, Token};
use switchboard_core::verb::CreateTasks;
use switchboard_core::{
    Agent, AgentId, AgentKind, Ask, Baseline, Changes, Delivery, DeliveryState, Doing, Door, Event,
    FailureKind, Learning, Lease, LeasePath, Message, Metrics, Noun as _, Phase, Priority, RowKey,
    Skills, Snapshot, Task, TaskKind, TaskState, Timestamp, To,
};

use super::acts::{evidence, task_with};
use super::ledger::{Ledger, must};
use super::put::Put;
use super::rows::Everything;
use super::{START, World};
use crate::TaskRef;

/// Text that trips up careless quoting.
pub(super) const ODD: &str = "it's \"odd\" \\ \n\t% _ 'x'; -- ünïcödé 漢字 🦀 \u{1f}";

pub(super) fn tasks_come_back(world: &mut World<'_>) {
    for state in states() {
        for full in [true, false] {
            let (mut ledger, _) = world.ledger();
            let made = ledger.run(CreateTasks {
                tasks: vec![task_with("t", |task| {
                    task.corr_id = "corr".into();
                    task.on_dependency_failure = OnDependencyFailure::Fail;
                })],
            });
            let plain = made.expect("a plain task is made").remove(0);
            let untouched = matches!(state, TaskState::Waiting | TaskState::Ready);
            let mut task = Task {
                rev: 1,
                epoch: u64::from(!untouched),
                state: state.clone(),
                ..plain
            };
            if full {
                fill(&mut task);
            }
            if state == TaskState::Waiting {
                task.blockers = vec!["gone".into()];
            }
            put(&mut ledger, |changes| {
                changes.put(task.clone());
                // The same at once, as a new row.
                changes.put(Task {
                    id: "new".into(),
                    number: 2,
                    rev: 1,
                    ..task.clone()
                });
            });
            task.rev = 2;
            let found = must(
                "read a task",
                ledger.reader().task(&TaskRef::Id("t".into())),
            );
            let found = found.expect("the task was saved");
            task.lane = found.lane;
            assert_eq!(found, task, "a task in a reader");
            let new = must("read a task", ledger.reader().task(&TaskRef::Number(2)));
            let mut new = new.expect("the new task was saved");
            assert_eq!(new.id, "new".into(), "a task by its number");
            (new.id, new.number) = (task.id.clone(), task.number);
            assert_eq!(new, task, "a new task in a reader");
            let slice = ledger.look(&[Ask::Row(RowKey::Task("t".into()))]);
            assert_eq!(slice.task(&"t".into()), Some(&task), "a task in a batch");
        }
    }
}

fn states() -> Vec<TaskState> {
    let (by, at): (AgentId, _) = ("ann".into(), START + Duration::from_millis(7));
    vec![
        TaskState::Waiting,
        TaskState::Ready,
        TaskState::Claimed { by: by.clone(), at },
        TaskState::InProgress { by: by.clone(), at },
        TaskState::RetryWait { until: at },
        TaskState::NeedsPerson { by: by.clone(), at },
        TaskState::Completed { by, at },
        TaskState::Failed { at },
        TaskState::Canceled { at },
    ]
}

fn fill(task: &mut Task) {
    task.about.title = ODD.to_owned();
    task.about.description = Some(ODD.to_owned());
    task.about.priority = Priority::Critical;
    task.about.kind = TaskKind::BrowserTest;
    task.about.required_skills = Skills::new(["rust", "c++"]);
    task.about.files = vec!["src/a b.rs".to_owned(), ODD.to_owned()];
    task.about.estimated_minutes = Some(90);
    task.about.branch = Some("feature/x".to_owned());
    task.about.audience = vec!["eve".into(), "ann".into()];
    task.about.barred = vec!["mallory".into()];
    (task.retries, task.about.max_retries) = (3, 9);
    task.previous_agents = vec!["ann".into(), "bob".into()];
    task.last_failure = Some(Failure {
        kind: FailureKind::ResourceError,
        message: ODD.to_owned(),
    });
    task.epoch = 4;
    task.started_at = Some(START);
    task.worked_ms = Some(12_345);
    task.progress = Some(Progress {
        phase: Phase::Reviewing,
        percent: 99,
        note: ODD.to_owned(),
        files: vec!["x".to_owned()],
        told_at: START,
        told_percent: 95,
    });
    task.result = Some(r#"{"summary":"done","n":1.5}"#.into());
    task.snapshot = Some("q".into());
    task.dependants = 2;
    task.updated_at = START + Duration::from_secs(1);
}

pub(super) fn agents_come_back(world: &mut World<'_>) {
    let at = START + Duration::from_millis(5);
    let presences = [
        Presence::Live(Doing::Idle),
        Presence::Live(Doing::Busy),
        Presence::Live(Doing::Error),
        Presence::Live(Doing::Stopping),
        Presence::Silent { since: at },
        Presence::Gone { at },
    ];
    for presence in presences {
        for full in [true, false] {
            let (mut ledger, _) = world.ledger();
            let mut agent = Agent::newcomer("ann".into(), START);
            agent.presence = presence.clone();
            if full {
                fill_agent(&mut agent, at);
            }
            put(&mut ledger, |changes| changes.put(agent.clone()));
            agent.rev = 1;
            let found = must("read an agent", ledger.reader().agent(&"ann".into()));
            assert_eq!(found.as_ref(), Some(&agent), "an agent in a reader");
            agent.name = "renamed".to_owned();
            agent.skills = Skills::new(["go"]);
            put(&mut ledger, |changes| changes.put(agent.clone()));
            agent.rev = 2;
            let slice = ledger.look(&[Ask::Row(RowKey::Agent("ann".into()))]);
            assert_eq!(
                slice.agent(&"ann".into()),
                Some(&agent),
                "an agent in a batch"
            );
        }
    }
}

fn fill_agent(agent: &mut Agent, at: Timestamp) {
    agent.name = ODD.to_owned();
    agent.kind = AgentKind::ClaudeCode;
    agent.skills = Skills::new(["rust", "sql"]);
    agent.capabilities.max_task_minutes = 7;
    agent.capabilities.can_run_tests = false;
    agent.capabilities.can_run_build = false;
    agent.capabilities.can_access_browser = true;
    agent.machine = Some(Machine {
        id: "box".to_owned(),
        hostname: ODD.to_owned(),
        pid: 4321,
    });
    agent.seen_at = at;
    agent.last_active_at = at;
    agent.heartbeats = 77;
    agent.holds = vec!["t1".into(), "t2".into()];
    agent.current = Some(Current {
        task: "t2".into(),
        since: at,
        percent: Some(40),
        phase: Some(Phase::Testing),
    });
    agent.completed = 5;
    agent.failed = 6;
    agent.runtime_ms = 61_001;
    agent.metrics = Some(AgentMetrics {
        memory_used_mb: 512.25,
        tasks_completed_session: 8,
        at,
    });
    let release = CommandKind::ReleaseTask {
        task: "t1".into(),
        reason: ODD.to_owned(),
    };
    let reason = "enough".to_owned();
    for (id, kind) in [
        ("o1", release),
        ("o2", CommandKind::Shutdown { reason }),
        ("o3", CommandKind::Ping),
    ] {
        agent.commands.push(Command {
            id: id.into(),
            kind,
            at,
            handed: id == "o2",
        });
    }
    agent.key_generation = 3;
    agent.inbox = 2;
}

pub(super) fn signs_of_life_are_added(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    let mut agent = Agent::newcomer("ann".into(), START);
    agent.presence = Presence::Live(Doing::Idle);
    put(&mut ledger, |changes| changes.put(agent.clone()));
    for beats in 1..=3 {
        clock.advance(Duration::from_secs(30));
        let at = START + Duration::from_secs(30 * beats);
        put(&mut ledger, |changes| {
            changes.pulses.push(Pulse {
                agent: "ann".into(),
                at,
                heartbeat: true,
            });
        });
        let found = must("read an agent", ledger.reader().agent(&"ann".into()));
        let found = found.expect("ann is there");
        assert_eq!(
            (found.seen_at, found.heartbeats),
            (at, beats),
            "a sign of life"
        );
    }
}

pub(super) fn messages_and_deliveries_come_back(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let at = START + Duration::from_millis(3);
    let full = Message {
        id: "m1".into(),
        number: 1,
        from: "ann".into(),
        to: To::One("bob".into()),
        kind: "task.handoff".to_owned(),
        payload: r#"{"a":[1,2.5,null,"ü"]}"#.into(),
        ack_required: true,
        corr_id: "corr".into(),
        handoff: Some(("t1".into(), 4)),
        given: Some(Given {
            session: 3,
            number: 7,
        }),
        created_at: START,
        expires_at: Some(at),
        acknowledged: Some(("bob".into(), at)),
        delivered_at: Some(at),
        afar: Some(Box::new(Afar {
            node: "far".into(),
            here: "here".into(),
            timings: Timings::default(),
        })),
        rev: 0,
    };
    let bare = Message {
        id: "m2".into(),
        number: 2,
        to: To::Everyone,
        payload: "null".into(),
        ack_required: false,
        handoff: None,
        given: None,
        expires_at: None,
        acknowledged: None,
        delivered_at: None,
        afar: None,
        ..full.clone()
    };
    let delivery = |message: &Message, agent: &str, state| Delivery {
        message: message.id.clone(),
        number: message.number,
        agent: agent.into(),
        state,
        priority: Priority::Medium,
        via: Some(Door::Bus).filter(|_| state != DeliveryState::Expired),
        stream: (state == DeliveryState::Queued).then(|| "s1".into()),
        delivered_at: (state != DeliveryState::Queued).then_some(at),
        acknowledged_at: (state == DeliveryState::Acknowledged).then_some(at),
        expires_at: message.expires_at,
        handing_until: (state == DeliveryState::Queued).then_some(at),
        reason: (state == DeliveryState::Failed).then(|| "no way: ü".into()),
    };
    let low = |row| Delivery {
        priority: Priority::Low,
        ..row
    };
    let deliveries = [
        delivery(&full, "bob", DeliveryState::Acknowledged),
        delivery(&bare, "ann", DeliveryState::Queued),
        delivery(&bare, "bob", DeliveryState::Handed),
        delivery(&bare, "cas", DeliveryState::Expired),
        low(delivery(&bare, "dan", DeliveryState::Failed)),
    ];
    put(&mut ledger, |changes| {
        changes.put(full.clone());
        changes.put(bare.clone());
        deliveries.iter().for_each(|row| changes.put(row.clone()));
    });
    let asks = [
        Ask::Row(RowKey::Message("m1".into())),
        Ask::Row(RowKey::Delivery(("m2".into(), "ann".into()))),
    ];
    let slice = ledger.look(&asks);
    for (message, rows) in [(full, &deliveries[..1]), (bare, &deliveries[1..])] {
        let message = Message { rev: 1, ..message };
        let found = must("read a message", ledger.reader().message(&message.id));
        assert_eq!(
            found,
            Some((message, rows.to_vec())),
            "a message and its deliveries"
        );
    }
    assert_eq!(slice.message(&"m1".into()).map(|row| row.number), Some(1));
    assert_eq!(
        slice.delivery(&"m2".into(), &"ann".into()),
        Some(&deliveries[1])
    );
}

pub(super) fn leases_come_back(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let full = Lease {
        path: LeasePath::stored("src/**/it's odd.rs"),
        spelled: None,
        agent: "ann".into(),
        task: Some("t".into()),
        acquired_at: START,
        expires_at: START + Duration::from_millis(1),
        renewals: 4,
        fencing: 9,
        rev: 0,
    };
    let bare = Lease {
        path: LeasePath::stored("."),
        spelled: None,
        task: None,
        renewals: 0,
        fencing: 10,
        ..full.clone()
    };
    put(&mut ledger, |changes| {
        changes.put(full.clone());
        changes.put(bare.clone());
    });
    let seen = Everything::read(&*ledger.reader());
    let expected: Vec<Lease> = [bare, full.clone()]
        .map(|lease| Lease { rev: 1, ..lease })
        .into();
    assert_eq!(seen.leases, expected, "leases");
    assert_eq!(
        (seen.head.leases, seen.head.fencing),
        (2, 10),
        "what the head says of leases"
    );
    put(&mut ledger, |changes| {
        changes.remove::<Lease>(full.path.clone())
    });
    let seen = Everything::read(&*ledger.reader());
    assert_eq!(
        (seen.leases.len(), seen.head.leases),
        (1, 1),
        "after one ended"
    );
    put(&mut ledger, |changes| {
        // Ended and leased anew in one decision.
        changes.remove::<Lease>(LeasePath::stored("."));
        changes.put(Lease {
            path: LeasePath::stored("."),
            spelled: None,
            agent: "bob".into(),
            ..full.clone()
        });
    });
    let seen = Everything::read(&*ledger.reader());
    let holders: Vec<&str> = seen
        .leases
        .iter()
        .map(|lease| lease.agent.as_str())
        .collect();
    assert_eq!((holders, seen.head.leases), (vec!["bob"], 1), "leased anew");
}

pub(super) fn history_and_quality_come_back(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let metrics = Metrics {
        build_success: false,
        type_errors: 1,
        lint_errors: 2,
        lint_warnings: 3,
        tests_passing: 4,
        tests_failing: 5,
        test_coverage: Some(81.25),
    };
    let mut attempts = Vec::new();
    for (epoch, outcome) in (1..).zip(Outcome::ALL.iter().copied()) {
        attempts.push(attempt(epoch, outcome));
    }
    let snapshot = |id: &str, task: Option<&str>| Snapshot {
        id: id.into(),
        task: task.map(Into::into),
        agent: task.map(|_| "ann".into()),
        metrics: Metrics {
            test_coverage: task.map(|_| 50.5),
            ..metrics.clone()
        },
        recorded_at: START,
    };
    let snapshots = [
        snapshot("q1", Some("t")),
        snapshot("q2", None),
        snapshot("q3", Some("t")),
    ];
    let baseline = Baseline {
        metrics,
        set_by: ODD.to_owned(),
        created_at: START,
        updated_at: START + Duration::from_secs(1),
        rev: 3,
    };
    let learning = |id: &str, task: Option<&str>| Learning {
        id: id.into(),
        text: ODD.to_owned(),
        task: task.map(Into::into),
        agent: task.map(|_| "ann".into()),
        created_at: START,
    };
    let learnings = vec![learning("l1", Some("t")), learning("l2", None)];
    put(&mut ledger, |changes| {
        attempts.iter().for_each(|row| changes.put(row.clone()));
        snapshots.iter().for_each(|row| changes.put(row.clone()));
        changes.put(baseline.clone());
        learnings.iter().for_each(|row| changes.put(row.clone()));
    });
    let reader = ledger.reader();
    let seen = Everything::read(&*reader);
    assert_eq!(
        must("list attempts", reader.attempts(7)),
        attempts,
        "attempts"
    );
    let newest_first: Vec<Snapshot> = snapshots.iter().rev().cloned().collect();
    assert_eq!(seen.snapshots, newest_first, "snapshots");
    assert_eq!(seen.baseline.as_ref(), Some(&baseline), "the baseline");
    assert_eq!(seen.learnings, learnings, "learnings");
    let slice = ledger.look(&[
        Ask::Row(RowKey::Baseline(())),
        Ask::SnapshotOf("t".into()),
        Ask::SnapshotOf("u".into()),
    ]);
    assert_eq!(
        slice.known::<Baseline>(&()),
        Some(Some(&baseline)),
        "the baseline in a batch"
    );
    let of = |task: &str| slice.ranges.snapshots.get(&task.into());
    assert_eq!(
        of("t"),
        Some(&Some(snapshots[2].clone())),
        "the last snapshot of a task"
    );
    assert_eq!(of("u"), Some(&None), "a task without a snapshot");
}

fn attempt(epoch: u64, outcome: Outcome) -> Attempt {
    let full = epoch % 2 == 1;
    let text = |text: &str| full.then(|| text.to_owned());
    Attempt {
        task: "t".into(),
        number: 7,
        epoch,
        agent: "ann".into(),
        claimed_at: START,
        ended_at: START + Duration::from_secs(epoch),
        progress: full.then(|| Progress {
            phase: Phase::Planning,
            percent: 3,
            note: ODD.to_owned(),
            files: vec![],
            told_at: START,
            told_percent: 0,
        }),
        outcome,
        failure: full.then_some(FailureKind::AgentCrash),
        message: text(ODD),
        details: text("trace"),
        suggested_action: text("again"),
        evidence: Vec::from_iter(full.then(evidence)),
    }
}

pub(super) fn keys_come_back(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    let token = Token {
        id: "k1".into(),
        name: ODD.to_owned(),
        scope: Scope::Agent,
        agent: Some("a:b".into()),
        hash: [9; 32],
        created_at: START,
        revoked_at: None,
    };
    let key = Key {
        principal: "ann".into(),
        operation: "claim",
        key: "k-1".into(),
    };
    let others = Key {
        principal: "bob".into(),
        ..key.clone()
    };
    let remembered = Remembered {
        key: key.clone(),
        body_hash: [3; 32],
        answer: [0, 159, 146, 150].as_slice().into(),
        at: START,
    };
    let nonce = Nonce {
        agent: "ann".into(),
        value: "n-1".into(),
        valid_until: START + Duration::from_secs(300),
    };
    put(&mut ledger, |changes| {
        changes.put(token.clone());
        changes.put(remembered.clone());
        changes.put(nonce.clone());
        changes.served = Some(Served {
            at: START,
            floor: Some(START),
        });
    });
    let unseen = Nonce {
        agent: "bob".into(),
        ..nonce.clone()
    };
    let slice = ledger.look(&[
        Ask::Row(RowKey::Token("k1".into())),
        Ask::Row(RowKey::Token("k2".into())),
        Ask::Row(RowKey::Remembered(key.clone())),
        Ask::Row(RowKey::Remembered(others.clone())),
        Ask::Row(RowKey::Nonce(nonce.key())),
        Ask::Row(RowKey::Nonce(unseen.key())),
    ]);
    let tokens = ["k1", "k2"].map(|id| slice.row::<Token>(&id.into()));
    assert_eq!(tokens, [Some(&token), None], "tokens in a batch");
    let answers = [&key, &others].map(|key| slice.row::<Remembered>(key));
    assert_eq!(answers, [Some(&remembered), None], "remembered answers");
    let used = [&nonce, &unseen].map(|nonce| slice.row::<Nonce>(&nonce.key()));
    assert_eq!(used, [Some(&nonce), None], "used signatures");
    let head = &slice.head;
    assert_eq!(
        (head.idempotency_rows, head.idempotency_bytes),
        (1, 4),
        "remembered answers counted"
    );
    assert_eq!(
        (head.served_at, head.floor),
        (START, START),
        "when it was served"
    );
    let revoked = Token {
        revoked_at: Some(START + Duration::from_secs(1)),
        ..token.clone()
    };
    put(&mut ledger, |changes| changes.put(revoked.clone()));
    let reader = ledger.reader();
    assert_eq!(
        must("list tokens", reader.tokens()),
        vec![revoked.clone()],
        "tokens"
    );
    let by_hash = |hash| must("find a token", reader.token_by_hash(hash));
    assert_eq!(by_hash(&[9; 32]), Some(revoked), "a token by its hash");
    assert_eq!(by_hash(&[8; 32]), None, "an unknown hash");
}

pub(super) fn put(ledger: &mut Ledger, edit: impl FnOnce(&mut Changes)) {
    let mut changes = Changes::default();
    edit(&mut changes);
    changes.event(Event::ClockSteppedBack { by_ms: 1 });
    ledger.run(Put(changes)).expect("writing is not refused");
}

//! What readers list: filters, pages, cursors.

use std::time::Duration;

use switchboard_core::verb::{Complete, Send};
use switchboard_core::{
    AgentId, LeasePath, Metrics, Priority, Skills, TaskKind, TaskStatus, To, limits,
};

use super::acts::{complete, fail, send, task_with};
use super::ledger::{Ledger, must};
use super::rows::all;
use super::{START, World};
use crate::{
    AgentFilter, Error, LeaseFilter, MessageFilter, MessageSince, Page, Reader, Since,
    SnapshotFilter, TaskFilter, TaskRef,
};

const MINUTE: Duration = Duration::from_secs(60);

fn a_few_tasks(world: &mut World<'_>) -> Ledger {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &["rust", "web"]);
    ledger.join("bob", &[]);
    ledger.create(vec![
        task_with("t1", |task| task.about.priority = Priority::High),
        task_with("t2", |task| {
            task.about.required_skills = Skills::new(["rust"])
        }),
        task_with("t3", |task| {
            task.about.kind = TaskKind::Review;
            task.about.branch = Some("main".to_owned());
        }),
        task_with("t4", |task| task.dependencies = vec!["t1".into()]),
        task_with("t5", |task| {
            task.about.required_skills = Skills::new(["rust", "web"])
        }),
    ]);
    ledger.hold("bob", "t1");
    ledger.hold("ann", "t2");
    ledger.hold("ann", "t3");
    ledger.run(complete("ann", "t3")).expect("ann holds it");
    ledger
}

fn named(reader: &dyn Reader, filter: &TaskFilter) -> Vec<String> {
    let tasks = all(|page| must("list tasks", reader.tasks(filter, page)));
    tasks.into_iter().map(|task| task.id.to_string()).collect()
}

pub(super) fn tasks_by_filter(world: &mut World<'_>) {
    let ledger = a_few_tasks(world);
    let reader = ledger.reader();
    let filter = |edit: &dyn Fn(&mut TaskFilter)| {
        let mut filter = TaskFilter::default();
        edit(&mut filter);
        filter
    };
    type Edit = &'static dyn Fn(&mut TaskFilter);
    let table: [(Edit, &[&str]); 12] = [
        (&|_| (), &["t1", "t2", "t3", "t4", "t5"]),
        (&|f| f.newest_first = true, &["t5", "t4", "t3", "t2", "t1"]),
        (&|f| f.statuses = vec![TaskStatus::Claimed], &["t1", "t2"]),
        (
            &|f| f.statuses = vec![TaskStatus::Waiting, TaskStatus::Completed],
            &["t3", "t4"],
        ),
        (
            &|f| f.statuses = vec![TaskStatus::Waiting, TaskStatus::Failed],
            &["t4"],
        ),
        (
            &|f| f.priorities = vec![Priority::High, Priority::Low],
            &["t1"],
        ),
        (&|f| f.kinds = vec![TaskKind::Review], &["t3"]),
        (&|f| f.holder = Some("ann".into()), &["t2", "t3"]),
        (&|f| f.holder = Some("nobody".into()), &[]),
        (&|f| f.skill = Some("RUST".to_owned()), &["t2", "t5"]),
        (&|f| f.branch = Some("main".to_owned()), &["t3"]),
        (
            &|f| {
                f.skill = Some("rust".to_owned());
                f.statuses = vec![TaskStatus::Ready];
            },
            &["t5"],
        ),
    ];
    for (edit, expected) in table {
        let filter = filter(edit);
        assert_eq!(named(&*reader, &filter), expected, "tasks by {filter:?}");
    }
    let by = |which: TaskRef| must("read a task", reader.task(&which));
    let (id, number) = (by(TaskRef::Id("t2".into())), by(TaskRef::Number(2)));
    assert_eq!(id, number, "a task by id and by number");
    assert_eq!(id.map(|task| task.id), Some("t2".into()), "it is that one");
    assert_eq!(by(TaskRef::Number(99)), None, "no such number");
    assert_eq!(by(TaskRef::Id("t99".into())), None, "no such id");
    let dependants = must("list dependants", reader.dependants(&"t1".into()));
    assert_eq!(dependants, vec!["t4".into()], "what waits for t1");
}

pub(super) fn pages_have_no_gap_and_no_repeat(world: &mut World<'_>) {
    let ledger = a_few_tasks(world);
    let reader = ledger.reader();
    for newest_first in [false, true] {
        let filter = TaskFilter {
            newest_first,
            ..TaskFilter::default()
        };
        let whole = named(&*reader, &filter);
        for limit in [1, 2, 4, 5, 6] {
            let (mut after, mut found, mut pages) = (None, Vec::new(), 0);
            loop {
                let page = must("list tasks", reader.tasks(&filter, &Page { after, limit }));
                assert!(page.rows.len() <= limit, "no more than {limit}");
                found.extend(page.rows.into_iter().map(|task| task.id.to_string()));
                after = page.next;
                pages += 1;
                assert!(pages < 10, "the last page has no cursor");
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, whole, "pages of {limit}");
            assert_eq!(pages, 5_usize.div_ceil(limit), "pages of {limit}");
        }
    }
    let bad = Page {
        after: Some("nonsense".to_owned()),
        limit: 1,
    };
    let tasks = reader.tasks(&TaskFilter::default(), &bad);
    assert!(
        matches!(tasks, Err(Error::BadCursor(_))),
        "a cursor of no page: {tasks:?}"
    );
    let messages = reader.messages(&MessageFilter::default(), &bad);
    assert!(
        matches!(messages, Err(Error::BadCursor(_))),
        "a cursor of no page: {messages:?}"
    );
    let snapshots = reader.snapshots(&SnapshotFilter::default(), &bad);
    assert!(
        matches!(snapshots, Err(Error::BadCursor(_))),
        "a cursor of no page: {snapshots:?}"
    );
}

pub(super) fn the_queue_and_who_holds_what(world: &mut World<'_>) {
    let mut ledger = a_few_tasks(world);
    ledger.create(vec![
        task_with("t6", |task| task.about.priority = Priority::Low),
        task_with("t7", |task| task.about.priority = Priority::Critical),
        task_with("t8", |task| {
            task.about.required_skills = Skills::new(["sql"])
        }),
    ]);
    let reader = ledger.reader();
    let next = |limit| must("look at the queue", reader.next_in_queue(limit));
    assert_eq!(next(9), [7, 5, 8, 6], "by priority, then by age");
    assert_eq!(next(2), [7, 5], "no more than asked for");
    let held = must("look at hands", reader.held_tasks(9));
    let mut held: Vec<_> = held
        .iter()
        .map(|held| (held.number, held.agent.as_str(), held.status))
        .collect();
    held.sort_unstable();
    let claimed = TaskStatus::Claimed;
    assert_eq!(held, [(1, "bob", claimed), (2, "ann", claimed)]);
    assert_eq!(must("look at hands", reader.held_tasks(1)).len(), 1);
}

pub(super) fn agents_by_filter(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    ledger.join("eve", &[]);
    clock.advance(limits::SILENT_AFTER + MINUTE);
    for name in ["cas", "ann", "bob", "dee"] {
        ledger.join(name, &[]);
    }
    ledger.add("t");
    ledger.hold("bob", "t");
    ledger.leave("dee");
    ledger
        .run(switchboard_core::verb::MarkSilent)
        .expect("a caretaker is not refused");
    let reader = ledger.reader();
    let list = |statuses: &[&str], with_gone, limit| {
        let filter = AgentFilter {
            statuses: statuses.iter().map(ToString::to_string).collect(),
            with_gone,
        };
        let mut found: Vec<String> = Vec::new();
        let mut after = None;
        loop {
            let page = must(
                "list agents",
                reader.agents(&filter, &Page { after, limit }),
            );
            found.extend(page.rows.into_iter().map(|agent| agent.id.to_string()));
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    };
    for limit in [1, 2, 9] {
        assert_eq!(
            list(&[], false, limit),
            ["ann", "bob", "cas", "eve"],
            "agents, {limit} at a time"
        );
        assert_eq!(
            list(&[], true, limit),
            ["ann", "bob", "cas", "dee", "eve"],
            "with the gone"
        );
        assert_eq!(list(&["idle"], false, limit), ["ann", "cas"], "idle agents");
        assert_eq!(
            list(&["busy", "offline"], false, limit),
            ["bob", "eve"],
            "busy or offline"
        );
        assert_eq!(
            list(&["offline"], true, limit),
            ["dee", "eve"],
            "offline, with the gone"
        );
    }
    let counts = must("count agents", reader.agent_counts());
    let counts = (
        counts.idle,
        counts.busy,
        counts.error,
        counts.offline,
        counts.shutting_down,
    );
    assert_eq!(
        counts,
        (2, 1, 0, 1, 0),
        "agents by status, without the gone"
    );
}

pub(super) fn leases_by_filter(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &[]);
    ledger.join("bob", &[]);
    ledger.add("t");
    ledger.hold("ann", "t");
    for (agent, path, task) in [
        ("ann", "src/b.rs", Some("t")),
        ("ann", "docs", None),
        ("bob", "src/a.rs", None),
    ] {
        ledger.lease(agent, path, task, MINUTE);
    }
    let reader = ledger.reader();
    let list = |agent: Option<&str>, task: Option<&str>, near: Option<&str>, limit| {
        let filter = LeaseFilter {
            agent: agent.map(AgentId::from),
            task: task.map(Into::into),
            near: near.map(LeasePath::stored),
        };
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = must(
                "list leases",
                reader.leases(&filter, &Page { after, limit }),
            );
            found.extend(page.rows.into_iter().map(|lease| lease.path.to_string()));
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    };
    for limit in [1, 2, 9] {
        assert_eq!(
            list(None, None, None, limit),
            ["docs", "src/a.rs", "src/b.rs"],
            "leases"
        );
        assert_eq!(
            list(Some("ann"), None, None, limit),
            ["docs", "src/b.rs"],
            "of ann"
        );
        assert_eq!(
            list(None, Some("t"), None, limit),
            ["src/b.rs"],
            "of a task"
        );
        assert_eq!(
            list(None, None, Some("src/*.rs"), limit),
            ["src/a.rs", "src/b.rs"],
            "near"
        );
        assert_eq!(
            list(Some("bob"), None, Some("src"), limit),
            ["src/a.rs"],
            "near, of bob"
        );
    }
}

pub(super) fn messages_by_filter_and_since(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    for name in ["ann", "bob", "cas"] {
        ledger.join(name, &[]);
    }
    for (id, from, to, kind, expires) in [
        ("m1", "ann", Some("bob"), "custom", None),
        ("m2", "cas", Some("bob"), "info.discovery", None),
        ("m3", "ann", None, "custom", None),
        ("m4", "ann", Some("bob"), "custom", Some(1)),
        ("m5", "ann", Some("cas"), "custom", None),
        ("m6", "cas", Some("ann bob"), "custom", None),
    ] {
        clock.advance(Duration::from_millis(10));
        let message = Send {
            kind: kind.to_owned(),
            expires_in: expires.map(Duration::from_secs),
            to: To::agents(to.iter().flat_map(|ids| ids.split(' ')).map(AgentId::from))
                .unwrap_or(To::Everyone),
            ..send(id, from, None)
        };
        ledger.run(message).expect("they are there");
    }
    let reader = ledger.reader();
    let list = |from: Option<&str>, to: Option<&str>, kinds: &[&str]| {
        let filter = MessageFilter {
            from: from.map(AgentId::from),
            to: to.map(AgentId::from),
            kinds: kinds.iter().map(ToString::to_string).collect(),
        };
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = must(
                "list messages",
                reader.messages(&filter, &Page { after, limit: 2 }),
            );
            found.extend(page.rows.into_iter().map(|message| message.id.to_string()));
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    };
    assert_eq!(
        list(None, None, &[]),
        ["m6", "m5", "m4", "m3", "m2", "m1"],
        "newest first"
    );
    assert_eq!(list(Some("cas"), None, &[]), ["m6", "m2"], "from cas");
    assert_eq!(
        list(None, Some("bob"), &["custom"]),
        ["m6", "m4", "m1"],
        "custom ones to bob"
    );
    let since = |since: Since, kinds: &[&str], limit, after: Duration| {
        let since = MessageSince {
            agent: "bob".into(),
            since,
            kinds: kinds.iter().map(ToString::to_string).collect(),
            limit,
        };
        let found = must(
            "list messages",
            reader.messages_since(&since, START + after),
        );
        found
            .into_iter()
            .map(|message| message.id.to_string())
            .collect::<Vec<_>>()
    };
    let at = |ms| Since::Instant(START + Duration::from_millis(ms));
    let soon = Duration::from_millis(100);
    assert_eq!(
        since(at(0), &[], 9, soon),
        ["m1", "m2", "m3", "m4", "m6"],
        "since the start"
    );
    assert_eq!(
        since(at(10), &[], 9, soon),
        ["m2", "m3", "m4", "m6"],
        "after an instant, not at it"
    );
    assert_eq!(
        since(at(10), &[], 1, soon),
        ["m2"],
        "no more than asked for"
    );
    assert_eq!(
        since(at(0), &["custom"], 9, MINUTE),
        ["m1", "m3", "m6"],
        "not what is over"
    );
    let message = |id: &str| Since::Message(id.into());
    assert_eq!(
        since(message("m2"), &[], 9, soon),
        ["m3", "m4", "m6"],
        "after a message"
    );
    assert!(
        since(message("m6"), &[], 9, soon).is_empty(),
        "after the last"
    );
}

pub(super) fn snapshots_attempts_and_learnings(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    ledger.join("ann", &[]);
    let metrics = Metrics {
        build_success: true,
        type_errors: 0,
        lint_errors: 0,
        lint_warnings: 0,
        tests_passing: 1,
        tests_failing: 0,
        test_coverage: None,
    };
    for (task, learned) in [
        ("t1", "Mind the LOCK order"),
        ("t2", "the lock is reentrant"),
        ("t3", "orders come late"),
    ] {
        ledger.add(task);
        ledger.hold("ann", task);
        let done = Complete {
            metrics: Some((format!("q-{task}").into(), metrics.clone())),
            learnings: vec![(format!("l-{task}").into(), learned.to_owned())],
            ..complete("ann", task)
        };
        ledger.run(done).expect("ann holds it");
    }
    ledger.create(vec![task_with("t4", |task| task.about.max_retries = 5)]);
    ledger.hold("ann", "t4");
    ledger.run(fail("ann", "t4")).expect("ann holds it");
    let reader = ledger.reader();
    let list = |task: Option<&str>, limit| {
        let filter = SnapshotFilter {
            task: task.map(Into::into),
        };
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = must(
                "list snapshots",
                reader.snapshots(&filter, &Page { after, limit }),
            );
            found.extend(page.rows.into_iter().map(|row| row.id.to_string()));
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    };
    for limit in [1, 2, 9] {
        assert_eq!(
            list(None, limit),
            ["q-t3", "q-t2", "q-t1"],
            "snapshots, newest first"
        );
        assert_eq!(list(Some("t2"), limit), ["q-t2"], "of one task");
    }
    let found = |words: &str, limit| {
        let found = must("search learnings", reader.learnings(words, limit));
        let mut ids: Vec<String> = found.into_iter().map(|row| row.id.to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(found("lock", 9), ["l-t1", "l-t2"], "one word, in any case");
    assert_eq!(found("ORDER lock", 9), ["l-t1"], "all words");
    assert_eq!(
        found("order", 9),
        ["l-t1", "l-t3"],
        "the beginning of a word"
    );
    assert!(found("nothing like it", 9).is_empty(), "no such words");
    assert_eq!(found("lock", 1).len(), 1, "no more than asked for");
    assert!(
        found("\"zebra'* OR (-- lock", 9).is_empty(),
        "signs are no syntax"
    );
    let attempts = must("list attempts", reader.attempts(4));
    assert_eq!(
        (attempts.len(), attempts[0].epoch),
        (1, 1),
        "attempts at t4"
    );
    assert!(
        must("list attempts", reader.attempts(99)).is_empty(),
        "no such task"
    );
}

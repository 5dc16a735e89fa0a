//! Lists of a PostgreSQL ledger that is larger than what is looked at in one go.

use switchboard_core::{Logged, TaskKind, TaskStatus, Timestamp, limits};
use switchboard_store::postgres::{Address, PostgresEngine, Steps};
use switchboard_store::{Engine, MessageFilter, MessageSince, Page, Reader, Since, TaskFilter};
use switchboard_test_cluster::{Cluster, Database};

fn ledger(what: &str, steps: Steps) -> Option<(Database, Box<dyn Reader>)> {
    let database = Cluster::shared(what)?.create_database();
    let address = Address::parse(&database.url).expect("the cluster's address is understood");
    let engine = PostgresEngine::open_with(address, None, steps).expect("a new database opens");
    let reader = engine.reader().expect("a reader opens");
    Some((database, reader))
}

fn page(after: Option<String>) -> Page {
    Page { after, limit: 10 }
}

/// Tasks 1 to n, of which the last is a review.
fn tasks(database: &Database, n: usize) {
    database.sql(&format!(
        "SET switchboard.hub = 'on';
         INSERT INTO tasks(number, id, title, status, type)
         SELECT n, 't' || n, 'a task', CASE WHEN n % 10000 = 0 THEN 'failed' ELSE 'ready' END,
           CASE WHEN n = {n} THEN 'review' ELSE 'code' END FROM generate_series(1, {n}) n"
    ));
}

#[test]
fn a_rare_task_is_found_page_by_page() {
    let Some((database, reader)) = ledger("long lists of tasks", Steps::all()) else {
        return;
    };
    let scan = limits::PAGE_SCAN_MAX;
    tasks(&database, scan + 1);
    let reviews = TaskFilter {
        kinds: vec![TaskKind::Review],
        ..TaskFilter::default()
    };
    let first = reader.tasks(&reviews, &page(None)).expect("listed");
    assert!(first.rows.is_empty(), "not among the first {scan}");
    assert_eq!(first.next, Some(scan.to_string()), "where the look ended");
    let second = reader.tasks(&reviews, &page(first.next)).expect("listed");
    let found: Vec<u64> = second.rows.iter().map(|task| task.number).collect();
    assert_eq!((found, second.next), (vec![scan as u64 + 1], None));
    let newest_first = TaskFilter {
        newest_first: true,
        ..reviews
    };
    let first = reader.tasks(&newest_first, &page(None)).expect("listed");
    assert_eq!(first.rows.len(), 1);
    assert_eq!(first.next, Some("2".to_owned()), "where the look ended");
    let rest = reader.tasks(&newest_first, &page(first.next));
    let rest = rest.expect("listed");
    assert_eq!((rest.rows.len(), rest.next), (0, None));
    let all = reader.tasks(&TaskFilter::default(), &page(None));
    let all = all.expect("listed");
    assert_eq!((all.rows.len(), all.next), (10, Some("10".to_owned())));
    let failed = TaskFilter {
        statuses: vec![TaskStatus::Failed, TaskStatus::Waiting, TaskStatus::Failed],
        newest_first: true,
        ..TaskFilter::default()
    };
    let failed = reader.tasks(&failed, &page(None)).expect("listed");
    let numbers: Vec<u64> = failed.rows.iter().map(|task| task.number).collect();
    assert_eq!((numbers, failed.next), (vec![20_000, 10_000], None));
}

#[test]
fn a_rare_message_is_found_page_by_page() {
    let Some((database, reader)) = ledger("long lists of messages", Steps::all()) else {
        return;
    };
    let scan = limits::PAGE_SCAN_MAX;
    database.sql(&format!(
        "SET switchboard.hub = 'on';
         INSERT INTO messages(number, id, type, from_agent, to_agent, created_at)
         SELECT n, 'm' || n, 'custom', CASE WHEN n = 1 THEN 'ann' ELSE 'bob' END, 'cas',
           '2026-01-01T00:00:00.' || lpad((n / 100)::text, 3, '0') || 'Z' FROM generate_series(1, {scan} + 1) n;
         INSERT INTO sb_delivery(agent, number, message, state) SELECT 'cas', number, id, 'handed' FROM messages"
    ));
    let of_ann = MessageFilter {
        from: Some("ann".into()),
        ..MessageFilter::default()
    };
    let first = reader.messages(&of_ann, &page(None)).expect("listed");
    assert!(first.rows.is_empty(), "not among the last {scan}");
    let second = reader.messages(&of_ann, &page(first.next)).expect("listed");
    assert_eq!((second.rows.len(), second.next), (1, None));
    let since = |since| MessageSince {
        agent: "cas".into(),
        since,
        kinds: Vec::new(),
        limit: 3,
    };
    let numbers = |since: &MessageSince| -> Vec<u64> {
        let found = reader.messages_since(since, Timestamp::ZERO);
        let found = found.expect("listed");
        found.iter().map(|message| message.number).collect()
    };
    let at = |ms: i64| Since::Instant(Timestamp(1_767_225_600_000 + ms));
    assert_eq!(numbers(&since(at(-1))), [1, 2, 3]);
    assert_eq!(
        numbers(&since(at(0))),
        [100, 101, 102],
        "not at the instant"
    );
    assert_eq!(numbers(&since(at(199))), [20_000, 20_001]);
    assert!(numbers(&since(at(200))).is_empty(), "none so late");
    let after = |id: &str| since(Since::Message(id.into()));
    assert_eq!(numbers(&after("m20000")), [20_001]);
    assert_eq!(numbers(&after("unknown")), [1, 2, 3]);
}

#[test]
fn nothing_typed_into_a_search_is_syntax() {
    for steps in [Steps::all(), Steps::and_the_next()] {
        let Some((database, reader)) = ledger("searches", steps) else {
            return;
        };
        database.sql(
            "INSERT INTO sb_learning(n, id, text, created_at) VALUES
               (1, 'l1', 'Mind the lock order of it''s callers', 0),
               (2, 'l2', 'the lock is a lock on the Lock', 0),
               (3, 'l3', 'look into src/main.rs and back\\slash', 0)",
        );
        let found = |words: &str, limit| -> Vec<String> {
            let found = reader.learnings(words, limit);
            let found = found.unwrap_or_else(|error| panic!("{words:?}: {error}"));
            found.iter().map(|row| row.id.to_string()).collect()
        };
        assert_eq!(found("", 2), ["l3", "l2"], "newest first");
        assert_eq!(found("LOCK", 9), ["l2", "l1"], "best first");
        assert_eq!(found("lock", 1), ["l2"], "no more than asked for");
        assert_eq!(found("loc ord", 9), ["l1"], "beginnings of words");
        assert_eq!(found("it's", 9), ["l1"]);
        assert_eq!(
            found("-- lock & ( ) order", 9),
            ["l1"],
            "signs alone are no words"
        );
        assert_eq!(found("src/main.rs", 9), ["l3"]);
        for signs in [
            "'",
            "''",
            "\\",
            "\\'",
            "&",
            "|",
            "!",
            "(",
            ":*",
            "<->",
            "--",
            "lock' | 'back",
            "%",
            "\0",
            "\u{1a}",
            "…",
        ] {
            assert!(found(signs, 9).is_empty(), "{signs:?}");
        }
        let long = "lock".repeat(2000);
        assert!(found(&long, 9).is_empty(), "a long word");
        let many = "lock order ".repeat(5000);
        assert_eq!(found(&many, 9), ["l1"], "many words");
    }
}

#[test]
fn the_log_is_read_from_any_event_on() {
    let Some((database, reader)) = ledger("the log", Steps::all()) else {
        return;
    };
    assert_eq!(reader.oldest_event().expect("read"), None);
    assert!(reader.events(0, 10).expect("read").is_empty());
    // Batches of one event, then of a hundred: 1 to 3000, 3001 to 6000.
    database.sql(
        r#"INSERT INTO sb_log(first, last, at, writer, body)
           SELECT first, last, 0, 1, (SELECT string_agg(format(
             '{"seq":%s,"at":0,"type":"agent_silent","agent":"ann"}', n), E'\n' ORDER BY n)
             FROM generate_series(first, last) n)
           FROM (SELECT n AS first, n AS last FROM generate_series(1, 3000) n
             UNION ALL SELECT n, n + 99 FROM generate_series(3001, 6000, 100) n) batches"#,
    );
    let read = |after, limit| -> Vec<u64> {
        let events = reader.events(after, limit).expect("read");
        events.iter().map(|logged: &Logged| logged.seq).collect()
    };
    let numbers = |from: u64, upto: u64| (from..=upto).collect::<Vec<_>>();
    assert_eq!(read(0, usize::MAX >> 1), numbers(1, 6000));
    for (after, limit) in [
        (0, 1),
        (0, 1023),
        (0, 1024),
        (0, 1025),
        (2999, 1),
        (2999, 2),
        (3000, 1),
        (3000, 100),
        (3000, 101),
        (3050, 10),
        (3099, 1),
        (3100, 3000),
        (5999, 5),
        (1500, 4500),
    ] {
        let upto = (after + limit as u64).min(6000);
        assert_eq!(
            read(after, limit),
            numbers(after + 1, upto),
            "{limit} after {after}"
        );
    }
    assert!(read(6000, 5).is_empty() && read(u64::MAX, 5).is_empty() && read(0, 0).is_empty());
    database.sql("DELETE FROM sb_log WHERE first <= 3100");
    assert_eq!(reader.oldest_event().expect("read"), Some(3101));
    assert_eq!(read(0, 5), numbers(3101, 3105), "the oldest that are kept");
    assert_eq!(read(10, usize::MAX >> 1), numbers(3101, 6000));
}

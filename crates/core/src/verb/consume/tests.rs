//! Two nodes in plain maps: what one publishes, the other takes in.

use super::super::testing::{Swarm, complete, fail, joined_as, publish, publish_task, word};
use super::super::{
    Acknowledge, Announce, ChaseOrders, NoteReader, Publication, Publish, Reset, ResetCursor,
    Targets,
};
use super::*;
use crate::Record;
use crate::doors::Door;
use crate::event::Event;
use crate::id::{AgentId, MessageId, TaskId};
use crate::message::{DeliveryState, Sender};
use crate::order::{Delivered, Order, TaskOrderState};
use crate::outbox::{AnswerKind, Commission, Letter, News, Outgoing};
use crate::task::{Priority, TaskStatus};

/// Two nodes, "a" with the agent A and "b" with B, that know of each other's agents.
struct Pair {
    a: Swarm,
    b: Swarm,
}

impl Pair {
    fn new() -> Pair {
        let (mut a, mut b) = (Swarm::new(), Swarm::new());
        joined_as(&mut a, "a", "b");
        joined_as(&mut b, "b", "a");
        a.join("A", &["rust"]);
        b.join("B", &["rust"]);
        for (swarm, agent) in [(&mut a, "A"), (&mut b, "B")] {
            let agents = vec![AgentId::from(agent)];
            assert_eq!(
                swarm.ok(Announce {
                    agents,
                    again: false
                }),
                1
            );
        }
        let mut pair = Pair { a, b };
        pair.exchange();
        pair
    }

    /// Carries events to and fro until nobody has anything to say.
    fn exchange(&mut self) {
        for _ in 0..20 {
            let carried = carry(&self.a, "a", &mut self.b) + carry(&self.b, "b", &mut self.a);
            if carried == 0 {
                return;
            }
        }
        panic!("two nodes that have nothing to say go on talking");
    }

    fn wait(&mut self, span: Duration) {
        self.a.now = self.a.now + span;
        self.b.now = self.b.now + span;
    }

    fn order(&self, event: &str) -> Order {
        order(&self.a, event)
    }
}

fn order(swarm: &Swarm, event: &str) -> Order {
    let found = swarm.records.values().find_map(|record| match record {
        Record::Order(order) if order.event.as_str() == event => Some(order.clone()),
        _ => None,
    });
    found.expect("the event was ordered")
}

fn outbox(swarm: &Swarm) -> Vec<Outgoing> {
    let mut rows: Vec<Outgoing> = swarm
        .records
        .values()
        .filter_map(|record| match record {
            Record::Outgoing(row) => Some(row.clone()),
            _ => None,
        })
        .collect();
    rows.sort_by_key(|row| row.seq);
    rows
}

fn cursor(swarm: &Swarm, source: &str) -> Cursor {
    let found = swarm.records.values().find_map(|record| match record {
        Record::Cursor(cursor) if cursor.source.as_str() == source => Some(cursor.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| Cursor::new(source.into(), swarm.now))
}

fn consume(source: &str, row: &Outgoing) -> Consume {
    Consume {
        source: source.into(),
        epoch: format!("route-epoch-{source}"),
        seq: row.seq,
        event: row.event.clone(),
        payload: "{}".into(),
        installed: catalog::installed(&row.event.news),
        gap: Gap::default(),
        fence: None,
    }
}

/// What the reader has not read, in order; it says how far it is, as a pull does.
fn carry(from: &Swarm, source: &str, to: &mut Swarm) -> usize {
    let mut carried = 0;
    for row in outbox(from) {
        if row.seq > cursor(to, source).last_seq {
            let taken = to.ok(consume(source, &row));
            assert_eq!(taken.outcome, Outcome::Taken, "{row:?}");
            carried += 1;
        }
    }
    carried
}

/// The reader asks for what comes next, so that the source knows its place.
fn asks(source: &mut Swarm, reader: &str) {
    let after = source.head.outbox;
    source.ok(NoteReader {
        node: reader.into(),
        after,
        lease_for: limits::CURSOR_LEASE_FOR,
    });
}

fn task(id: &str, to: &[&str]) -> Publish {
    publish_task(id, to, true)
}

fn inbox(swarm: &Swarm, agent: &str) -> Vec<String> {
    let of = swarm.deliveries.values();
    let of = of.filter(|one| one.agent.as_str() == agent);
    let of = of.filter_map(|one| swarm.messages.get(&one.message));
    let mut of: Vec<_> = of
        .map(|message| (message.number, message.kind.clone()))
        .collect();
    of.sort();
    of.into_iter().map(|(_, kind)| kind).collect()
}

#[test]
fn a_message_reaches_the_agent_of_another_node_once_and_is_acknowledged() {
    let mut pair = Pair::new();
    let sent = pair.a.ok(publish("evt_1", "A", &["B", "nobody"]));
    assert_eq!(sent.recipients, [AgentId::from("B")]);
    assert_eq!(sent.ignored, [AgentId::from("nobody")]);
    assert_eq!(
        pair.order("evt_1").destinations[0].state,
        Delivered::Emitted
    );
    pair.exchange();
    assert_eq!(inbox(&pair.b, "B"), ["custom"]);
    let ended = pair.order("evt_1");
    assert_eq!(ended.destinations[0].state, Delivered::Accepted);
    assert!(ended.ended_at.is_some(), "nothing more is waited for");
    // An answer asks for none: who has nothing more to say publishes nothing.
    let before = (pair.a.head.outbox, pair.b.head.outbox);
    pair.wait(limits::EVENT_ANSWERED_WITHIN);
    for node in [&mut pair.a, &mut pair.b] {
        assert_eq!(node.ok(ChaseOrders).done, 0);
    }
    pair.exchange();
    assert_eq!((pair.a.head.outbox, pair.b.head.outbox), before);
    // Published again under its id it is the same, and another body is another event.
    let again = pair.a.ok(publish("evt_1", "A", &["B", "nobody"]));
    assert_eq!(again, sent);
    let other = Publish {
        sum: 2,
        ..publish("evt_1", "A", &["B"])
    };
    assert_eq!(word(&pair.a.run(other)), "event_already_exists");
}

#[test]
fn what_comes_again_is_answered_again_and_delivered_once() {
    let mut pair = Pair::new();
    pair.a.ok(publish("evt_1", "A", &["B"]));
    let row = outbox(&pair.a).pop().expect("it was published");
    pair.b.ok(consume("a", &row));
    let before = pair.b.head.outbox;
    let seen = pair.b.ok(consume("a", &row));
    assert_eq!(seen.outcome, Outcome::Seen);
    assert_eq!(pair.b.head.outbox, before, "the same page again");
    // The answer is lost; the reader is past the event, so it is sent again under a new number.
    asks(&mut pair.a, "b");
    pair.wait(limits::EVENT_ANSWERED_WITHIN);
    assert_eq!(pair.a.ok(ChaseOrders).done, 1);
    let resent = outbox(&pair.a).pop().expect("it was sent again");
    assert_eq!(
        (resent.event.id.as_str(), resent.event.attempt),
        ("evt_1", 2)
    );
    pair.b.ok(consume("a", &resent));
    assert_eq!(inbox(&pair.b, "B").len(), 1);
    assert_eq!(pair.b.head.outbox, before + 1, "a second answer");
    pair.exchange();
    assert!(pair.order("evt_1").ended_at.is_some());
}

#[test]
fn a_node_that_is_away_costs_no_attempt_until_the_event_expires() {
    let mut pair = Pair::new();
    pair.a.ok(publish("evt_1", "A", &["B"]));
    let mut looks = 0;
    for _ in 0..50 {
        pair.wait(limits::RESEND_BACKOFF_MAX);
        looks += pair.a.ok(ChaseOrders).done;
    }
    assert_eq!(pair.order("evt_1").attempt, 1);
    // After 5, 10, 20, 40 and 80 minutes, then every hour: each is a write.
    assert_eq!(looks, 7);
    pair.wait(limits::DISPATCH_VALID_FOR);
    pair.a.ok(ChaseOrders);
    let dead = pair.order("evt_1");
    assert_eq!(dead.destinations[0].state, Delivered::Dead);
    let last = outbox(&pair.a).pop().expect("it was given up");
    assert!(matches!(last.event.news, News::DeadLetter { .. }));
}

#[test]
fn the_fifteenth_attempt_without_an_answer_is_the_last() {
    let mut pair = Pair::new();
    pair.a.ok(publish("evt_1", "A", &["B"]));
    for _ in 0..40 {
        asks(&mut pair.a, "b");
        pair.wait(limits::RESEND_BACKOFF_MAX * 2);
        pair.a.ok(ChaseOrders);
    }
    let dead = pair.order("evt_1");
    assert_eq!(dead.attempt, limits::RESENDS_MAX);
    assert_eq!(dead.destinations[0].reason.as_deref(), Some("no answer"));
    let sent = outbox(&pair.a).into_iter();
    let attempts: Vec<u32> = sent
        .filter(|row| row.event.id.as_str() == "evt_1")
        .map(|row| row.event.attempt)
        .collect();
    assert_eq!(attempts, (1..=limits::RESENDS_MAX).collect::<Vec<_>>());
}

#[test]
fn an_acknowledgement_is_a_reply_and_the_last_answer() {
    let mut pair = Pair::new();
    let mut sent = publish("evt_1", "A", &["B"]);
    if let Publication::Message { expects_reply, .. } = &mut sent.what {
        *expects_reply = true;
    }
    pair.a.ok(sent);
    pair.exchange();
    assert_eq!(pair.order("evt_1").ended_at, None, "a reply is waited for");
    pair.b.ok(Acknowledge {
        agent: "B".into(),
        message: "evt_1".into(),
        via: Door::Jetpack,
    });
    pair.exchange();
    assert_eq!(
        pair.order("evt_1").destinations[0].state,
        Delivered::Processed
    );
    assert_eq!(inbox(&pair.a, "A"), ["custom"], "the reply");
}

#[test]
fn to_all_is_expanded_over_every_node_when_it_is_published() {
    let mut pair = Pair::new();
    pair.a.join("A2", &[]);
    let sent = pair.a.ok(Publish {
        what: Publication::Message {
            to: Targets::All,
            payload: "{}".into(),
            priority: Priority::Medium,
            expects_reply: false,
        },
        ..publish("evt_1", "A", &[])
    });
    assert_eq!(sent.recipients, [AgentId::from("A2"), AgentId::from("B")]);
    pair.b.join("B2", &[]);
    pair.exchange();
    assert_eq!(inbox(&pair.b, "B").len(), 1);
    assert_eq!(inbox(&pair.b, "B2").len(), 0, "it came later");
    assert_eq!(inbox(&pair.a, "A2").len(), 1);
    assert_eq!(inbox(&pair.a, "A").len(), 0);
}

#[test]
fn a_task_of_another_node_is_one_like_any_other_and_its_requester_hears_of_it() {
    let mut pair = Pair::new();
    let sent = pair.a.ok(task("T", &["B"]));
    assert_eq!(sent.node, Some("b".into()));
    pair.exchange();
    let state = |pair: &Pair| pair.order("evt_T").task.expect("it is a task").state;
    assert_eq!(state(&pair), TaskOrderState::Accepted);
    assert_eq!(pair.b.task("T").status(), TaskStatus::Ready);
    assert!(pair.a.tasks.is_empty(), "it is done elsewhere");
    pair.b.hold("B", "T");
    pair.exchange();
    assert_eq!(state(&pair), TaskOrderState::Claimed);
    pair.b.ok(complete("B", "T"));
    pair.exchange();
    assert_eq!(state(&pair), TaskOrderState::Done);
    let ended = pair.order("evt_T");
    assert_eq!(ended.destinations[0].state, Delivered::Processed);
    assert!(ended.ended_at.is_some());
    assert_eq!(inbox(&pair.a, "A"), ["task.accepted", "task.completed"]);
    let kinds: Vec<String> = outbox(&pair.b)
        .iter()
        .filter(|row| row.event.corr_id.as_str() == "corr_T")
        .map(|row| match &row.event.news {
            News::Ack(answer) => format!("ack:{}", answer.answer),
            other => other.kind().to_owned(),
        })
        .collect();
    let expected = [
        "ack:accepted",
        "task_accept",
        "task_complete",
        "ack:processed",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_task_that_fails_for_good_is_told_as_failed() {
    let mut pair = Pair::new();
    pair.a.ok(task("T", &["B"]));
    pair.exchange();
    pair.b.hold("B", "T");
    let mut failed = fail("B", "T");
    failed.recoverable = false;
    pair.b.ok(failed);
    pair.exchange();
    let order = pair.order("evt_T");
    assert_eq!(
        order.task.expect("it is a task").state,
        TaskOrderState::Failed
    );
    assert_eq!(inbox(&pair.a, "A"), ["task.accepted", "task.failed"]);
}

#[test]
fn a_task_goes_to_one_node_and_one_id_is_one_task() {
    let mut pair = Pair::new();
    pair.a.join("A2", &[]);
    let sent = pair.a.ok(task("T", &["B", "A2", "nobody"]));
    assert_eq!(sent.node, Some("b".into()));
    assert_eq!(sent.recipients, [AgentId::from("B")]);
    assert_eq!(sent.ignored, [AgentId::from("nobody"), AgentId::from("A2")]);
    let twice = Publish {
        event: "evt_other".into(),
        ..task("T", &["A2"])
    };
    assert_eq!(word(&pair.a.run(twice)), "task_already_exists");
    let table: [(&[&str], &str); 2] = [
        (&["nobody"], "invalid_targets"),
        (&[], "missing_route_fields"),
    ];
    for (to, expected) in table {
        assert_eq!(word(&pair.a.run(task("T2", to))), expected, "{to:?}");
    }
    // The id is taken at the other node.
    pair.b.add("T3");
    pair.a.ok(task("T3", &["B"]));
    pair.exchange();
    let order = pair.order("evt_T3");
    assert_eq!(order.destinations[0].reason.as_deref(), Some("task_exists"));
    assert_eq!(inbox(&pair.a, "A"), ["task.failed"]);
}

#[test]
fn steps_of_a_task_that_is_another_nodes_or_over_count_for_nothing() {
    let mut pair = Pair::new();
    joined_as(&mut pair.a, "a", "c");
    pair.a.ok(task("T", &["B"]));
    let foreign = |kind: News, seq| {
        let event = Dispatch::own(&"c".into(), "x", "corr_T".into(), kind, pair.a.now);
        consume("c", &Outgoing { seq, event })
    };
    let done = || News::TaskComplete {
        task: TaskId::from("T"),
        by: "C".into(),
        result: None,
        at: Timestamp(1),
    };
    let stray = foreign(done(), 1);
    pair.a.ok(stray);
    let said = &pair.a.said;
    assert!(
        matches!(&said[..], [Event::IncidentOpened { kind, .. }] if kind == "stray_task_event")
    );
    let state = pair.order("evt_T").task.expect("it is a task").state;
    assert_eq!(state, TaskOrderState::Emitted);
}

#[test]
fn a_missing_event_blocks_and_then_the_policy_decides() {
    for (policy, status, taken) in [
        (GapPolicy::Halt, CursorStatus::Halted, false),
        (GapPolicy::Skip, CursorStatus::Active, true),
        (GapPolicy::Tombstone, CursorStatus::Active, true),
    ] {
        let mut pair = Pair::new();
        pair.a.ok(publish("evt_1", "A", &["B"]));
        pair.a.ok(publish("evt_2", "A", &["B"]));
        let rows = outbox(&pair.a);
        let [.., _lost, next] = &rows[..] else {
            panic!("two were published");
        };
        let gap = Gap {
            policy,
            ..Gap::default()
        };
        let leap = || Consume {
            gap,
            ..consume("a", next)
        };
        for _ in 0..2 {
            let missing = pair.b.ok(leap());
            assert_eq!(
                (missing.outcome, missing.status),
                (Outcome::Missing, CursorStatus::Gap)
            );
        }
        pair.b.now = pair.b.now + limits::GAP_WITHIN;
        let after = pair.b.ok(leap());
        assert_eq!(after.status, status, "{policy}");
        assert_eq!(inbox(&pair.b, "B").len(), usize::from(taken), "{policy}");
        assert!(
            pair.b
                .said
                .iter()
                .any(|event| matches!(event, Event::IncidentOpened { .. }))
        );
    }
}

#[test]
fn another_outbox_halts_the_cursor() {
    let mut pair = Pair::new();
    pair.a.ok(publish("evt_1", "A", &["B"]));
    pair.exchange();
    pair.a.ok(publish("evt_2", "A", &["B"]));
    let row = outbox(&pair.a).pop().expect("it was published");
    let restored = Consume {
        epoch: "route-epoch-other".to_owned(),
        ..consume("a", &row)
    };
    let mut b = pair.b;
    assert_eq!(b.ok(restored).outcome, Outcome::Halted);
    assert_eq!(
        b.ok(consume("a", &row)).outcome,
        Outcome::Halted,
        "until a person looked"
    );
    assert_eq!(inbox(&b, "B").len(), 1);
}

#[test]
fn nothing_is_taken_of_a_source_that_lost_what_comes_next_until_a_person_looked() {
    let mut pair = Pair::new();
    for n in 1..=3 {
        pair.a.ok(publish(&format!("evt_{n}"), "A", &["B"]));
    }
    let rows = outbox(&pair.a);
    let [.., first, _, last] = &rows[..] else {
        panic!("three were published");
    };
    pair.b.ok(consume("a", first));
    let reset = |to| ResetCursor {
        source: "a".into(),
        to,
    };
    pair.b.ok(reset(Reset::Expired { oldest: last.seq }));
    let taken = pair.b.ok(consume("a", last));
    assert_eq!(
        (taken.outcome, taken.status),
        (Outcome::Halted, CursorStatus::Expired)
    );
    pair.b.ok(reset(Reset::After(last.seq - 1)));
    assert_eq!(pair.b.ok(consume("a", last)).outcome, Outcome::Taken);
    assert_eq!(inbox(&pair.b, "B").len(), 2);
}

#[test]
fn who_has_not_joined_brings_nothing() {
    let mut pair = Pair::new();
    pair.a.ok(publish("evt_1", "A", &["B"]));
    let row = outbox(&pair.a).pop().expect("it was published");
    assert_eq!(
        word(&pair.b.run(consume("stranger", &row))),
        "node_not_found"
    );
}

#[test]
fn an_event_that_is_over_is_answered_and_not_acted_on() {
    for (late, delivered) in [
        (limits::DISPATCH_SKEW, 1),
        (limits::DISPATCH_SKEW + Duration::from_millis(1), 0),
    ] {
        let mut pair = Pair::new();
        pair.a.ok(publish("evt_1", "A", &["B"]));
        pair.b.now = pair.b.now + limits::DISPATCH_VALID_FOR + late;
        pair.exchange();
        assert_eq!(inbox(&pair.b, "B").len(), delivered, "{late:?}");
        let answers = outbox(&pair.b);
        let answer = answers.last().expect("it is answered");
        let News::Ack(answer) = &answer.event.news else {
            panic!("{answer:?}");
        };
        let failed = answer.answer == AnswerKind::Failed;
        assert_eq!(failed, delivered == 0);
    }
}

#[test]
fn an_agent_whose_name_is_taken_here_has_its_node_behind_it() {
    let mut pair = Pair::new();
    pair.b.join("A", &[]);
    pair.b.ok(Announce {
        agents: vec!["A".into()],
        again: false,
    });
    pair.exchange();
    let sent = pair.a.ok(publish("evt_1", "A", &["A@b"]));
    assert_eq!(
        sent.recipients,
        [AgentId::from("A")],
        "as it is called there"
    );
    pair.exchange();
    let there = pair
        .b
        .deliveries
        .get(&(MessageId::from("evt_1"), AgentId::from("A")));
    assert_eq!(there.map(|one| one.state), Some(DeliveryState::Queued));
}

#[test]
fn a_deadline_ends_a_task_that_nobody_took_and_its_requester_hears_of_it() {
    let mut pair = Pair::new();
    let mut given = task("T", &["B"]);
    if let Publication::Task(task) = &mut given.what {
        task.deadline_at = Some(pair.a.now + Duration::from_secs(60));
    }
    pair.a.ok(given);
    pair.exchange();
    pair.wait(Duration::from_secs(59));
    assert_eq!(pair.b.ok(super::super::EndDeadlines).done, 0);
    pair.wait(Duration::from_secs(1));
    assert_eq!(pair.b.ok(super::super::EndDeadlines).done, 1);
    pair.exchange();
    assert_eq!(pair.b.task("T").status(), TaskStatus::Failed);
    assert_eq!(inbox(&pair.a, "A"), ["task.failed"]);
    assert_eq!(pair.b.ok(super::super::EndDeadlines).done, 0);
}

#[test]
fn an_outcome_that_does_not_come_is_an_incident() {
    let mut pair = Pair::new();
    pair.a.ok(task("T", &["B"]));
    pair.exchange();
    pair.wait(limits::OUTCOME_WITHIN + limits::OUTCOME_GRACE - Duration::from_secs(1));
    assert_eq!(pair.a.ok(ChaseOrders).done, 0);
    pair.wait(Duration::from_secs(1));
    assert_eq!(pair.a.ok(ChaseOrders).done, 1);
    let said = &pair.a.said;
    assert!(matches!(&said[..], [Event::IncidentOpened { kind, .. }] if kind == "outcome_overdue"));
    assert_eq!(pair.a.ok(ChaseOrders).done, 0, "it is told once");
}

mod catalog;
mod found;
mod laws;
mod names;
mod pressure;
mod steps;

//! What went wrong once between nodes, or could have.

use super::super::super::{CompactOutbox, Deregister};
use super::*;
use crate::outbox::Control;

#[test]
fn a_task_is_for_those_of_its_audience_who_are_still_there() {
    let mut pair = Pair::new();
    pair.b.join("B2", &[]);
    pair.b.ok(Announce {
        agents: vec!["B2".into()],
        again: false,
    });
    pair.exchange();
    pair.a.ok(task("T", &["B", "B2"]));
    pair.b.ok(Deregister { agent: "B2".into() });
    pair.exchange();
    assert_eq!(pair.b.task("T").about.audience, [AgentId::from("B")]);
    let state = pair.order("evt_T").task.expect("it is a task").state;
    assert_eq!(state, TaskOrderState::Accepted);
}

#[test]
fn a_message_is_not_for_somebody_else_who_has_the_name() {
    let mut pair = Pair::new();
    pair.a.join("X", &[]);
    pair.b.join("X", &[]);
    pair.a.ok(publish("evt_here", "A", &["X"]));
    pair.a.ok(publish("evt_there", "A", &["B"]));
    pair.exchange();
    assert_eq!(inbox(&pair.a, "X").len(), 1);
    assert_eq!(inbox(&pair.b, "X").len(), 0, "it is another one");
    assert_eq!(inbox(&pair.b, "B").len(), 1);
}

#[test]
fn what_is_sent_again_need_not_be_in_the_outbox_any_more() {
    let mut pair = Pair::new();
    pair.a.ok(publish("evt_1", "A", &["B"]));
    asks(&mut pair.a, "b");
    let keep = limits::DISPATCH_VALID_MAX;
    assert!(pair.a.ok(CompactOutbox { keep }).done > 0, "it was read");
    pair.wait(limits::EVENT_ANSWERED_WITHIN);
    asks(&mut pair.a, "b");
    assert_eq!(pair.a.ok(ChaseOrders).done, 1);
    let resent = outbox(&pair.a).pop().expect("it was sent again");
    assert_eq!(
        (resent.event.id.as_str(), resent.event.attempt),
        ("evt_1", 2)
    );
    assert_eq!(pair.order("evt_1").attempt, 2);
}

#[test]
fn an_outcome_counts_however_late_it_is_read() {
    let mut pair = Pair::new();
    pair.a.ok(task("T", &["B"]));
    pair.exchange();
    pair.b.hold("B", "T");
    pair.b.ok(complete("B", "T"));
    pair.a.now = pair.a.now + 3 * limits::DISPATCH_VALID_FOR;
    pair.exchange();
    let order = pair.order("evt_T");
    assert_eq!(
        order.task.expect("it is a task").state,
        TaskOrderState::Done
    );
    assert_eq!(inbox(&pair.a, "A"), ["task.accepted", "task.completed"]);
}

#[test]
fn nobody_speaks_under_a_name_that_its_node_does_not_have() {
    let mut pair = Pair::new();
    joined_as(&mut pair.b, "b", "c");
    let letter = |from: &str, seq: u64| {
        let news = News::Message(Letter {
            to: vec!["B".into()],
            routes: Vec::new(),
            payload: "{}".into(),
            priority: Priority::Medium,
            expects_reply: false,
        });
        let salt = seq.to_string();
        let mut event = Dispatch::own(&"c".into(), &salt, "corr".into(), news, Timestamp(1));
        event.from = from.into();
        event.expires_at = limits_end();
        consume("c", &Outgoing { seq, event })
    };
    let names = ["A", "B", "steward", "switchboard", "A@a", "stranger"];
    for (from, seq) in names.into_iter().zip(1..) {
        pair.b.ok(letter(from, seq));
        let newest = pair.b.messages.values().max_by_key(|one| one.number);
        let shown = newest.expect("it was delivered").from.to_string();
        assert_eq!(shown, format!("{from}@c"));
    }
}

fn limits_end() -> Timestamp {
    Timestamp(i64::MAX / 2)
}

#[test]
fn steps_of_a_task_are_for_the_node_that_gave_it() {
    let mut pair = Pair::new();
    pair.a.ok(task("T", &["B"]));
    let step = |to_node: &str, corr: &str, seq: u64| {
        let news = News::TaskComplete {
            task: "T".into(),
            by: "B".into(),
            result: None,
            at: Timestamp(1),
        };
        let salt = seq.to_string();
        let mut event = Dispatch::own(&"b".into(), &salt, corr.into(), news, Timestamp(1));
        event.to_node = Some(to_node.into());
        consume("b", &Outgoing { seq, event })
    };
    let state = |pair: &Pair| pair.order("evt_T").task.expect("it is a task").state;
    let next = cursor(&pair.a, "b").last_seq + 1;
    pair.a.ok(step("c", "corr_T", next));
    assert_eq!(state(&pair), TaskOrderState::Emitted, "somebody else's");
    pair.a.ok(step("a", "corr_other", next + 1));
    assert_eq!(
        state(&pair),
        TaskOrderState::Emitted,
        "another task of this name"
    );
    pair.a.ok(step("a", "corr_T", next + 2));
    assert_eq!(state(&pair), TaskOrderState::Done);
}

fn with(event: &str, to: &[&str], edit: impl FnOnce(&mut Publish)) -> Publish {
    let mut made = publish(event, "A", to);
    edit(&mut made);
    made
}

fn expects_reply(publish: &mut Publish) {
    if let Publication::Message { expects_reply, .. } = &mut publish.what {
        *expects_reply = true;
    }
}

fn said_incidents(swarm: &Swarm) -> Vec<String> {
    let of = swarm.said.iter().filter_map(|event| match event {
        Event::IncidentOpened { incident, .. } => Some(incident.clone()),
        _ => None,
    });
    of.collect()
}

#[test]
fn what_was_taken_in_is_known_when_it_comes_again_after_its_end() {
    let minute = Duration::from_secs(60);
    let mut pair = Pair::new();
    pair.a
        .ok(with("evt_1", &["B"], |one| one.expires_in = Some(minute)));
    let mut given = task("T", &["B"]);
    given.expires_in = Some(minute);
    pair.a.ok(given);
    // Both arrive; what is answered is not heard.
    carry(&pair.a, "a", &mut pair.b);
    asks(&mut pair.a, "b");
    pair.wait(limits::EVENT_ANSWERED_WITHIN);
    assert_eq!(pair.a.ok(ChaseOrders).done, 2);
    pair.b.now = pair.b.now + 10 * minute;
    pair.exchange();
    let order = pair.order("evt_1");
    assert_eq!(order.destinations[0].state, Delivered::Accepted);
    let state = pair.order("evt_T").task.expect("it is a task").state;
    assert_eq!(state, TaskOrderState::Accepted, "somebody does it");
}

#[test]
fn an_event_that_is_over_is_answered_by_those_it_is_for() {
    let mut pair = Pair::new();
    let mut c = Swarm::new();
    joined_as(&mut c, "c", "a");
    pair.a.ok(publish("evt_1", "A", &["B"]));
    pair.a.ok(task("T", &["B"]));
    c.now = c.now + 2 * limits::DISPATCH_VALID_FOR;
    carry(&pair.a, "a", &mut c);
    assert_eq!(c.head.outbox, 0, "nobody asked it");
}

#[test]
fn a_node_that_is_away_is_given_up_while_another_one_still_owes_a_reply() {
    let mut pair = Pair::new();
    joined_as(&mut pair.a, "a", "c");
    let control = Control::Agent {
        agent: "C".into(),
        is_live: true,
    };
    let news = News::Signal {
        rev: 1,
        record: control,
    };
    let event = Dispatch::own(&"c".into(), "x", "corr".into(), news, pair.a.now);
    pair.a.ok(consume("c", &Outgoing { seq: 1, event }));
    pair.a.ok(with("evt_1", &["B", "C"], expects_reply));
    pair.exchange();
    pair.wait(limits::DISPATCH_VALID_FOR);
    pair.a.ok(ChaseOrders);
    assert_eq!(said_incidents(&pair.a), ["dead_letter:evt_1"]);
    let order = pair.order("evt_1");
    let states: Vec<Delivered> = order.destinations.iter().map(|one| one.state).collect();
    assert_eq!(states, [Delivered::Accepted, Delivered::Dead]);
}

#[test]
fn what_nobody_ever_replies_to_is_given_up_in_the_end() {
    let mut pair = Pair::new();
    pair.a.ok(with("evt_1", &["B"], expects_reply));
    pair.exchange();
    pair.wait(limits::OUTCOME_WITHIN + limits::OUTCOME_GRACE);
    pair.a.ok(ChaseOrders);
    assert_eq!(said_incidents(&pair.a), ["outcome_overdue:evt_1"]);
    pair.wait(limits::DISPATCH_VALID_MAX);
    pair.a.ok(ChaseOrders);
    assert_eq!(said_incidents(&pair.a), ["dead_letter:evt_1"]);
    let order = pair.order("evt_1");
    assert_eq!(order.destinations[0].state, Delivered::Dead);
    assert!(order.ended_at.is_some(), "it is history now");
}

#[test]
fn a_clock_that_is_an_hour_late_makes_no_outcome_overdue() {
    let hour = Duration::from_secs(3600);
    for is_b_late in [true, false] {
        let mut pair = Pair::new();
        let late = if is_b_late { &mut pair.b } else { &mut pair.a };
        late.now = late.now - hour;
        pair.a.ok(task("T", &["B"]));
        pair.exchange();
        pair.b.hold("B", "T");
        pair.exchange();
        pair.wait(limits::OUTCOME_WITHIN);
        assert_eq!(pair.a.ok(ChaseOrders).done, 0, "it is in time");
        pair.wait(limits::OUTCOME_GRACE);
        assert_eq!(pair.a.ok(ChaseOrders).done, 1);
    }
}

#[test]
fn a_message_for_all_reaches_more_agents_of_a_node_than_one_may_name() {
    let mut pair = Pair::new();
    let names = (0..limits::MESSAGE_RECIPIENTS_MAX + 6).map(|n| format!("agent-{n:03}"));
    let names: Vec<String> = names.collect();
    for name in &names {
        pair.b.join(name, &[]);
    }
    let agents = names.iter().map(|name| name.as_str().into()).collect();
    let again = false;
    pair.b.ok(Announce { agents, again });
    pair.exchange();
    pair.a.ok(with("evt_1", &[], |one| {
        if let Publication::Message { to, .. } = &mut one.what {
            *to = Targets::All;
        }
    }));
    pair.b.join("latecomer", &[]);
    pair.exchange();
    let order = pair.order("evt_1");
    assert_eq!(order.destinations[0].state, Delivered::Accepted);
    let got = names.iter().filter(|name| inbox(&pair.b, name).len() == 1);
    assert_eq!(got.count(), names.len());
    assert_eq!(inbox(&pair.b, "latecomer").len(), 0);
}

#[test]
fn what_was_answered_with_no_stays_so_when_it_comes_again() {
    let mut pair = Pair::new();
    pair.b.ok(Deregister { agent: "B".into() });
    pair.a.ok(publish("evt_1", "A", &["B"]));
    pair.a.ok(task("T", &["B"]));
    carry(&pair.a, "a", &mut pair.b);
    // The answer is on its way while it is sent again, and B comes back.
    asks(&mut pair.a, "b");
    pair.wait(limits::EVENT_ANSWERED_WITHIN);
    assert_eq!(pair.a.ok(ChaseOrders).done, 2);
    pair.b.join("B", &["rust"]);
    pair.exchange();
    assert_eq!(inbox(&pair.b, "B").len(), 0);
    assert!(pair.b.tasks.is_empty());
    for event in ["evt_1", "evt_T"] {
        let order = pair.order(event);
        assert_eq!(
            order.destinations[0].reason.as_deref(),
            Some("invalid_target")
        );
    }
}

#[test]
fn kinds_that_nobody_knows_are_counted_and_passed_over() {
    let mut pair = Pair::new();
    let (kind, payload) = ("telemetry".to_owned(), "{}".into());
    let news = News::Other {
        kind,
        payload,
        wrong: None,
    };
    let event = Dispatch::own(&"a".into(), "x", "corr".into(), news, pair.a.now);
    let seq = cursor(&pair.b, "a").last_seq + 1;
    let taken = pair.b.ok(consume("a", &Outgoing { seq, event }));
    assert_eq!(taken.outcome, Outcome::Taken);
    assert_eq!(cursor(&pair.b, "a").passed_over, 1);
    assert_eq!(pair.b.head.outbox, 1, "nothing is answered");
}

#[test]
fn a_page_is_loaded_at_once_and_not_event_by_event() {
    let mut pair = Pair::new();
    for n in 0..50 {
        pair.a.ok(publish(&format!("evt_{n}"), "A", &["B"]));
    }
    let read = cursor(&pair.b, "a").last_seq;
    let rows = outbox(&pair.a).into_iter();
    let verbs: Vec<Consume> = rows
        .filter(|row| row.seq > read)
        .map(|row| consume("a", &row))
        .collect();
    // As a batch is loaded: what a verb misses, with what those behind it miss.
    let (b, now, mut rounds) = (&pair.b, pair.b.now, 0);
    let mut slice = Slice::default();
    slice.head = b.head.clone();
    for (at, verb) in verbs.iter().enumerate() {
        loop {
            let mut want = Want::new(&slice);
            verb.asks(&mut want, now);
            if want.is_satisfied() {
                break;
            }
            verbs[at..]
                .iter()
                .for_each(|verb| verb.asks(&mut want, now));
            let asked = want.into_asks();
            asked.iter().for_each(|ask| b.answer(ask, &mut slice));
            rounds += 1;
        }
        let (_, changes) = verb.decide(&slice, now).expect("it is taken");
        slice.apply(changes, now);
    }
    assert!(rounds <= 5, "{rounds} rounds for {} events", verbs.len());
}

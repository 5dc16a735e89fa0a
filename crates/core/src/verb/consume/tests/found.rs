//! What went wrong once between nodes, or could have.

use super::super::super::{CompactOutbox, Deregister};
use super::*;

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

//! Messages that a hand has sent, read or confirmed.

use std::time::Duration;

use super::*;
use crate::doors::Door;
use crate::limits;
use crate::message::{Delivery, DeliveryState, Meaning, To};
use crate::task::Priority;
use crate::verb::Receive;
use crate::verb::testing::send;

fn three() -> Swarm {
    let mut swarm = Swarm::new();
    for agent in ["A", "B", "C"] {
        swarm.join(agent, &[]);
    }
    swarm
}

/// A row as a hand inserts it: no number, no rev.
fn row(swarm: &Swarm, id: &str, from: &str, to: Option<&str>) -> Message {
    Message {
        id: id.into(),
        number: 0,
        from: from.into(),
        to: to.map(AgentId::from).into(),
        kind: "custom".to_owned(),
        payload: r#"{"a":1}"#.into(),
        ack_required: false,
        corr_id: "".into(),
        handoff: None,
        given: None,
        created_at: swarm.now,
        expires_at: None,
        acknowledged: None,
        delivered_at: None,
        afar: None,
        rev: 0,
    }
}

fn posted(is: Message) -> Written {
    Written::Message {
        id: is.id.clone(),
        was: None,
        is: Some(is.into()),
        reader: None,
    }
}

fn post(swarm: &mut Swarm, id: &str, from: &str, to: Option<&str>) -> Result<(), Refusal> {
    let is = row(swarm, id, from, to);
    swarm.adopt(posted(is))
}

fn receives(swarm: &mut Swarm, agent: &str) -> Vec<String> {
    let received = swarm.ok(Receive {
        agent: agent.into(),
        kinds: Vec::new(),
        limit: 10,
        via: Door::Jetpack,
    });
    received
        .iter()
        .map(|row| row.message.id.to_string())
        .collect()
}

fn delivery<'a>(swarm: &'a Swarm, message: &str, agent: &str) -> &'a Delivery {
    &swarm.deliveries[&(message.into(), agent.into())]
}

#[test]
fn nobody_sends_by_hand_under_a_name_that_reads_like_the_hubs() {
    let mut swarm = three();
    for from in ["Steward", "ste\u{200b}ward", "SWITCHBOARD"] {
        let refused = post(&mut swarm, "m1", from, Some("B"));
        assert!(refused.is_err(), "{from}");
    }
    assert!(receives(&mut swarm, "B").is_empty());
    assert!(post(&mut swarm, "m2", "steward", Some("B")).is_ok());
}

#[test]
fn a_message_inserted_by_hand_is_sent() {
    // By an agent, and by somebody who is none.
    for from in ["A", "a-person"] {
        let mut swarm = three();
        assert_eq!(post(&mut swarm, "M", from, Some("B")), Ok(()), "{from}");
        assert_eq!(swarm.said(), ["message_sent"]);
        let message = swarm.message("M");
        assert_eq!(message.from, from.into());
        assert_eq!(message.number, swarm.head.message_number);
        assert!(message.number > 0 && message.rev > 0);
        assert_eq!(receives(&mut swarm, "B"), ["M"]);
        assert!(receives(&mut swarm, "C").is_empty());
    }
}

#[test]
fn a_message_by_hand_is_a_sign_of_life_of_its_sender() {
    let mut swarm = three();
    swarm.wait(Duration::from_secs(1));
    assert_eq!(post(&mut swarm, "M", "A", Some("B")), Ok(()));
    assert_eq!(swarm.agent("A").seen_at, swarm.now);
    assert!(swarm.agent("B").seen_at < swarm.now);
}

#[test]
fn a_broadcast_by_hand_reaches_everyone_but_its_sender() {
    let mut swarm = three();
    assert_eq!(post(&mut swarm, "M", "A", None), Ok(()));
    assert!(receives(&mut swarm, "A").is_empty());
    assert_eq!(receives(&mut swarm, "B"), ["M"]);
    assert_eq!(receives(&mut swarm, "C"), ["M"]);
}

#[test]
fn a_message_by_hand_that_the_rules_refuse_leaves_no_row() {
    let mut swarm = three();
    let outcome = post(&mut swarm, "M", "A", Some("nobody"));
    assert_eq!(word(&outcome), "recipient_not_found");
    assert_eq!(swarm.said(), ["write_undone"]);
    assert!(swarm.messages.is_empty());

    swarm.ok(send("M", "A", Some("B")));
    let before = swarm.message("M").clone();
    let outcome = post(&mut swarm, "M", "C", Some("A"));
    assert_eq!(word(&outcome), "message_already_exists");
    assert_undone(&swarm, (&before, swarm.message("M")), |row| &mut row.rev);
}

#[test]
fn a_message_by_hand_to_a_full_inbox_is_undone() {
    for (waiting, expected) in [
        (limits::INBOX_MAX - 1, "ok"),
        (limits::INBOX_MAX, "too_many"),
    ] {
        let mut swarm = three();
        for n in 0..waiting {
            let message = MessageId::from(format!("old-{n}"));
            let row = Delivery {
                message: message.clone(),
                number: 0,
                agent: "B".into(),
                state: DeliveryState::Queued,
                priority: Priority::Medium,
                via: None,
                stream: None,
                delivered_at: None,
                acknowledged_at: None,
                expires_at: None,
                handing_until: None,
                reason: None,
            };
            swarm.deliveries.insert((message, "B".into()), row);
        }
        swarm.head.queued_deliveries = u64::from(waiting);
        let full = |agent: &mut Agent| agent.inbox = waiting;
        swarm.agents.entry("B".into()).and_modify(full);
        let outcome = post(&mut swarm, "M", "A", Some("B"));
        assert_eq!(word(&outcome), expected);
        let sent = expected == "ok";
        assert_eq!(swarm.messages.len(), usize::from(sent));
        let said = if sent { "message_sent" } else { "write_undone" };
        assert_eq!(swarm.said(), [said]);
    }
}

#[test]
fn a_message_by_hand_expires_when_its_row_says_but_within_the_bound() {
    let max = limits::MESSAGE_EXPIRES_MAX;
    let second = Duration::from_secs(1);
    for (span, expected) in [
        (max - second, max - second),
        (max, max),
        (max + second, max),
    ] {
        let mut swarm = three();
        let mut is = row(&swarm, "M", "A", Some("B"));
        is.expires_at = Some(swarm.now + span);
        assert_eq!(swarm.adopt(posted(is)), Ok(()));
        assert_eq!(swarm.message("M").expires_at, Some(swarm.now + expected));
    }
    let mut swarm = three();
    let mut is = row(&swarm, "M", "A", Some("B"));
    is.expires_at = Some(Timestamp(1));
    assert_eq!(swarm.adopt(posted(is)), Ok(()));
    assert!(receives(&mut swarm, "B").is_empty());
}

#[test]
fn a_message_marked_as_delivered_by_hand_is_delivered_once() {
    let mut swarm = three();
    swarm.ok(send("M", "A", Some("B")));
    swarm.wait(Duration::from_secs(1));
    let read = |message: &mut Message| message.delivered_at = Some(Timestamp(1));
    let written = swarm.message_by_hand("M", None, read);
    let again = written.clone();
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(swarm.said(), ["message_delivered"]);
    assert_eq!(delivery(&swarm, "M", "B").state, DeliveryState::Handed);
    assert_eq!(swarm.message("M").delivered_at, Some(swarm.now));
    assert_eq!(swarm.message("M").acknowledged, None);
    assert_eq!(swarm.agent("B").inbox, 0);
    assert_eq!(swarm.agent("B").seen_at, swarm.now);
    assert!(receives(&mut swarm, "B").is_empty());

    assert_eq!(swarm.adopt(again), Ok(()));
    assert!(swarm.said().is_empty());
}

#[test]
fn a_message_of_one_that_is_gone_can_be_read_by_hand() {
    let mut swarm = three();
    swarm.ok(send("M", "A", Some("B")));
    swarm.ok(crate::verb::Deregister { agent: "B".into() });
    let read = |message: &mut Message| message.delivered_at = Some(Timestamp(1));
    let written = swarm.message_by_hand("M", None, read);
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(swarm.said(), ["message_delivered"]);
    assert!(swarm.agent("B").is_gone());
    assert_eq!(swarm.agent("B").inbox, 0);
}

#[test]
fn a_message_acknowledged_by_hand_is_delivered_and_acknowledged() {
    let confirm = |message: &mut Message| {
        let by = message.to.one().expect("a recipient").clone();
        message.acknowledged = Some((by, Timestamp(1)));
    };
    let both = move |message: &mut Message| {
        message.delivered_at = Some(Timestamp(1));
        confirm(message);
    };
    for read_too in [false, true] {
        let mut swarm = three();
        swarm.ok(send("M", "A", Some("B")));
        let written = if read_too {
            swarm.message_by_hand("M", None, both)
        } else {
            swarm.message_by_hand("M", None, confirm)
        };
        assert_eq!(swarm.adopt(written), Ok(()));
        let said: &[&str] = if read_too {
            &["message_delivered", "message_acknowledged"]
        } else {
            &["message_acknowledged"]
        };
        assert_eq!(swarm.said(), said);
        let delivery = delivery(&swarm, "M", "B");
        assert_eq!(delivery.state, DeliveryState::Acknowledged);
        let message = swarm.message("M");
        assert_eq!(message.acknowledged, Some(("B".into(), swarm.now)));
        assert_eq!(message.delivered_at, Some(swarm.now));
        assert_eq!(swarm.agent("B").inbox, 0);
    }
}

#[test]
fn each_reader_marks_its_own_copy_of_a_broadcast() {
    let mut swarm = three();
    swarm.ok(send("M", "A", None));
    let read = |message: &mut Message| message.delivered_at = Some(Timestamp(1));
    let written = swarm.message_by_hand("M", Some("B"), read);
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(swarm.said(), ["message_delivered"]);
    assert_eq!(delivery(&swarm, "M", "B").state, DeliveryState::Handed);
    assert_eq!(delivery(&swarm, "M", "C").state, DeliveryState::Queued);
    assert_eq!(swarm.message("M").delivered_at, None);

    for reader in ["B", "C"] {
        let confirm = |message: &mut Message| {
            message.acknowledged = Some((reader.into(), Timestamp(1)));
        };
        let written = swarm.message_by_hand("M", Some(reader), confirm);
        assert_eq!(swarm.adopt(written), Ok(()));
        assert_eq!(swarm.said(), ["message_acknowledged"]);
        let state = delivery(&swarm, "M", reader).state;
        assert_eq!(state, DeliveryState::Acknowledged);
    }
    // The broadcast itself has one name to show: who was first.
    let first = swarm.message("M").acknowledged.clone();
    assert_eq!(first.map(|(by, _)| by), Some("B".into()));
    assert_eq!(swarm.message("M").to, To::Everyone);
}

#[test]
fn an_acknowledgement_by_hand_of_one_that_is_no_recipient_is_undone() {
    let mut swarm = three();
    swarm.ok(send("M", "A", Some("B")));
    let before = swarm.message("M").clone();
    let confirm = |message: &mut Message| {
        message.to = To::One("C".into());
        message.acknowledged = Some(("C".into(), Timestamp(1)));
    };
    let written = swarm.message_by_hand("M", Some("C"), confirm);
    assert_eq!(word(&swarm.adopt(written)), "not_a_recipient");
    assert_undone(&swarm, (&before, swarm.message("M")), |row| &mut row.rev);
}

#[test]
fn a_handoff_offered_and_accepted_by_hand_moves_the_claim_and_its_leases() {
    let mut swarm = Swarm::with_task(TaskStatus::InProgress);
    swarm.lease("A", "src/a.rs", Some("T"));
    let is = Message {
        kind: "task.handoff".to_owned(),
        payload: r#"{"taskId":"T"}"#.into(),
        ..row(&swarm, "M", "A", Some("B"))
    };
    let offer = || Ok(Meaning::Offer("T".into()));
    assert_eq!(swarm.adopt_meant(offer(), posted(is)), Ok(()));
    assert_eq!(swarm.message("M").handoff, Some(("T".into(), 1)));
    assert_eq!(swarm.task("T").holder(), Some(&"A".into()));

    let accept = |message: &mut Message| message.acknowledged = Some(("B".into(), Timestamp(1)));
    let written = swarm.message_by_hand("M", None, accept);
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(
        swarm.said(),
        ["message_acknowledged", "task_handed_over", "lease_acquired"]
    );
    assert_eq!(swarm.task("T").holder(), Some(&"B".into()));
    assert_eq!(swarm.task("T").epoch, 2);
    assert_eq!(swarm.leased(), [("src/a.rs", "B")]);

    // What one does not hold one does not offer.
    let again = row(&swarm, "again", "A", Some("B"));
    let outcome = swarm.adopt_meant(offer(), posted(again));
    assert_eq!(word(&outcome), "not_holder");
    assert_eq!(swarm.said(), ["write_undone"]);
    assert!(!swarm.messages.contains_key(&MessageId::from("again")));
}

#[test]
fn a_request_for_a_file_by_hand_goes_to_its_holder_or_is_granted() {
    let ask = |swarm: &mut Swarm, id: &str, from: &str| {
        let is = Message {
            kind: "file.lock_request".to_owned(),
            ..row(swarm, id, from, None)
        };
        let file = LeasePath::stored("src/a.rs");
        swarm.adopt_meant(Ok(Meaning::Wants(file)), posted(is))
    };
    let mut swarm = three();
    assert_eq!(ask(&mut swarm, "free", "B"), Ok(()));
    assert_eq!(swarm.message("free").kind, "file.lock_granted");
    assert_eq!(receives(&mut swarm, "B"), ["free"]);

    swarm.lease("A", "src/a.rs", None);
    assert_eq!(ask(&mut swarm, "held", "B"), Ok(()));
    assert_eq!(receives(&mut swarm, "A"), ["held"]);

    swarm.leases.clear();
    swarm.head.leases = 0;
    assert_eq!(word(&ask(&mut swarm, "nobody", "a-person")), "invalid");
    assert_eq!(swarm.said(), ["write_undone"]);
}

#[test]
fn a_message_by_hand_whose_meaning_cannot_be_read_is_undone() {
    let mut swarm = three();
    let is = row(&swarm, "M", "A", None);
    let outcome = swarm.adopt_meant(Err("filePath: is required".to_owned()), posted(is));
    assert_eq!(word(&outcome), "invalid");
    assert_eq!(swarm.said(), ["write_undone"]);
    assert!(receives(&mut swarm, "B").is_empty());
}

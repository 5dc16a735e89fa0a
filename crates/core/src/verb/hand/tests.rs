//! Messages on their way through streams.

use super::super::testing::{Standing, Swarm, join_bus, send};
use super::super::{Acknowledge, CloseDoor, Join, MarkSilent, Receive, Send};
use super::*;
use crate::task::Priority;

const HOLD: Duration = Duration::from_secs(30);

fn hand() -> Hand {
    hand_of("s1")
}

fn hand_of(stream: &str) -> Hand {
    Hand {
        agent: "A".into(),
        via: Door::Bus,
        stream: stream.to_owned(),
        limit: 10,
        hold_for: HOLD,
    }
}

fn receive() -> Receive {
    Receive {
        agent: "A".into(),
        kinds: Vec::new(),
        limit: 10,
        via: Door::Jetpack,
    }
}

fn take_back(stream: &str) -> TakeBack {
    TakeBack {
        agent: "A".into(),
        stream: stream.to_owned(),
        messages: vec!["m1".into()],
    }
}

fn with_mail() -> Swarm {
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.join("B", &[]);
    for id in ["m1", "m2"] {
        swarm.ok(send(id, "B", Some("A")));
    }
    swarm
}

fn ids(messages: &[Received]) -> Vec<&str> {
    let ids = messages.iter().map(|received| received.message.id.as_str());
    ids.collect()
}

fn handed(messages: &[&str]) -> Handed {
    Handed {
        agent: "A".into(),
        stream: "s1".to_owned(),
        messages: messages.iter().map(|id| MessageId::from(*id)).collect(),
    }
}

#[test]
fn what_a_stream_took_up_no_other_door_hands_out() {
    let mut swarm = with_mail();
    assert_eq!(ids(&swarm.ok(hand())), ["m1", "m2"]);
    assert!(swarm.ok(receive()).is_empty());
    assert_eq!(swarm.agent("A").inbox, 2, "they are not handed over yet");
    assert_eq!(swarm.ok(handed(&["m1", "m2"])), 2);
    assert_eq!(swarm.said(), ["message_delivered", "message_delivered"]);
    assert_eq!(swarm.agent("A").inbox, 0);
    assert_eq!(swarm.ok(handed(&["m1"])), 0, "once");
}

#[test]
fn what_nobody_wrote_is_handed_out_by_the_next_door() {
    let mut swarm = with_mail();
    swarm.ok(hand());
    assert_eq!(ids(&swarm.ok(hand())), ["m1", "m2"], "a new stream");
    swarm.wait(HOLD);
    assert_eq!(ids(&swarm.ok(receive())), ["m1", "m2"], "the hold lapsed");
    assert_eq!(swarm.ok(handed(&["m1", "m2"])), 0, "another door was first");
    let mut swarm = with_mail();
    swarm.ok(hand());
    swarm.ok(take_back("s1"));
    assert_eq!(ids(&swarm.ok(receive())), ["m1"]);
}

#[test]
fn streams_of_one_agent_leave_each_others_messages_alone() {
    // Of a door where an agent has any number of streams, and of one where the newest takes the place of the rest.
    for (via, shares) in [(Door::Jetpack, true), (Door::Bus, false)] {
        assert_eq!(via.has_one_stream(), !shares);
        let stream = |name: &str, limit| Hand {
            via,
            limit,
            ..hand_of(name)
        };
        let mut swarm = with_mail();
        swarm.ok(join("s1"));
        assert_eq!(ids(&swarm.ok(stream("s1", 1))), ["m1"], "{via}");
        if !shares {
            swarm.ok(join("s2"));
        }
        let expected: &[&str] = if shares { &["m2"] } else { &["m1", "m2"] };
        assert_eq!(ids(&swarm.ok(stream("s2", 10))), expected, "{via}");
        let of = |stream: &str| Handed {
            stream: stream.to_owned(),
            ..handed(&["m1", "m2"])
        };
        let take_all_back = |stream: &str| TakeBack {
            messages: vec!["m1".into(), "m2".into()],
            ..take_back(stream)
        };
        swarm.ok(take_all_back("s0"));
        assert!(swarm.ok(receive()).is_empty(), "{via}: nobody's");
        assert_eq!(swarm.ok(of("s0")), 0, "{via}: nobody's");
        assert_eq!(swarm.ok(of("s1")), usize::from(shares), "{via}");
        assert_eq!(swarm.ok(of("s2")), expected.len(), "{via}");
        let row = &swarm.deliveries[&("m2".into(), "A".into())];
        assert_eq!((row.via, row.is_of("s2")), (Some(via), true));
    }
}

#[test]
fn each_stream_ends_with_what_it_handed_over_itself() {
    let stream = |name: &str| Hand {
        via: Door::Jetpack,
        limit: 1,
        ..hand_of(name)
    };
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.join("B", &[]);
    for (id, name) in [("m1", "s1"), ("m2", "s2")] {
        swarm.ok(Send {
            ack_required: true,
            ..send(id, "B", Some("A"))
        });
        assert_eq!(ids(&swarm.ok(stream(name))), [id]);
        let settled = Handed {
            stream: name.to_owned(),
            ..handed(&[id])
        };
        assert_eq!(swarm.ok(settled), 1);
    }
    swarm.ok(join("bus"));
    assert_eq!(swarm.agent("A").inbox, 0, "a hello ends no other door's");
    assert_eq!(swarm.ok(end("s2")), 1);
    assert_eq!(swarm.agent("A").stream.unacknowledged, ["m1".into()]);
    assert_eq!(ids(&swarm.ok(receive())), ["m2"]);
    assert_eq!(swarm.ok(end("s1")), 1);
    assert_eq!(swarm.ok(end("s1")), 0);
}

#[test]
fn a_stream_takes_up_the_most_urgent_first_and_a_pull_the_oldest() {
    let sent = [
        ("m1", Priority::Low),
        ("m2", Priority::Medium),
        ("m3", Priority::Critical),
        ("m4", Priority::High),
        ("m5", Priority::Medium),
        ("m6", Priority::Critical),
    ];
    let with_mail = || {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        for (id, priority) in sent {
            let message = send(id, "B", Some("A"));
            swarm.ok(Send {
                priority,
                ..message
            });
        }
        swarm
    };
    let mut swarm = with_mail();
    let taken = swarm.ok(hand());
    assert_eq!(ids(&taken), ["m3", "m6", "m4", "m2", "m5", "m1"]);
    assert_eq!(taken[0].priority, Priority::Critical);
    let two = Hand { limit: 2, ..hand() };
    assert_eq!(ids(&with_mail().ok(two)), ["m3", "m6"]);
    let pulled = with_mail().ok(receive());
    assert_eq!(ids(&pulled), ["m1", "m2", "m3", "m4", "m5", "m6"]);
    assert_eq!(pulled[0].priority, Priority::Low);
}

#[test]
fn what_is_taken_up_at_once_is_bounded() {
    let half = limits::HAND_BYTES / 2;
    for (bytes, taken) in [(half - 1, 3), (half, 3), (half + 1, 2)] {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        for id in ["m1", "m2", "m3"] {
            let mut large = send(id, "B", Some("A"));
            large.payload = "x".repeat(bytes).into();
            swarm.ok(large);
        }
        assert_eq!(swarm.ok(hand()).len(), taken, "{bytes}");
    }
}

fn join(stream: &str) -> Join {
    Join {
        stream: Some(stream.to_owned()),
        ..join_bus("A")
    }
}

fn end(stream: &str) -> EndStream {
    EndStream {
        agent: "A".into(),
        stream: stream.to_owned(),
    }
}

/// A's stream has handed over a message that must be acknowledged, and one that must not.
fn handed_over() -> Swarm {
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.join("B", &[]);
    swarm.ok(join("s1"));
    for (id, ack_required) in [("m1", true), ("m2", false)] {
        swarm.ok(Send {
            ack_required,
            ..send(id, "B", Some("A"))
        });
    }
    swarm.ok(hand());
    assert_eq!(swarm.ok(handed(&["m1", "m2"])), 2);
    swarm
}

#[test]
fn what_was_not_acknowledged_when_its_stream_ended_waits_for_whatever_door_comes_next() {
    type Ends = fn(&mut Swarm);
    let ends: [(&str, Ends); 4] = [
        ("a disconnect", |swarm| assert_eq!(swarm.ok(end("s1")), 1)),
        ("the next hello", |swarm| drop(swarm.ok(join("s2")))),
        ("silence", |swarm| {
            swarm.wait(limits::SILENT_AFTER * 2);
            swarm.ok(MarkSilent);
        }),
        ("leaving", |swarm| {
            let (agent, door) = ("A".into(), crate::Door::Bus);
            swarm.ok(CloseDoor { agent, door });
        }),
    ];
    for (how, ends) in ends {
        let mut swarm = handed_over();
        ends(&mut swarm);
        assert_eq!(swarm.agent("A").inbox, 1, "{how}");
        assert_eq!(swarm.head.queued_deliveries, 1, "{how}");
        assert_eq!(swarm.messages[&MessageId::from("m1")].delivered_at, None);
        let got = swarm.ok(receive());
        assert_eq!(ids(&got), ["m1"], "{how}");
        assert!(got[0].redelivered, "{how}");
        // A pull is an answer: what it returned stays delivered.
        swarm.ok(join("s3"));
        swarm.ok(end("s3"));
        assert!(swarm.ok(receive()).is_empty(), "{how}");
    }
    let mut swarm = handed_over();
    swarm.ok(end("s1"));
    let again = swarm.ok(hand());
    assert_eq!((ids(&again), again[0].redelivered), (vec!["m1"], true));
}

#[test]
fn what_an_older_stream_wrote_counts_for_nothing_once_a_newer_one_has_the_agent() {
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.join("B", &[]);
    swarm.ok(join("s1"));
    swarm.ok(send("m1", "B", Some("A")));
    assert_eq!(ids(&swarm.ok(hand())), ["m1"]);
    swarm.ok(join("s2"));
    assert_eq!(swarm.ok(handed(&["m1"])), 0);
    assert!(swarm.ok(hand()).is_empty(), "the older one");
    assert_eq!(ids(&swarm.ok(hand_of("s2"))), ["m1"]);
    swarm.ok(take_back("s1"));
    assert!(
        swarm.ok(receive()).is_empty(),
        "it is the newer one's to take back"
    );
    let mut settled = handed(&["m1"]);
    settled.stream = "s2".to_owned();
    assert_eq!(swarm.ok(settled), 1);
}

#[test]
fn an_acknowledged_message_and_another_streams_end_queue_nothing() {
    let mut swarm = handed_over();
    swarm.ok(Acknowledge {
        agent: "A".into(),
        message: "m1".into(),
        via: Door::Jetpack,
    });
    assert_eq!(swarm.ok(end("s1")), 0);
    let mut swarm = handed_over();
    assert_eq!(swarm.ok(end("s0")), 0, "an older one");
    assert_eq!(swarm.agent("A").stream.unacknowledged, ["m1".into()]);
    assert_eq!(swarm.ok(end("s1")), 1);
    assert_eq!(swarm.ok(end("s1")), 0, "once");
}

#[test]
fn what_a_stream_leaves_unacknowledged_is_bounded() {
    let most = limits::UNACKNOWLEDGED_MAX;
    for (before, taken) in [(most - 1, 2), (most, 1), (most + 1, 1)] {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.ok(join("s1"));
        for (id, ack_required) in [("m1", true), ("m2", false)] {
            swarm.ok(Send {
                ack_required,
                ..send(id, "B", Some("A"))
            });
        }
        let agent = swarm
            .agents
            .get_mut(&AgentId::from("A"))
            .expect("A is there");
        agent.stream.unacknowledged = (0..before).map(|at| format!("x{at}").into()).collect();
        assert_eq!(swarm.ok(hand()).len(), taken, "{before}");
    }
}

#[test]
fn an_acknowledgement_settles_it_before_the_hub_does() {
    let mut swarm = with_mail();
    swarm.ok(hand());
    swarm.ok(Acknowledge {
        agent: "A".into(),
        message: "m1".into(),
        via: Door::Jetpack,
    });
    assert_eq!(swarm.ok(handed(&["m1", "m2"])), 1);
    assert_eq!(swarm.agent("A").inbox, 0);
}

#[test]
fn what_a_process_that_is_gone_had_in_hand_is_handed_out_at_once_and_marked() {
    let by = |stream: &str| Hand {
        via: Door::Squidrun,
        ..hand_of(stream)
    };
    let mut swarm = with_mail();
    swarm.ok(Join::by(Door::Squidrun, "A"));
    assert_eq!(ids(&swarm.ok(by("s1"))), ["m1", "m2"]);
    swarm.ok(take_back("s1"));
    let other = swarm.ok(by("s2"));
    assert_eq!(ids(&other), ["m1"], "m2 is held, m1 was given back");
    assert!(!other[0].redelivered, "nobody had it");
    swarm.wait(Duration::from_secs(1));
    swarm.ok(super::super::Serve { starting: true });
    let again = swarm.ok(by("s3"));
    assert_eq!(ids(&again), ["m1", "m2"]);
    assert!(again.iter().all(|received| received.redelivered));
    assert_eq!(ids(&swarm.ok(by("s4"))), [""; 0], "held again");
    swarm.ok(take_back("s3"));
    let back = swarm.ok(by("s4"));
    let is_marked = back[0].redelivered;
    assert_eq!((ids(&back), is_marked), (vec!["m1"], true), "for good");
}

//! Whom messages reach, and how many.

use super::super::testing::{Standing, Swarm, send, word};
use super::super::{BeginSession, CloseDoor, Deregister, Join, Receive, Say, Speaker};
use super::*;
use crate::assertion::{Assertion, AssertionKind};
use crate::doors::Door;
use crate::path::LeasePath;
use crate::record::Listed as _;
use crate::task::TaskStatus;

fn waiting(swarm: &Swarm) -> Vec<(&str, &str)> {
    let rows = swarm.deliveries.keys();
    rows.map(|(message, agent)| (message.as_str(), agent.as_str()))
        .collect()
}

#[test]
fn who_may_send_by_standing() {
    for standing in Standing::ALL {
        let mut swarm = Swarm::with_agent(standing);
        swarm.join("B", &[]);
        let expected = match standing {
            Standing::Unknown | Standing::Gone => "agent_not_registered",
            Standing::Live | Standing::Stopping | Standing::Silent => "ok",
        };
        assert_eq!(
            word(&swarm.run(send("m", "A", Some("B")))),
            expected,
            "{standing:?}"
        );
    }
}

#[test]
fn a_person_speaks_without_being_registered_and_is_sent_nothing() {
    let person = |id: &str, to: Option<&str>| Send {
        from: Sender::Person("steward".into()),
        ..send(id, "steward", to)
    };
    for standing in Standing::ALL {
        let mut swarm = Swarm::with_agent(standing);
        swarm.join("B", &[]);
        let (one, all) = match standing {
            Standing::Unknown => ("recipient_not_found", 1),
            Standing::Gone => ("ok", 1),
            Standing::Live | Standing::Stopping | Standing::Silent => ("ok", 2),
        };
        let outcome = swarm.run(person("one", Some("A")));
        assert_eq!(word(&outcome), one, "{standing:?}");
        assert_eq!(
            swarm.ok(person("all", None)).recipients,
            all,
            "{standing:?}"
        );
        let message = &swarm.messages[&MessageId::from("all")];
        assert_eq!(message.from.as_str(), "steward");
        assert!(
            !swarm.agents.contains_key(&"steward".into()),
            "{standing:?}"
        );
        let answer = swarm.run(send("back", "B", Some("steward")));
        assert_eq!(word(&answer), "recipient_not_found");
    }
}

#[test]
fn a_person_hands_off_nothing_and_is_granted_nothing() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    let from = || Sender::Person("steward".into());
    let offer = Send {
        from: from(),
        meaning: Meaning::Offer("T".into()),
        ..send("offer", "steward", Some("B"))
    };
    assert_eq!(word(&swarm.run(offer)), "invalid");
    let ask = |id: &str| Send {
        from: from(),
        meaning: Meaning::Wants(LeasePath::stored("src/a.rs")),
        ..send(id, "steward", None)
    };
    assert_eq!(word(&swarm.run(ask("free"))), "invalid");
    swarm.lease("B", "src/**", None);
    assert_eq!(swarm.ok(ask("held")).recipients, 1);
    assert_eq!(waiting(&swarm), [("held", "B")]);
}

#[test]
fn whom_a_message_reaches_by_standing() {
    // jetpack.send.directed; a known but gone agent is fine, an id never seen is not.
    for standing in Standing::ALL {
        let mut swarm = Swarm::with_agent(standing);
        swarm.join("B", &[]);
        let (directed, broadcast) = match standing {
            Standing::Unknown => ("recipient_not_found", 0),
            Standing::Gone => ("ok", 0),
            Standing::Live | Standing::Stopping | Standing::Silent => ("ok", 1),
        };
        let outcome = swarm.run(send("one", "B", Some("A")));
        assert_eq!(word(&outcome), directed, "{standing:?}");
        let sent = swarm.ok(send("all", "B", None));
        assert_eq!(sent.recipients, broadcast, "{standing:?}");
    }
}

#[test]
fn a_directed_message_reaches_that_agent_alone() {
    // jetpack.send.directed, jetpack.send.response
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.join("B", &[]);
    swarm.join("C", &[]);
    let sent = swarm.ok(send("m", "A", Some("B")));
    assert_eq!((sent.message.as_str(), sent.recipients), ("m", 1));
    assert_eq!(waiting(&swarm), [("m", "B")]);
    assert_eq!((swarm.agent("B").inbox, swarm.agent("C").inbox), (1, 0));
    assert_eq!(swarm.said(), ["message_sent"]);
    assert_eq!(
        word(&swarm.run(send("m", "A", Some("C")))),
        "message_already_exists"
    );
}

#[test]
fn a_broadcast_reaches_every_other_agent_once_and_nobody_later() {
    // jetpack.send.broadcast
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.join("B", &[]);
    swarm.join("C", &[]);
    swarm.ok(send("m", "A", None));
    assert_eq!(waiting(&swarm), [("m", "B"), ("m", "C")]);
    swarm.join("late", &[]);
    assert_eq!(swarm.agent("late").inbox, 0);
}

fn to(agents: &[&str]) -> To {
    let agents = agents.iter().map(|id| AgentId::from(*id));
    To::agents(agents).expect("somebody is named")
}

#[test]
fn a_message_to_several_reaches_each_of_them_once_and_nobody_else() {
    let mut swarm = Swarm::with_agent(Standing::Live);
    for id in ["B", "C", "D"] {
        swarm.join(id, &[]);
    }
    // Who is named, who gets it, and how it is kept.
    let table: [(&[&str], &[&str]); 6] = [
        (&["B"], &["B"]),
        (&["B", "B"], &["B"]),
        (&["B", "C"], &["B", "C"]),
        (&["C", "B", "C", "B"], &["B", "C"]),
        (&["A", "B"], &["A", "B"]),
        (&["A", "B", "C", "D"], &["A", "B", "C", "D"]),
    ];
    for (at, (named, reached)) in table.into_iter().enumerate() {
        let id = format!("m{at}");
        let sent = swarm.ok(Send {
            to: to(named),
            ..send(&id, "A", None)
        });
        assert_eq!(sent.recipients as usize, reached.len(), "{named:?}");
        let rows = swarm.deliveries.keys().filter(|(it, _)| it.as_str() == id);
        let found: Vec<&str> = rows.map(|(_, agent)| agent.as_str()).collect();
        assert_eq!(found, reached, "{named:?}");
        let message = &swarm.messages[&MessageId::from(id)];
        assert_eq!(message.to, to(named), "{named:?}");
        assert_ne!(message.to, To::Everyone, "{named:?}");
        assert_eq!(message.to.one().is_some(), reached.len() == 1);
    }
    let received = swarm.ok(Receive {
        agent: "B".into(),
        kinds: vec![],
        limit: 10,
        via: Door::Jetpack,
    });
    let own = To::One("B".into());
    assert!(received.iter().all(|it| it.message.to == own));
    let message = &swarm.messages[&MessageId::from("m2")];
    assert_eq!(message.delivered_at, None, "C has not got it");
}

#[test]
fn one_of_several_who_cannot_get_it_keeps_it_from_all() {
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.join("B", &[]);
    let several = |named: &[&str]| Send {
        to: to(named),
        ..send("m", "A", None)
    };
    let refused = swarm.run(several(&["B", "nobody"]));
    let agent = AgentId::from("nobody");
    assert_eq!(refused, Err(Refusal::RecipientNotFound { agent }));
    assert!(swarm.deliveries.is_empty() && swarm.messages.is_empty());
    let full = swarm.agents.get_mut(&AgentId::from("B"));
    full.expect("B is there").inbox = limits::INBOX_MAX;
    assert_eq!(word(&swarm.run(several(&["A", "B"]))), "too_many");
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    swarm.join("C", &[]);
    let offer = Send {
        meaning: Meaning::Offer("T".into()),
        ..several(&["B", "C"])
    };
    assert_eq!(word(&swarm.run(offer)), "invalid", "one takes a task");
    assert_eq!(To::agents([]), None);
}

#[test]
fn how_many_agents_one_message_names_is_bounded() {
    let most = limits::MESSAGE_RECIPIENTS_MAX;
    let mut swarm = Swarm::with_agent(Standing::Live);
    let ids: Vec<String> = (0..=most).map(|at| format!("b{at}")).collect();
    ids.iter().for_each(|id| swarm.join(id, &[]));
    for (count, expected) in [(most - 1, "ok"), (most, "ok"), (most + 1, "too_many")] {
        let named: Vec<&str> = ids[..count].iter().map(String::as_str).collect();
        let sent = swarm.run(Send {
            to: to(&[&named[..], &named[..]].concat()),
            ..send(&format!("m{count}"), "A", None)
        });
        assert_eq!(word(&sent), expected, "{count}");
    }
    let long = |bytes: usize| "x".repeat(bytes);
    let most = limits::MESSAGE_RECIPIENTS_BYTES_MAX;
    for (bytes, expected) in [(most - 1, "ok"), (most, "ok"), (most + 1, "too_many")] {
        let (one, other) = (long(bytes / 2 - 1), long(bytes - bytes / 2 - 1));
        let other = other.replacen('x', "y", 1);
        for id in [&one, &other] {
            swarm.join(id, &[]);
        }
        let sent = swarm.run(Send {
            to: to(&[&one, &other]),
            ..send(&format!("m{bytes}"), "A", None)
        });
        assert_eq!(word(&sent), expected, "{bytes}");
    }
}

#[test]
fn no_two_messages_share_an_instant() {
    // jetpack.receive.order
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.join("B", &[]);
    let times: Vec<Timestamp> = ["a", "b", "c"]
        .iter()
        .map(|id| swarm.ok(send(id, "A", Some("B"))).created_at)
        .collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
}

#[test]
fn only_the_holder_can_offer_a_task_and_only_to_somebody() {
    // jetpack.send.type_enum: task.handoff
    let offer = |from: &str, to: Option<&str>| Send {
        meaning: Meaning::Offer("T".into()),
        ..send("m", from, to)
    };
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    assert_eq!(word(&swarm.run(offer("B", Some("A")))), "not_holder");
    assert_eq!(word(&swarm.run(offer("A", None))), "invalid");
    assert_eq!(word(&swarm.run(offer("A", Some("B")))), "ok");
    let message = &swarm.messages[&MessageId::from("m")];
    assert_eq!(message.handoff, Some(("T".into(), 1)));
    assert_eq!(
        swarm.task("T").holder(),
        Some(&"A".into()),
        "an offer moves nothing"
    );
    let outcome = Swarm::with_agent(Standing::Live).run(offer("A", Some("A")));
    assert_eq!(word(&outcome), "task_not_found");
}

#[test]
fn a_lock_request_goes_to_the_holder_or_is_granted_at_once() {
    // jetpack.send.type_enum: file.lock_request
    let ask = |id: &str| Send {
        kind: "file.lock_request".to_owned(),
        meaning: Meaning::Wants(LeasePath::stored("src/a.rs")),
        ..send(id, "A", None)
    };
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.join("B", &[]);
    swarm.join("C", &[]);
    swarm.ok(ask("free"));
    let granted = &swarm.messages[&MessageId::from("free")];
    assert_eq!(
        (granted.from.as_str(), &*granted.kind),
        (HUB, "file.lock_granted")
    );
    swarm.lease("B", "src/**", None);
    swarm.ok(ask("held"));
    assert_eq!(waiting(&swarm), [("free", "A"), ("held", "B")]);
    swarm.wait(Duration::from_secs(600));
    swarm.ok(ask("over"));
    assert_eq!(
        swarm.messages[&MessageId::from("over")].kind,
        "file.lock_granted"
    );
}

#[test]
fn a_message_is_known_again_by_its_sender_its_recipients_its_type_and_its_body() {
    let named = send("m", "A", Some("B"));
    let ask = Send {
        kind: "file.lock_request".to_owned(),
        meaning: Meaning::Wants(LeasePath::stored("src/a.rs")),
        ..send("m", "A", None)
    };
    for first in [named.clone(), send("m", "A", None), ask.clone()] {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.ok(first.clone());
        let kept = swarm.messages[&MessageId::from("m")].clone();
        assert!(first.is_kept_as(&kept), "{first:?}");
        for (other, what) in [
            (send("m", "B", first.to.one().map(AgentId::as_str)), "from"),
            (send("m", "A", Some("A")), "to"),
            (
                Send {
                    kind: "another".to_owned(),
                    meaning: Meaning::Nothing,
                    ..first.clone()
                },
                "type",
            ),
            (
                Send {
                    payload: "{}".into(),
                    ..first.clone()
                },
                "body",
            ),
        ] {
            assert!(!other.is_kept_as(&kept), "another {what}: {first:?}");
        }
    }
}

#[test]
fn an_inbox_is_bounded() {
    for (there, expected, reached) in [
        (limits::INBOX_MAX - 1, "ok", 1),
        (limits::INBOX_MAX, "too_many", 0),
    ] {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        let full = |swarm: &mut Swarm| {
            let agent = swarm.agents.get_mut(&AgentId::from("B"));
            agent.expect("B is there").inbox = there;
        };
        full(&mut swarm);
        let outcome = swarm.run(send("one", "A", Some("B")));
        assert_eq!(word(&outcome), expected, "{there}");
        full(&mut swarm);
        let sent = swarm.ok(send("all", "A", None));
        assert_eq!(
            sent.recipients, reached,
            "a broadcast leaves out whoever is full"
        );
    }
}

#[test]
fn a_message_to_a_gone_agent_waits_for_it() {
    let mut swarm = Swarm::with_agent(Standing::Gone);
    swarm.join("B", &[]);
    swarm.ok(send("m", "B", Some("A")));
    swarm.join("A", &[]);
    let got = swarm.ok(Receive {
        agent: "A".into(),
        kinds: vec![],
        limit: 10,
        via: Door::Jetpack,
    });
    assert_eq!(got.len(), 1);
    swarm.ok(Deregister { agent: "A".into() });
}

#[test]
fn what_roles_are_sent_is_numbered_by_sender_and_session() {
    let mut swarm = Swarm::new();
    for agent in ["A", "B"] {
        swarm.join(agent, &[]);
    }
    swarm.ok(Join::by(Door::Squidrun, "builder"));
    let numbered = |swarm: &mut Swarm, from: &str, to: Option<&str>| {
        let id = format!("m{}", swarm.messages.len());
        swarm.ok(send(&id, from, to));
        let given = swarm.messages[&MessageId::from(id)].given;
        given.map(|given| (given.session, given.number))
    };
    for (from, to, expected) in [
        ("A", Some("builder"), Some((0, 1))),
        ("A", Some("B"), None),
        ("B", Some("builder"), Some((0, 1))),
        ("A", Some("builder"), Some((0, 2))),
        ("A", None, Some((0, 3))),
        ("builder", Some("A"), None),
        ("builder", None, None),
    ] {
        assert_eq!(numbered(&mut swarm, from, to), expected, "{from} to {to:?}");
    }
    swarm.ok(CloseDoor {
        agent: "builder".into(),
        door: Door::Squidrun,
    });
    assert_eq!(numbered(&mut swarm, "A", Some("builder")), Some((0, 4)));
    assert_eq!(swarm.ok(BeginSession { at_least: 4 }).number, 5);
    assert_eq!(numbered(&mut swarm, "A", Some("builder")), Some((5, 1)));
    assert_eq!(numbered(&mut swarm, "A", Some("builder")), Some((5, 2)));
}

#[test]
fn what_a_role_sends_without_a_number_follows_those_that_it_gave_itself() {
    let mut swarm = Swarm::new();
    for role in ["builder", "oracle"] {
        swarm.ok(Join::by(Door::Squidrun, role));
    }
    let (from, to) = (Speaker::Role("builder".into()), To::One("oracle".into()));
    let said = Say::plain(Door::Squidrun, "s".into(), from, to, r#"{"text":"x"}"#);
    swarm.ok(Say {
        number: Some(6),
        ..said
    });
    swarm.ok(send("m", "builder", Some("oracle")));
    let given = |id: &str| swarm.messages[&MessageId::from(id)].given;
    assert_eq!(given("m").map(|given| given.number), Some(7));
    assert_eq!(given("s"), None);
}

#[test]
fn a_message_claims_something_where_a_role_says_or_hears_it() {
    for (from, to, is_made) in [
        ("A", Some("B"), false),
        ("A", None, true),
        ("A", Some("builder"), true),
        ("builder", Some("A"), true),
        ("A", Some("holder"), true),
        ("holder", Some("A"), true),
    ] {
        let mut swarm = Swarm::new();
        for agent in ["A", "B"] {
            swarm.join(agent, &[]);
        }
        swarm.ok(Join::by(Door::Squidrun, "builder"));
        swarm.join("holder", &["role:oracle"]);
        let claims = ["use SQLite", "no MySQL"].map(|text| Asserted {
            kind: AssertionKind::Decision,
            text: text.to_owned(),
        });
        swarm.ok(Send {
            claims: claims.into(),
            ..send("m", from, to)
        });
        let rows = swarm.records.values().filter_map(Assertion::of);
        let found: Vec<_> = rows
            .map(|row| (row.by.as_str(), row.message.as_str(), &*row.text, row.line))
            .collect();
        let expected = [(from, "m", "use SQLite", 0), (from, "m", "no MySQL", 1)];
        let expected = if is_made { &expected[..] } else { &[] };
        assert_eq!(found, expected, "{from} to {to:?}");
    }
}

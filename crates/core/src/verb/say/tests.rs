//! Whatever can be said, by whom, and what follows.

use std::time::Duration;

use super::*;
use crate::assertion::{Assertion, AssertionKind, AssertionStatus};
use crate::incident::Incident;
use crate::recurrence::Recurrence;
use crate::talk::Session;
use crate::task::TaskStatus;
use crate::verb::testing::{Swarm, claim, register, word};
use crate::verb::{BeginSession, Chase, Claimed, Handed, Join, Judge, Refuse};

fn say(id: &str, from: &str, to: &str, text: &str) -> Say {
    let payload = format!(r#"{{"text":"{text}"}}"#);
    let from = Speaker::Role(from.into());
    let number = text
        .split_once('#')
        .and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
    Say {
        number,
        ..Say::plain(Door::Squidrun, id.into(), from, To::One(to.into()), payload)
    }
}

fn heard(said: Said) -> Heard {
    match said {
        Said::New(heard) => *heard,
        other => panic!("expected news, was {other:?}"),
    }
}

fn incidents(swarm: &Swarm) -> Vec<String> {
    let rows = swarm.records.values().filter_map(Incident::of);
    rows.map(|row| format!("{} {} {}", row.kind, row.subject, row.count))
        .collect()
}

fn reminder(owed: &Owed) -> Box<str> {
    format!(r#"{{"text":"reminder {}"}}"#, owed.reminded).into()
}

#[test]
fn a_role_that_nobody_has_seen_has_a_mailbox_and_is_no_agent() {
    let mut swarm = Swarm::new();
    let said = heard(swarm.ok(say("m", "architect", "builder", "(ARCH #1): hello")));
    assert_eq!(said.waiting, ["builder".into()]);
    let mailbox = swarm.agent("builder");
    assert_eq!((mailbox.is_gone(), mailbox.inbox), (true, 1));
    assert_eq!(swarm.said(), ["message_sent"]);
    let joined = swarm.ok(Join::by(Door::Squidrun, "builder"));
    assert_eq!((joined.agent.inbox, joined.agent.is_live()), (1, true));
}

#[test]
fn the_same_message_is_taken_once() {
    let mut swarm = Swarm::new();
    let first = say("m", "architect", "builder", "(ARCH #1): hello");
    swarm.ok(first.clone());
    assert_eq!(swarm.ok(first.clone()), Said::Again);
    // By another path, with more about it.
    let mut by_file = first.clone();
    by_file.payload = format!("{},\"seq\":1}}", by_file.body()).into();
    by_file.from = Speaker::Other("cli".into());
    assert_eq!(swarm.ok(by_file), Said::Again);
    let other = say("m", "architect", "builder", "(ARCH #1): hello you");
    assert_eq!(word(&swarm.run(other)), "message_already_exists");
    // Under another id.
    let mut again = say("n", "architect", "builder", "(ARCH #1): hello");
    let like = |by| Said::Like {
        message: "m".into(),
        by,
    };
    assert_eq!(swarm.ok(again.clone()), like(Likeness::Sequence));
    again.once = true;
    assert_eq!(swarm.ok(again.clone()), like(Likeness::Signature));
    again.to = To::One("oracle".into());
    heard(swarm.ok(again));
    let mut unnumbered = say("o", "architect", "builder", "hello");
    heard(swarm.ok(unnumbered.clone()));
    unnumbered.id = "p".into();
    heard(swarm.ok(unnumbered.clone()));
    (unnumbered.id, unnumbered.once) = ("q".into(), true);
    let last = Said::Like {
        message: "p".into(),
        by: Likeness::Signature,
    };
    assert_eq!(swarm.ok(unnumbered.clone()), last);
    swarm.wait(limits::SAME_SIGNATURE_FOR);
    heard(swarm.ok(unnumbered));
}

#[test]
fn a_wrong_number_is_delivered_and_told() {
    let mut swarm = Swarm::new();
    for (id, text) in [("a", "(X #1): a"), ("b", "(X #2): b"), ("c", "(X #1): a")] {
        let said = heard(swarm.ok(say(id, "builder", "architect", text)));
        assert_eq!(said.slip, None, "{text}");
    }
    let said = heard(swarm.ok(say("d", "builder", "architect", "(X #4): d")));
    assert_eq!(said.slip, Some(Slip::Gap { expected: 2 }));
    heard(swarm.ok(say("e", "builder", "architect", "(X #4): e")));
    assert_eq!(incidents(&swarm), ["sequence_slip builder 2"]);
    assert_eq!(swarm.agent("architect").inbox, 5, "nothing is lost");
    // Each counts alone, and anew in a new session.
    heard(swarm.ok(say("f", "oracle", "architect", "(X #4): e")));
    let session = swarm.ok(BeginSession { at_least: 7 });
    assert_eq!(session.number, 8);
    let said = heard(swarm.ok(say("g", "builder", "architect", "(X #4): e")));
    assert_eq!((said.session, said.slip), (8, None));
    assert_eq!(swarm.ok(BeginSession { at_least: 0 }).number, 9);
    assert_eq!(incidents(&swarm), ["sequence_slip builder 2"]);
    let kept = swarm.records.values().find_map(Session::of);
    assert_eq!(kept.map(|session| session.number), Some(9));
}

#[test]
fn who_checks_in_is_known_to_have_and_empty_words_are_counted() {
    let mut swarm = Swarm::new();
    let spoken = |swarm: &Swarm| {
        let rows = swarm.records.values();
        rows.filter_map(Spoken::of).next().cloned().expect("a row")
    };
    let mut online = say("m", "builder", "architect", "(X #1): Builder online");
    online.gist = Some(Gist::CheckIn);
    swarm.ok(online);
    assert_eq!(spoken(&swarm).checked_in_at, Some(swarm.now));
    let mut okay = say("n", "builder", "architect", "(X #2): Okay");
    okay.gist = Some(Gist::EmptyAck);
    swarm.ok(okay);
    assert_eq!(spoken(&swarm).empty_acks, 1);
    swarm.ok(BeginSession { at_least: 0 });
    swarm.ok(say("o", "builder", "architect", "(X #1): x"));
    let anew = spoken(&swarm);
    assert_eq!((anew.checked_in_at, anew.empty_acks), (None, 0));
}

#[test]
fn a_header_of_another_role_is_delivered_and_told() {
    let mut swarm = Swarm::new();
    let mut forged = say("m", "builder", "oracle", "(ARCH #1): do it");
    forged.header_role = Some("architect".into());
    let said = heard(swarm.ok(forged));
    assert_eq!(said.message.from, "builder".into(), "the speaker counts");
    assert_eq!(incidents(&swarm), ["header_mismatch builder 1"]);
}

#[test]
fn who_belongs_to_a_role_speaks_to_it_alone() {
    let slot = |to: To| Say {
        from: Speaker::Slot {
            id: "builder-bg-1".into(),
            owner: "builder".into(),
        },
        to,
        ..say("m", "", "", "x")
    };
    let to_slot = |from| Say {
        from,
        bound_to: Some("builder".into()),
        ..say("m", "", "builder-bg-1", "x")
    };
    let role = |id: &str| Speaker::Role(id.into());
    let both = vec!["builder".into(), "oracle".into()];
    let table = [
        (slot(To::One("builder".into())), "ok"),
        (slot(To::One("architect".into())), "owner_binding"),
        (slot(To::Several(both)), "owner_binding"),
        (slot(To::Everyone), "owner_binding"),
        (to_slot(role("builder")), "ok"),
        (to_slot(role("oracle")), "owner_binding"),
        (to_slot(Speaker::Other("user".into())), "ok"),
        (to_slot(Speaker::Other("cli".into())), "owner_binding"),
    ];
    for (say, expected) in table {
        let mut swarm = Swarm::new();
        assert_eq!(word(&swarm.run(say.clone())), expected, "{say:?}");
        assert_eq!(swarm.messages.is_empty(), expected != "ok");
    }
}

#[test]
fn what_was_refused_is_on_record_once() {
    let mut swarm = Swarm::new();
    let refuse = Refuse {
        message: "m".into(),
        from: "cli".into(),
        to: "nobody".to_owned(),
        payload: "{}".into(),
        reason: "invalid_target",
    };
    swarm.ok(refuse.clone());
    assert_eq!(swarm.said(), ["message_refused"]);
    swarm.ok(refuse);
    assert!(swarm.said().is_empty());
}

#[test]
fn whoever_is_connected_has_it_in_hand_with_the_same_commit() {
    let mut swarm = Swarm::new();
    swarm.ok(Join::by(Door::Squidrun, "builder"));
    let mut said = say("m", "architect", "builder", "now");
    said.to = To::Several(vec!["builder".into(), "oracle".into()]);
    said.take_up = ["builder", "oracle"].map(taken).into();
    let heard = heard(swarm.ok(said));
    assert_eq!(heard.taken_up, ["builder".into()]);
    assert_eq!(heard.waiting, ["oracle".into()], "it is not there");
    let handed = Handed {
        agent: "builder".into(),
        stream: "s".to_owned(),
        messages: vec!["m".into()],
    };
    assert_eq!(swarm.ok(handed), 1);
    assert_eq!(swarm.agent("builder").inbox, 0);
}

fn taken(agent: &str) -> TakeUp {
    TakeUp {
        agent: agent.into(),
        stream: "s".to_owned(),
    }
}

#[test]
fn a_role_is_held_by_whoever_has_it_among_its_skills() {
    let mut swarm = Swarm::new();
    swarm.ok(register("codex-3", &["role:builder", "rust"]));
    swarm.ok(register("other", &["rust"]));
    let said = heard(swarm.ok(say("m", "architect", "builder", "x")));
    assert_eq!(said.waiting, ["builder".into(), "codex-3".into()]);
    // Those that no longer hold it are left out.
    swarm.ok(Join {
        resume: true,
        ..register("codex-3", &["rust"])
    });
    let said = heard(swarm.ok(say("n", "architect", "builder", "y")));
    assert_eq!(said.waiting, ["builder".into()]);
    // A broadcast reaches whoever is there, and no mailbox of a role that never was.
    let mut all = say("o", "architect", "", "z");
    all.to = To::Everyone;
    let said = heard(swarm.ok(all));
    assert_eq!(said.waiting, ["codex-3".into(), "other".into()]);
}

#[test]
fn a_task_is_made_with_the_message_for_its_recipients() {
    let mut swarm = Swarm::new();
    swarm.ok(register("codex-3", &["role:builder"]));
    swarm.ok(register("other", &[]));
    let mut said = say("m", "architect", "builder", "[TASK] do it");
    said.task = Some(Box::new(NewTask::plain("sq:m", "do it")));
    let made = heard(swarm.ok(said.clone())).task.expect("a task");
    assert_eq!(made.number, 1);
    assert_eq!(
        made.about.audience,
        [AgentId::from("builder"), "codex-3".into()]
    );
    assert_eq!(swarm.ok(said), Said::Again);
    assert!(matches!(swarm.ok(claim("other")), Claimed::None(_)));
    assert!(matches!(swarm.ok(claim("codex-3")), Claimed::Task(_)));
    assert_eq!(swarm.task("sq:m").status(), TaskStatus::Claimed);
}

#[test]
fn an_acknowledgement_is_owed_until_it_is_given() {
    let table: [(&str, &[u32], bool, bool); 4] = [
        ("architect", &[7], false, true),
        ("architect", &[8], false, false),
        ("architect", &[], true, true),
        ("oracle", &[7], true, false),
    ];
    for (to, names, is_ack, given) in table {
        let mut swarm = Swarm::new();
        let mut asks = say("m", "architect", "builder", "(ARCH #7): [ACK REQUIRED] x");
        asks.ack_required = true;
        swarm.ok(asks);
        let mut answer = say("n", "builder", to, "(BUILDER #1): answer");
        (answer.names, answer.is_ack) = (names.to_vec(), is_ack);
        swarm.ok(answer);
        let key = ("m".into(), "builder".into());
        let state = swarm.deliveries[&key].state;
        assert_eq!(state == DeliveryState::Acknowledged, given, "{names:?}");
        assert_eq!(swarm.agent("builder").inbox, u32::from(!given));
        let owed = swarm.records.values().filter_map(Owed::of).count();
        assert_eq!(owed, usize::from(!given), "{to} {names:?}");
    }
}

#[test]
fn who_owes_is_reminded_three_times_and_then_it_is_an_incident() {
    let mut swarm = Swarm::new();
    let mut asks = say("m", "architect", "builder", "(ARCH #7): x");
    asks.ack_required = true;
    swarm.ok(asks);
    swarm.ok(Join::by(Door::Squidrun, "architect"));
    let chase = Chase { words: reminder };
    let minute = Duration::from_secs(60);
    for (wait, builder, architect) in [(1, 1, 0), (1, 2, 0), (3, 3, 0), (10, 4, 0), (1, 4, 1)] {
        swarm.wait(minute * wait);
        while swarm.ok(chase).more {}
        let waits = |id: &str| swarm.agent(id).inbox;
        let expected = (builder, architect);
        assert_eq!((waits("builder"), waits("architect")), expected, "{wait}");
    }
    assert_eq!(incidents(&swarm), ["ack_overdue builder 1"]);
    swarm.wait(minute * 1000);
    assert_eq!(swarm.ok(chase).done, 0, "it is only shown from here on");
    // Given at last.
    let mut answer = say("n", "builder", "architect", "ACK");
    answer.is_ack = true;
    swarm.ok(answer);
    assert_eq!(swarm.records.values().filter_map(Owed::of).count(), 0);
}

#[test]
fn what_was_acknowledged_elsewhere_is_not_asked_for() {
    let mut swarm = Swarm::new();
    swarm.ok(Join::by(Door::Squidrun, "builder"));
    let mut asks = say("m", "architect", "builder", "x");
    asks.ack_required = true;
    swarm.ok(asks);
    swarm.ok(crate::verb::Acknowledge {
        agent: "builder".into(),
        message: "m".into(),
        via: Door::Jetpack,
    });
    swarm.wait(Duration::from_secs(3600));
    while swarm.ok(Chase { words: reminder }).more {}
    assert_eq!(swarm.agent("builder").inbox, 0);
    assert!(incidents(&swarm).is_empty());
}

fn claims(swarm: &Swarm) -> Vec<&Assertion> {
    let mut rows: Vec<_> = swarm.records.values().filter_map(Assertion::of).collect();
    rows.sort_by_key(|row| row.number);
    rows
}

fn claiming(id: &str, count: usize) -> Say {
    let claim = |n| Asserted {
        kind: AssertionKind::Decision,
        text: format!("number {n}"),
    };
    Say {
        claims: (0..count).map(claim).collect(),
        ..say(id, "oracle", "architect", "DECISION: x")
    }
}

#[test]
fn claims_are_made_with_their_message_and_judged_later() {
    let mut swarm = Swarm::new();
    swarm.ok(claiming("m", 2));
    assert_eq!(swarm.ok(claiming("m", 2)), Said::Again);
    swarm.ok(claiming("n", 1));
    let all = claims(&swarm);
    let places: Vec<_> = all
        .iter()
        .map(|it| (it.number, it.message.as_str(), it.line))
        .collect();
    assert_eq!(places, [(1, "m", 0), (2, "m", 1), (3, "n", 0)]);
    assert!(
        all.iter()
            .all(|it| it.status == AssertionStatus::Proposed && it.by.as_str() == "oracle")
    );
    for status in AssertionStatus::ALL {
        let judged = swarm.ok(Judge {
            claim: 2,
            status: *status,
            by: "architect".into(),
            why: "seen".to_owned(),
        });
        assert_eq!(swarm.said(), ["claim_judged"]);
        let judge = judged.judged.expect("somebody judged");
        assert_eq!((judged.status, judge.by.as_str()), (*status, "architect"));
    }
    assert_eq!(claims(&swarm)[1].text, "number 1");
    let is_other = |record: &Record| Assertion::of(record).is_none();
    swarm.records.retain(|_, record| is_other(record));
    swarm.ok(claiming("o", 1));
    assert_eq!(claims(&swarm)[0].number, 4, "no number is used again");
}

#[test]
fn no_more_claims_are_kept_than_can_be_listed() {
    let most = limits::ASSERTIONS_PER_MESSAGE_MAX;
    for (count, kept) in [(most - 1, most - 1), (most, most), (most + 1, most)] {
        let mut swarm = Swarm::new();
        swarm.ok(claiming("m", count));
        assert_eq!(claims(&swarm).len(), kept);
    }
    let mut swarm = Swarm::new();
    for n in 0..=limits::ASSERTIONS_MAX / most {
        swarm.wait(Duration::from_millis(1));
        swarm.ok(claiming(&format!("m{n}"), most));
    }
    let all = claims(&swarm);
    assert_eq!(all.len(), limits::ASSERTIONS_MAX);
    assert_eq!(all[0].number, most as u64 + 1, "the oldest went");
    let mut long = claiming("long", 1);
    for (bytes, kept) in [(-1, -1), (0, 0), (1, 0)] {
        let bound = limits::ASSERTION_BYTES_MAX as isize;
        let mut swarm = Swarm::new();
        long.claims[0].text = "x".repeat((bound + bytes) as usize);
        swarm.ok(long.clone());
        assert_eq!(claims(&swarm)[0].text.len() as isize, bound + kept);
    }
}

#[test]
fn a_failure_that_recurs_is_told_and_remembered_once() {
    // squidrun.escalate.negative_knowledge
    let mut swarm = Swarm::new();
    let mut fails = |id: &str, from: &str, line: &str| {
        swarm.wait(Duration::from_secs(60));
        swarm.ok(Say {
            failed: Some(line.to_owned()),
            ..say(id, from, "architect", id)
        });
        swarm.said().contains(&"failure_recurred")
    };
    assert!(!fails("a", "builder", "error: no space in /tmp/a"));
    assert!(!fails("b", "builder", "error: no space in /tmp/b7"));
    assert!(!fails("c", "oracle", "error: no space in /tmp/b"));
    assert!(!fails("d", "builder", "error: mismatched types"));
    assert!(fails("e", "builder", "error: no space in /tmp/c"));
    assert!(!fails("f", "builder", "error: no space in /tmp/d"));
    let learned = |swarm: &Swarm| -> Vec<String> {
        let rows = swarm.learnings.iter();
        rows.map(|row| row.text.clone()).collect()
    };
    let told = "negative knowledge: builder failed 3 times within 24 hours with: error: no space in /tmp/c";
    assert_eq!(learned(&swarm), [told]);
    // A day later it is told again, and known already.
    swarm.wait(Duration::from_secs(24 * 3600));
    for (id, tells) in [("g", false), ("h", false), ("i", true)] {
        swarm.ok(Say {
            failed: Some("error: no space in /x".to_owned()),
            ..say(id, "builder", "architect", id)
        });
        assert_eq!(swarm.said().contains(&"failure_recurred"), tells, "{id}");
    }
    assert_eq!(learned(&swarm), [told]);
}

#[test]
fn no_more_ways_of_failing_are_counted_than_the_bound() {
    let mut swarm = Swarm::new();
    for n in 0..=limits::RECURRENCES_MAX {
        swarm.wait(Duration::from_millis(1));
        let word: String = n.to_string().bytes().map(|b| (b + 49) as char).collect();
        swarm.ok(Say {
            failed: Some(format!("error {word}")),
            ..say(&format!("m{n}"), "builder", "architect", &word)
        });
    }
    let rows = swarm.records.values().filter_map(Recurrence::of);
    let patterns: Vec<&str> = rows.map(|row| row.pattern.as_str()).collect();
    assert_eq!(patterns.len(), limits::RECURRENCES_MAX);
    assert!(!patterns.contains(&"error a"), "the oldest went");
}

#[test]
fn the_hub_counts_what_it_says_itself_after_the_briefing() {
    let mut swarm = Swarm::new();
    swarm.ok(Join::by(Door::Squidrun, "builder"));
    let session = swarm.ok(BeginSession { at_least: 0 }).number;
    let own = |id: &str, number| Say {
        from: Speaker::Other(HUB_ROLE.into()),
        number,
        ..say(id, HUB_ROLE, "builder", id)
    };
    swarm.ok(own("briefing", Some(1)));
    swarm.ok(own("first", None));
    let mut asks = say(
        "asks",
        "architect",
        "builder",
        "(ARCH #4): [ACK REQUIRED] x",
    );
    asks.ack_required = true;
    swarm.ok(asks);
    swarm.now = swarm.now + Duration::from_secs(121);
    assert_eq!(swarm.ok(Chase { words: reminder }).done, 1);
    swarm.ok(own("last", None));
    let given = swarm.messages.values().filter_map(|row| row.given);
    let mut given: Vec<(u32, u32)> = given.map(|it| (it.session, it.number)).collect();
    given.sort_unstable();
    assert_eq!(given, [(session, 2), (session, 3), (session, 4)]);
}

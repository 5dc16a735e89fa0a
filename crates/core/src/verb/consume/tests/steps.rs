//! What is said of a task on its way: accepted by an answer alone, promised anew, told as no step can be.

use super::super::super::{PublishStep, Step};
use super::*;
use crate::node::Timings;
use crate::outbox::Answer;

/// What the node b says next, as it could have said itself.
fn says(pair: &mut Pair, news: News) -> Outcome {
    let event = Dispatch {
        corr_id: "corr_T".into(),
        ..Dispatch::own(&"b".into(), "x", "corr".into(), news, pair.a.now)
    };
    let seq = cursor(&pair.a, "b").last_seq + 1;
    let row = Outgoing { seq, event };
    pair.a.ok(consume("b", &row)).outcome
}

fn state(pair: &Pair) -> (TaskOrderState, Option<Timestamp>) {
    let task = pair.order("evt_T").task.expect("it is a task");
    (task.state, task.eta_at)
}

fn incidents(swarm: &Swarm) -> Vec<(String, u64)> {
    let found = swarm.records.values().filter_map(|record| match record {
        Record::Incident(incident) => Some((incident.kind.clone(), incident.count)),
        _ => None,
    });
    found.collect()
}

#[test]
fn an_answer_that_says_who_took_the_task_and_until_when_stands_for_an_acceptance() {
    // runtime.task_accept.ack_form, runtime.ack.eta
    let eta_at = Timestamp(1_760_000_900_000);
    for (task, eta, by, stands) in [
        ("T", Some(eta_at), Some("B"), true),
        ("T", None, Some("B"), false),
        ("T", Some(eta_at), None, false),
        ("U", Some(eta_at), Some("B"), false),
    ] {
        let mut pair = Pair::new();
        pair.a.ok(super::task("T", &["B"]));
        pair.exchange();
        assert_eq!(
            state(&pair).0,
            TaskOrderState::Accepted,
            "by its own answer"
        );
        let answer = Answer {
            to: "evt_T".into(),
            kind: "task_create".to_owned(),
            answer: AnswerKind::Accepted,
            by: vec!["B".into()],
            at: pair.a.now,
            eta_at: eta,
            reason: None,
            accepts: by.map(|by| (task.into(), by.into())),
        };
        for _ in 0..2 {
            says(&mut pair, News::Ack(answer.clone()));
        }
        let (expected, told): (_, &[&str]) = match stands {
            true => (TaskOrderState::Claimed, &["task.accepted"]),
            false => (TaskOrderState::Accepted, &[]),
        };
        assert_eq!(state(&pair).0, expected, "{answer:?}");
        assert_eq!(inbox(&pair.a, "A"), told, "{answer:?}");
        if stands {
            assert_eq!(state(&pair).1, Some(eta_at));
            let look_at = pair.order("evt_T").look_at;
            assert_eq!(look_at, Some(eta_at + limits::OUTCOME_GRACE));
        }
    }
}

#[test]
fn a_revised_eta_takes_the_place_of_the_promised_one() {
    // runtime.task_update.revised_eta
    let mut pair = Pair::new();
    pair.a.ok(super::task("T", &["B"]));
    pair.exchange();
    let says = |event: &str, step| PublishStep {
        event: event.into(),
        agent: "B".into(),
        corr_id: "corr_T".into(),
        expires_in: None,
        step,
        sum: 1,
    };
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let (eta_at, revised) = (pair.b.now + minutes(5), pair.b.now + minutes(50));
    pair.b.ok(says(
        "e1",
        Step::Accept {
            task: "T".into(),
            eta_at,
            plan: None,
        },
    ));
    pair.exchange();
    assert_eq!(state(&pair), (TaskOrderState::Claimed, Some(eta_at)));
    let update = Step::Update {
        task: "T".into(),
        percent: Some(10),
        note: None,
        revised_eta_at: Some(revised),
    };
    pair.b.ok(says("e2", update));
    pair.exchange();
    assert_eq!(state(&pair), (TaskOrderState::InProgress, Some(revised)));
    let contract = pair.b.task("T").contract.clone().expect("it was routed");
    assert_eq!(
        contract.promise.map(|promise| promise.eta_at),
        Some(revised)
    );
    pair.wait(minutes(50) + limits::OUTCOME_GRACE - Duration::from_millis(1));
    assert_eq!(pair.a.ok(ChaseOrders).done, 0, "it is not late");
    pair.wait(Duration::from_millis(1));
    pair.a.ok(ChaseOrders);
    assert_eq!(incidents(&pair.a), [("outcome_overdue".to_owned(), 1)]);
}

#[test]
fn a_step_that_is_not_what_its_kind_says_counts_for_nothing_and_is_recorded() {
    // runtime.task_accept.eta_required
    let mut pair = Pair::new();
    pair.a.ok(super::task("T", &["B"]));
    pair.exchange();
    let wrong = News::Other {
        kind: "task_accept".to_owned(),
        payload: "null".into(),
        wrong: Some("payload.etaAt must be given, or etaSeconds".to_owned()),
    };
    for n in 1..3 {
        assert_eq!(says(&mut pair, wrong.clone()), Outcome::Taken);
        assert_eq!(incidents(&pair.a), [("malformed_event".to_owned(), n)]);
    }
    assert_eq!(state(&pair).0, TaskOrderState::Accepted);
}

#[test]
fn answers_and_outcomes_are_waited_for_as_the_node_was_told() {
    // runtime.default.accepted_timeout, runtime.default.processed_grace
    let mut pair = Pair::new();
    for record in pair.a.records.values_mut() {
        if let Record::Gateway(gateway) = record {
            gateway.timings = Timings {
                answered_within_seconds: 5,
                grace_seconds: 7,
            };
        }
    }
    pair.a.ok(super::task("T", &["B"]));
    let sent_at = pair.a.now;
    let look_at = |pair: &Pair| pair.order("evt_T").look_at;
    assert_eq!(look_at(&pair), Some(sent_at + Duration::from_secs(5)));
    pair.exchange();
    let due = sent_at + limits::OUTCOME_WITHIN + Duration::from_secs(7);
    assert_eq!(look_at(&pair), Some(due));
}

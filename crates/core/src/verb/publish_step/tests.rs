//! What agents publish of their work, by state and by who speaks.

use super::super::testing::{Swarm, commissioned, complete, publish, word};
use super::super::{CreateTasks, Publish};
use super::*;
use crate::id::NodeId;
use crate::outbox::Outgoing;
use crate::record::Record;
use crate::task::TaskStatus;

const ETA: Timestamp = Timestamp(1_760_000_900_000);

/// The node "here" with A and B, who has the task T of an agent of the node "far", and the message M of A.
fn swarm() -> Swarm {
    let mut swarm = commissioned(false);
    let mut task = swarm.task("T").clone();
    let contract = task.contract.as_mut().expect("it was routed");
    contract.origin = NodeId::from("far");
    swarm.tasks.insert("T".into(), task);
    swarm.ok(Publish {
        corr_id: "corr_M".into(),
        ..publish("M", "A", &["B"])
    });
    swarm
}

fn says(event: &str, agent: &str, step: Step) -> PublishStep {
    let is_reply = matches!(step, Step::Reply { .. });
    PublishStep {
        event: event.into(),
        agent: agent.into(),
        corr_id: if is_reply { "corr_M" } else { "corr_T" }.into(),
        expires_in: None,
        step,
        sum: 1,
    }
}

fn accept() -> Step {
    Step::Accept {
        task: "T".into(),
        eta_at: ETA,
        plan: Some("first, then".to_owned()),
    }
}

fn update(percent: Option<u8>, revised_eta_at: Option<Timestamp>) -> Step {
    Step::Update {
        task: "T".into(),
        percent,
        note: Some("on it".to_owned()),
        revised_eta_at,
    }
}

fn done() -> Step {
    Step::Complete(Box::new(complete("B", "T")))
}

fn failed() -> Step {
    Step::Fail {
        task: "T".into(),
        class: FailureClass::DependencyUnavailable,
        error: "no link".to_owned(),
    }
}

fn reply() -> Step {
    Step::Reply {
        to: "M".into(),
        body: "\"yes\"".into(),
        status: None,
        payload: r#"{"refEventId":"M","body":"yes"}"#.into(),
    }
}

/// The kinds of what is in the outbox after a number, with the ids that somebody chose.
fn told(swarm: &Swarm, after: u64) -> Vec<String> {
    let rows = swarm.records.values().filter_map(|record| match record {
        Record::Outgoing(row) if row.seq > after => Some(row.clone()),
        _ => None,
    });
    let mut rows: Vec<Outgoing> = rows.collect();
    rows.sort_by_key(|row| row.seq);
    let named = rows.iter().map(|row| match row.event.id.as_str() {
        id if id.starts_with("evt_0") => row.event.news.kind().to_owned(),
        id => format!("{} {id} of {}", row.event.news.kind(), row.event.from),
    });
    named.collect()
}

fn order(swarm: &Swarm, event: &str) -> Order {
    let found = swarm.records.values().find_map(|record| match record {
        Record::Order(order) if order.event.as_str() == event => Some(order.clone()),
        _ => None,
    });
    found.expect("it is remembered")
}

#[test]
fn an_agents_own_events_stand_in_place_of_those_of_the_hub() {
    let mut swarm = swarm();
    let before = swarm.head.outbox;
    let accepted = swarm.ok(says("e1", "B", accept()));
    assert_eq!(accepted.seq, before + 1);
    assert_eq!(accepted.recipients, [AgentId::from("A")]);
    assert_eq!(swarm.task("T").status(), TaskStatus::Claimed);
    swarm.ok(says("e2", "B", update(Some(60), Some(ETA))));
    assert_eq!(swarm.task("T").status(), TaskStatus::InProgress);
    swarm.ok(says("e3", "B", done()));
    assert_eq!(swarm.task("T").status(), TaskStatus::Completed);
    assert_eq!(
        told(&swarm, before),
        [
            "task_accept e1 of B",
            "task_update e2 of B",
            "task_complete e3 of B",
            "ack"
        ]
    );
    let order = order(&swarm, "e3");
    assert_eq!(
        order.destinations[0].node.as_str(),
        "far",
        "it is to answer"
    );
    assert_eq!((order.seq, order.ended_at), (before + 3, None));
}

#[test]
fn the_same_step_again_is_answered_the_same_and_taken_once() {
    for step in [accept(), reply()] {
        let mut swarm = swarm();
        let first = swarm.ok(says("e1", "B", step.clone()));
        let outbox = swarm.head.outbox;
        assert_eq!(swarm.ok(says("e1", "B", step.clone())), first);
        assert_eq!(swarm.head.outbox, outbox, "nothing is told twice");
        let other = PublishStep {
            sum: 2,
            ..says("e1", "B", step.clone())
        };
        assert_eq!(word(&swarm.run(other)), "event_already_exists");
        let anothers = says("M", "B", step);
        assert_eq!(word(&swarm.run(anothers)), "event_already_exists");
    }
}

#[test]
fn a_step_is_refused_as_it_would_be_by_any_other_door() {
    for (who, step, outcome) in [
        ("A", accept(), "invalid"),
        ("C", accept(), "agent_not_registered"),
        ("B", update(None, None), "not_holder"),
        ("B", done(), "not_holder"),
        ("B", failed(), "not_holder"),
        ("A", reply(), "not_a_recipient"),
        ("C", reply(), "agent_not_registered"),
    ] {
        let mut swarm = swarm();
        let outbox = swarm.head.outbox;
        let given = says("e", who, step);
        assert_eq!(word(&swarm.run(given.clone())), outcome, "{given:?}");
        assert_eq!(swarm.head.outbox, outbox, "{given:?}");
    }
    let mut swarm = swarm();
    swarm.ok(says("e1", "B", accept()));
    assert_eq!(word(&swarm.run(says("e2", "B", accept()))), "not_holder");
    swarm.ok(says("e3", "B", failed()));
    // runtime.task_failed.terminal
    for (n, step) in [accept(), update(None, None), done(), failed()]
        .into_iter()
        .enumerate()
    {
        let late = says(&format!("late{n}"), "B", step);
        assert_eq!(word(&swarm.run(late)), "already_finished");
    }
    let unknown = Step::Fail {
        task: "U".into(),
        class: FailureClass::Unknown,
        error: String::new(),
    };
    assert_eq!(word(&swarm.run(says("e4", "B", unknown))), "task_not_found");
}

#[test]
fn who_answers_carries_the_corr_id_of_what_it_answers() {
    for step in [accept(), reply()] {
        let mut swarm = swarm();
        let foreign = PublishStep {
            corr_id: "another".into(),
            ..says("e", "B", step)
        };
        assert_eq!(word(&swarm.run(foreign)), "invalid");
    }
}

#[test]
fn an_agent_that_fails_a_task_ends_it_and_says_why_in_its_own_words() {
    let mut swarm = swarm();
    swarm.ok(says("e1", "B", accept()));
    swarm.ok(says("e2", "B", failed()));
    assert_eq!(swarm.task("T").status(), TaskStatus::Failed);
    let row = swarm.records.values().find_map(|record| match record {
        Record::Outgoing(row) if row.event.id.as_str() == "e2" => Some(row.clone()),
        _ => None,
    });
    let row = row.expect("it was told");
    assert!(
        matches!(&row.event.news, News::TaskFailed { class: FailureClass::DependencyUnavailable, error, .. } if error == "no link"),
        "{row:?}"
    );
}

#[test]
fn a_completion_that_a_person_must_look_at_is_told_as_blocked() {
    let mut swarm = swarm();
    swarm.ok(says("e1", "B", accept()));
    let mut unsure = complete("B", "T");
    unsure.policy = crate::GatePolicy {
        require_metrics: true,
        ..crate::GatePolicy::default()
    }
    .into();
    let before = swarm.head.outbox;
    swarm.ok(says("e2", "B", Step::Complete(Box::new(unsure))));
    assert_eq!(swarm.task("T").status(), TaskStatus::NeedsPerson);
    assert_eq!(told(&swarm, before), ["task_update e2 of B"]);
}

#[test]
fn a_reply_reaches_the_sender_and_ends_the_message() {
    let mut swarm = swarm();
    let before = swarm.head.outbox;
    let said = swarm.ok(says("e1", "B", reply()));
    assert_eq!(said.recipients, [AgentId::from("A")]);
    assert_eq!(told(&swarm, before), ["reply e1 of B", "ack"]);
    let handed = swarm.messages.get(&MessageId::from("e1"));
    let handed = handed.expect("A has it");
    assert_eq!(
        (handed.from.as_str(), handed.to.one()),
        ("B", Some(&"A".into()))
    );
    let key = (MessageId::from("M"), AgentId::from("B"));
    assert!(swarm.deliveries[&key].acknowledged_at.is_some());
    swarm.ok(says("e2", "B", reply()));
    assert_eq!(swarm.agent("A").inbox, 2, "more may follow");
}

#[test]
fn a_task_that_no_node_gave_is_told_to_whoever_reads() {
    let mut swarm = swarm();
    swarm.ok(CreateTasks {
        tasks: vec![super::super::NewTask {
            corr_id: "corr_T".into(),
            ..super::super::NewTask::plain("own", "own")
        }],
    });
    let before = swarm.head.outbox;
    let step = Step::Accept {
        task: "own".into(),
        eta_at: ETA,
        plan: None,
    };
    let said = swarm.ok(says("e1", "B", step));
    assert_eq!((said.seq, said.recipients.len()), (before + 1, 0));
    swarm.ok(says(
        "e2",
        "B",
        Step::Complete(Box::new(complete("B", "own"))),
    ));
    assert_eq!(
        told(&swarm, before),
        ["task_accept e1 of B", "task_complete e2 of B"]
    );
}

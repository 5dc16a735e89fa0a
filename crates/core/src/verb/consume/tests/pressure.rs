//! What a node does when it has too much to do, and what becomes of what it turns away.

use super::super::super::{Claim, Claimed, Filter};
use super::*;
use crate::capability::{
    Capability, CapabilityStatus, Index, Manifest, Provenance, Routing, SkillRef,
};
use crate::id::NodeId;
use crate::node::Node;
use crate::outbox::{Answer, Route};

fn commission(task: &str, to: &[&str], required: &[&str]) -> Commission {
    Commission {
        task: task.into(),
        title: "do it".to_owned(),
        description: None,
        to: to.iter().map(|id| AgentId::from(*id)).collect(),
        required: required.iter().map(|word| (*word).to_owned()).collect(),
        priority: Priority::Medium,
        requester: "A".into(),
        response_required: false,
        deadline_at: None,
        installs: None,
    }
}

/// The node b is given a task.
fn give(pair: &mut Pair, commission: Commission) -> Option<Answer> {
    let id = commission.task.to_string();
    let event = Dispatch {
        id: format!("evt_{id}").into(),
        to_node: Some("b".into()),
        ..Dispatch::own(
            &"a".into(),
            &id,
            "corr".into(),
            News::TaskCreate(Box::new(commission)),
            pair.b.now,
        )
    };
    let seq = cursor(&pair.b, "a").last_seq + 1;
    pair.b.ok(consume("a", &Outgoing { seq, event }));
    outbox(&pair.b).pop().and_then(|row| match row.event.news {
        News::Ack(answer) => Some(answer),
        _ => None,
    })
}

#[test]
fn past_forty_that_wait_for_each_agent_a_node_has_too_much() {
    for (to, required) in [(&["B"][..], &[][..]), (&[][..], &["rust"][..])] {
        let mut pair = Pair::new();
        let limit = limits::ROUTED_WAITING_MAX;
        for n in 0..=limit {
            let mut given = commission(&format!("T{n}"), to, required);
            // Whatever is how urgent waits for the same agents.
            given.priority = Priority::ALL[usize::try_from(n % 4).unwrap()];
            let answer = give(&mut pair, given).expect("it is answered");
            let expected = match n < limit {
                true => (AnswerKind::Accepted, None),
                false => (AnswerKind::Failed, Some("overloaded".to_owned())),
            };
            assert_eq!((answer.answer, answer.reason), expected, "{n} {to:?}");
        }
        if to.is_empty() {
            pair.b.join("B2", &["rust"]);
            let answer = give(&mut pair, commission("more", to, required));
            let answer = answer.expect("it is answered").answer;
            assert_eq!(answer, AnswerKind::Accepted, "there are two now");
        }
    }
}

#[test]
fn an_agent_holds_so_many_tasks_of_other_nodes_and_goes_on_with_its_own() {
    let mut pair = Pair::new();
    let limit = limits::ROUTED_HELD_MAX;
    for n in 0..=limit {
        give(&mut pair, commission(&format!("T{n}"), &["B"], &[]));
    }
    let claim = |task: Option<&str>| Claim {
        agent: "B".into(),
        filter: Filter::default(),
        task: task.map(TaskId::from),
    };
    for _ in 0..limit {
        let claimed = pair.b.ok(claim(None));
        assert!(matches!(claimed, Claimed::Task(_)));
    }
    let last = format!("T{limit}");
    assert!(matches!(pair.b.ok(claim(None)), Claimed::None(_)));
    assert_eq!(word(&pair.b.run(claim(Some(&last)))), "too_many");
    pair.b.add("own");
    let Claimed::Task(own) = pair.b.ok(claim(None)) else {
        panic!("its own node's task is not counted");
    };
    assert_eq!(own.id.as_str(), "own");
    pair.b.ok(complete("B", "T0"));
    let Claimed::Task(next) = pair.b.ok(claim(None)) else {
        panic!("one is done");
    };
    assert_eq!(next.id.as_str(), last);
}

/// A capability that the nodes b and c have, in this order.
fn capability(swarm: &mut Swarm) {
    let skill = || SkillRef {
        name: "s".to_owned(),
        version: "1.0.0".to_owned(),
        path: "/s".to_owned(),
    };
    let at = |node: &str| Route {
        node: node.into(),
        agents: vec!["B".into()],
    };
    let row: Record = Capability {
        manifest: Manifest {
            capability: "cap.x".into(),
            name: "x".to_owned(),
            version: "1.0.0".to_owned(),
            owner_agent: "B".into(),
            owner_node: "b".into(),
            delegation: skill(),
            executor: skill(),
            contract_ref: None,
            contract_schema: None,
            eta_seconds: 60,
            eligible: vec![at("b"), at("c")],
            fallback_nodes: Vec::new(),
            provenance: Provenance {
                checksum: String::new(),
                signature: None,
                key_id: None,
            },
            published_by: "A".into(),
        },
        status: CapabilityStatus::Active,
        published_at: swarm.now,
        rev: 1,
        index: Index {
            eligible: vec![at("b"), at("c")],
            ..Index::default()
        },
        routing: Routing {
            owner: "b".into(),
            fallback: Vec::new(),
            policy_version: String::new(),
            rev: 1,
            acting: "b".into(),
        },
    }
    .into();
    swarm.records.insert(row.key(), row);
}

/// The node says that it does not take the task.
fn refuses(swarm: &mut Swarm, source: &str, seq: u64, reason: &str) {
    let answer = News::Ack(Answer {
        to: "evt_T".into(),
        kind: "task_create".to_owned(),
        answer: AnswerKind::Failed,
        by: Vec::new(),
        at: swarm.now,
        eta_at: None,
        reason: Some(reason.to_owned()),
        accepts: None,
    });
    let event = Dispatch::own(&source.into(), "x", "corr_T".into(), answer, swarm.now);
    swarm.ok(consume(source, &Outgoing { seq, event }));
}

#[test]
fn what_a_node_has_too_much_for_goes_to_the_next_one_that_can_and_in_the_end_nowhere() {
    for (reason, moves) in [
        ("overloaded", true),
        ("capability_unavailable", true),
        ("task_exists", false),
        ("expired", false),
    ] {
        let mut pair = Pair::new();
        let a = &mut pair.a;
        let mut other: Option<Node> = None;
        for record in a.records.values() {
            if let Record::Node(node) = record {
                other = Some(Node {
                    node_id: NodeId::from("c"),
                    ..node.clone()
                });
            }
        }
        let row = Record::from(other.expect("b is joined"));
        a.records.insert(row.key(), row);
        capability(a);
        let mut given = task("T", &["B"]);
        if let Publication::Task(task) = &mut given.what {
            task.required = vec!["cap.x".to_owned()];
        }
        a.ok(given);
        // As if the capability had chosen the node.
        for record in a.records.values_mut() {
            if let Record::Order(order) = record
                && order.event.as_str() == "evt_T"
            {
                order.destinations[0].agents.clear();
            }
        }
        let seq = cursor(a, "b").last_seq + 1;
        refuses(a, "b", seq, reason);
        let after = order(a, "evt_T");
        let state = after.task.as_ref().expect("it is a task").state;
        if !moves {
            assert_eq!(
                (after.destinations.len(), state),
                (1, TaskOrderState::Failed)
            );
            continue;
        }
        let sent = outbox(a).pop().expect("it was sent on").event;
        assert_eq!((sent.id.as_str(), sent.attempt), ("evt_T", 2));
        assert_eq!(sent.to_node.as_ref().map(NodeId::as_str), Some("c"));
        assert_eq!((state, after.ended_at), (TaskOrderState::Emitted, None));
        refuses(a, "c", 1, reason);
        let ended = order(a, "evt_T");
        let task = ended.task.as_ref().expect("it is a task");
        assert_eq!(task.state, TaskOrderState::Failed);
        assert!(ended.ended_at.is_some(), "nobody is left");
    }
}

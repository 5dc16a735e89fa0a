//! Names and ids that two claim, and how many are kept.

use super::*;
use crate::cursor::{FarAgent, Neighbour};
use crate::outbox::Control;
use crate::record::Listed as _;

/// A node that knows two others.
fn third(swarm: &mut Swarm) {
    for node in ["m", "z"] {
        joined_as(swarm, "c", node);
    }
}

fn says(swarm: &mut Swarm, source: &str, seq: u64, id: &str, news: News) -> Outcome {
    let event = Dispatch {
        id: id.into(),
        ..Dispatch::own(&source.into(), id, "corr".into(), news, swarm.now)
    };
    swarm.ok(consume(source, &Outgoing { seq, event })).outcome
}

fn is_there(agent: &str, rev: u64) -> News {
    News::Signal {
        rev,
        record: Control::Agent {
            agent: agent.into(),
            is_live: true,
        },
    }
}

/// Agents elsewhere by what they are called here.
fn far(swarm: &Swarm) -> Vec<(String, String)> {
    let rows = swarm.records.values().filter_map(FarAgent::of);
    let mut rows: Vec<_> = rows
        .map(|row| (row.agent.to_string(), row.node.to_string()))
        .collect();
    rows.sort();
    rows
}

fn incidents(swarm: &Swarm) -> Vec<&str> {
    let rows = swarm
        .records
        .values()
        .filter_map(crate::incident::Incident::of);
    rows.map(|row| row.kind.as_str()).collect()
}

#[test]
fn of_two_nodes_the_one_that_sorts_first_has_the_name_whoever_came_first() {
    let named = [("x", "m"), ("x@z", "z")].map(|(a, n)| (a.to_owned(), n.to_owned()));
    for order in [["m", "z"], ["z", "m"]] {
        let mut swarm = Swarm::new();
        third(&mut swarm);
        for node in order {
            says(
                &mut swarm,
                node,
                1,
                &format!("evt_{node}"),
                is_there("x", 1),
            );
        }
        assert_eq!(far(&swarm), named, "{order:?}");
        assert_eq!(incidents(&swarm), ["agent_id_clash"]);
        for node in order {
            says(
                &mut swarm,
                node,
                2,
                &format!("evt_{node}_2"),
                is_there("x", 2),
            );
        }
        assert_eq!(far(&swarm), named, "what is known stays as it is");
    }
}

#[test]
fn so_many_agents_of_other_nodes_are_known() {
    let mut swarm = Swarm::new();
    third(&mut swarm);
    let row: Record = Neighbour {
        agents: u32::try_from(limits::FAR_AGENTS_MAX).unwrap() - 1,
        ..Neighbour::new("z".into(), swarm.now)
    }
    .into();
    swarm.records.insert(row.key(), row);
    says(&mut swarm, "m", 1, "e1", is_there("x", 1));
    assert_eq!((far(&swarm).len(), incidents(&swarm).len()), (1, 0));
    says(&mut swarm, "m", 2, "e2", is_there("y", 1));
    assert_eq!(far(&swarm).len(), 1);
    assert_eq!(incidents(&swarm), ["too_many_agents"]);
    says(&mut swarm, "m", 3, "e3", is_there("x", 2));
    assert_eq!(far(&swarm).len(), 1, "it is known");
}

#[test]
fn an_event_id_is_that_of_the_node_that_had_it_first() {
    let letter = |payload: &str| {
        News::Message(Letter {
            to: vec!["A".into()],
            routes: Vec::new(),
            payload: payload.into(),
            priority: Priority::Medium,
            expects_reply: false,
        })
    };
    let commission = News::TaskCreate(Box::new(Commission {
        task: "T".into(),
        title: "do it".to_owned(),
        description: None,
        to: vec!["A".into()],
        required: Vec::new(),
        priority: Priority::Medium,
        requester: "R".into(),
        response_required: false,
        deadline_at: None,
        installs: None,
    }));
    for news in [letter("{}"), commission] {
        let mut swarm = Swarm::new();
        third(&mut swarm);
        swarm.join("A", &[]);
        says(&mut swarm, "m", 1, "evt_same", news.clone());
        assert!(incidents(&swarm).is_empty());
        says(&mut swarm, "z", 1, "evt_same", news.clone());
        assert_eq!(incidents(&swarm), ["event_id_clash"], "{news:?}");
        let answers: Vec<_> = outbox(&swarm)
            .into_iter()
            .filter_map(|row| match row.event.news {
                News::Ack(answer) => Some((answer.answer, answer.reason)),
                _ => None,
            })
            .collect();
        assert_eq!(answers[0], (AnswerKind::Accepted, None));
        assert_eq!(answers[1].0, AnswerKind::Failed);
        assert!(swarm.messages.len() + swarm.tasks.len() == 1);
    }
}

#[test]
fn who_may_be_at_a_node_that_is_not_reached_is_told_so() {
    let mut swarm = Swarm::new();
    third(&mut swarm);
    for record in swarm.records.values_mut() {
        if let Record::Node(node) = record {
            node.vouched_by = Some("inviter".into());
        }
    }
    swarm.join("A", &[]);
    let sends = || publish("evt_1", "A", &["x"]);
    assert_eq!(word(&swarm.run(sends())), "unreachable");
    for node in ["m", "z"] {
        says(
            &mut swarm,
            node,
            1,
            &format!("evt_{node}"),
            is_there("y", 1),
        );
    }
    assert_eq!(word(&swarm.run(sends())), "invalid_targets", "all are read");
    assert_eq!(word(&swarm.run(task("T", &["x"]))), "invalid_targets");
}

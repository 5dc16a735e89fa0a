//! Capabilities over two nodes: what one publishes the other routes by, installs and reviews.

use super::super::super::release::tests::{begin, finish, manifest};
use super::super::super::testing::claim;
use super::super::super::{
    Deregister, EndDeadlines, EndPromises, Finding, FinishRelease, HearNode, NoteUnrouted,
    OpenReviews, PublishStep, ResolveReview, Review, Ruling, Step, TellCapabilities, Unpublish,
};
use super::*;
use crate::capability::{Capability, CapabilityStatus};
use crate::distribution::Distribution;
use crate::id::NodeId;
use crate::outbox::{Control, FailureClass, PolicyVersions};
use crate::record::Listed as _;
use crate::refusal::NoRoute;
use crate::skill_review::SkillReview;
use crate::task::TaskKind;
use crate::verb::Complete;

/// What a hub reads out of a completion.
pub(super) fn installed(news: &News) -> Option<(String, String)> {
    let News::TaskComplete { result, .. } = news else {
        return None;
    };
    let (_, said) = result.as_deref()?.split_once(r#""installed":{"name":""#)?;
    let (name, rest) = said.split_once(r#"","version":""#)?;
    let (version, _) = rest.split_once('"')?;
    Some((name.to_owned(), version.to_owned()))
}

/// The same pair; "a" has published the capability cap.x of A, which B stands in for.
fn published() -> Pair {
    let mut pair = Pair::new();
    release(&mut pair, "1.0.0");
    pair
}

fn release(pair: &mut Pair, version: &str) {
    let mut manifest = manifest(version);
    manifest.owner_node = "a".into();
    manifest.fallback_nodes = vec!["b".into()];
    let mut begin = begin(manifest);
    begin.eligible = vec!["B".into()];
    pair.a.ok(begin);
    let finish = FinishRelease {
        contract_schema: Some("{}".into()),
        ..finish(version)
    };
    assert!(pair.a.ok(finish).capability.is_some());
    pair.exchange();
}

fn capability(swarm: &Swarm) -> &Capability {
    let mut all = swarm.records.values().filter_map(Capability::of);
    all.find(|one| one.id().as_str() == "cap.x")
        .expect("it is known")
}

fn by_capability(id: &str, from: &str) -> Publish {
    let mut publish = task(id, &[]);
    publish.from = Sender::Agent(from.into());
    if let Publication::Task(task) = &mut publish.what {
        task.required = vec!["CAP.X".to_owned()];
        task.requester = from.into();
    }
    publish
}

fn hear(pair: &mut Pair) {
    pair.a.ok(HearNode { node: "b".into() });
    pair.b.ok(HearNode { node: "a".into() });
}

fn judged(agent: &str, task: &str, breach: Option<&str>) -> Complete {
    Complete {
        finding: Some(Finding {
            breach: breach.map(str::to_owned),
        }),
        ..complete(agent, task)
    }
}

fn reviews(swarm: &mut Swarm) -> Vec<(FailureClass, u64)> {
    swarm.ok(OpenReviews);
    let open = swarm.records.values().filter_map(SkillReview::of);
    open.map(|one| (one.class, one.count)).collect()
}

#[test]
fn what_one_node_publishes_all_of_them_route_by() {
    // runtime.index.activates_routing, runtime.route.by_capability, runtime.index.policy_version
    let mut pair = Pair::new();
    let refused = pair.b.run(by_capability("T0", "B"));
    assert_eq!(word(&refused), "capability_unavailable");
    let mut pair = published();
    let (here, there) = (capability(&pair.a), capability(&pair.b));
    assert_eq!(
        (&here.manifest, &here.index),
        (&there.manifest, &there.index)
    );
    assert!(
        pair.b.agent("B").skills.contains("cap.x"),
        "granted from afar"
    );
    let sent = pair.b.ok(by_capability("T1", "B"));
    assert_eq!(sent.node, Some(NodeId::from("a")));
    let policies = PolicyVersions {
        routing: here.routing.policy_version.clone(),
        capability: here.index.policy_version.clone(),
    };
    let told = outbox(&pair.b).pop().expect("it is told").event;
    assert_eq!(told.policies.as_deref(), Some(&policies));
    pair.exchange();
    let contract = pair.a.task("T1").contract.clone().expect("it is owed");
    assert_eq!(contract.eta_seconds, Some(900));
    assert_eq!(contract.schema.as_deref(), Some("{}"));
    // A new index is a new policy, which later events carry.
    release(&mut pair, "1.1.0");
    assert_ne!(
        capability(&pair.b).index.policy_version,
        policies.capability
    );
    pair.a.ok(Unpublish {
        capability: "cap.x".into(),
        by: "steward".to_owned(),
        disable: false,
    });
    pair.exchange();
    assert_eq!(capability(&pair.b).status, CapabilityStatus::Retired);
    assert!(!pair.b.agent("B").skills.contains("cap.x"));
    let refused = pair.b.run(by_capability("T2", "B"));
    assert_eq!(word(&refused), "capability_unavailable");
}

#[test]
fn others_stand_in_for_an_owner_that_is_not_heard_of() {
    // runtime.plane.owner_executes
    let mut pair = published();
    hear(&mut pair);
    pair.wait(limits::OWNER_LEASE_FOR - Duration::from_millis(1));
    let sent = pair.b.ok(by_capability("T1", "B"));
    assert_eq!(sent.node, Some(NodeId::from("a")));
    pair.wait(Duration::from_millis(1));
    let sent = pair.b.ok(by_capability("T2", "B"));
    assert_eq!(sent.node, None.or(Some(NodeId::from("b"))));
    assert!(
        pair.b.said().contains(&"capability_moved"),
        "{:?}",
        pair.b.said()
    );
    pair.b.ok(HearNode { node: "a".into() });
    let sent = pair.b.ok(by_capability("T3", "B"));
    assert_eq!(sent.node, Some(NodeId::from("a")), "it is its own again");
    assert!(pair.b.said().contains(&"capability_moved"));
}

#[test]
fn two_nodes_behind_routers_do_not_reach_each_other() {
    let mut pair = published();
    let known = pair.b.records.values().find_map(Node::of).cloned();
    let heard_of = Node {
        vouched_by: Some("c".into()),
        ..known.expect("it joined")
    };
    pair.b
        .records
        .insert(Record::from(heard_of.clone()).key(), heard_of.into());
    pair.b.ok(Deregister { agent: "B".into() });
    pair.b.join("C", &[]);
    let refused = pair.b.run(by_capability("T1", "C")).unwrap_err();
    assert_eq!(refused, Refusal::NoRoute(NoRoute::Unreachable));
}

#[test]
fn what_two_nodes_claim_is_that_of_the_one_whose_id_sorts_first() {
    let mut pair = Pair::new();
    for (node, agent) in [("a", "A"), ("b", "B")] {
        let swarm = match node {
            "a" => &mut pair.a,
            _ => &mut pair.b,
        };
        let mut manifest = manifest("1.0.0");
        (manifest.owner_node, manifest.owner_agent) = (node.into(), agent.into());
        swarm.ok(begin(manifest));
        swarm.ok(finish("1.0.0"));
    }
    pair.exchange();
    for swarm in [&pair.a, &pair.b] {
        assert_eq!(capability(swarm).manifest.owner_node, NodeId::from("a"));
        let incidents = swarm.records.values().filter_map(crate::Incident::of);
        let kinds: Vec<&str> = incidents.map(|one| &*one.kind).collect();
        assert_eq!(kinds, ["capability_id_clash"]);
    }
    assert!(!pair.b.agent("B").skills.contains("cap.x"));
}

#[test]
fn whoever_joins_later_is_told_all_and_who_knows_it_learns_nothing() {
    let mut pair = published();
    let before = capability(&pair.b).clone();
    assert_eq!(pair.a.ok(TellCapabilities), 3);
    pair.exchange();
    assert_eq!(capability(&pair.b), &before);
    pair.b.records.remove(&Capability::at("cap.x"));
    pair.a.ok(TellCapabilities);
    pair.exchange();
    assert_eq!(capability(&pair.b), &before);
    // Two join within one instant: the same records, as other events.
    for _ in 0..2 {
        pair.a.ok(TellCapabilities);
    }
    let told = outbox(&pair.a);
    let ids: std::collections::HashSet<_> = told.iter().map(|row| &row.event.id).collect();
    assert_eq!(ids.len(), told.len());
}

#[test]
fn nobody_tells_of_what_is_another_nodes() {
    let mut pair = published();
    let mut row = outbox(&pair.a).into_iter().find(|row| {
        matches!(
            &row.event.news,
            News::Signal {
                record: Control::Catalog { .. },
                ..
            }
        )
    });
    let mut row = row.take().expect("it is told");
    row.seq = cursor(&pair.b, "a").last_seq + 1;
    if let News::Signal {
        rev,
        record: Control::Catalog { manifest, .. },
    } = &mut row.event.news
    {
        *rev += 1000;
        manifest.owner_node = "b".into();
    }
    let before = capability(&pair.b).clone();
    pair.b.ok(consume("a", &row));
    assert_eq!(capability(&pair.b), &before);
}

#[test]
fn a_node_without_an_eligible_agent_refuses_the_task_for_good() {
    let mut pair = published();
    pair.b.ok(by_capability("T1", "B"));
    pair.a.ok(Unpublish {
        capability: "cap.x".into(),
        by: "steward".to_owned(),
        disable: true,
    });
    pair.exchange();
    let order = order(&pair.b, "evt_T1");
    assert_eq!(order.destinations[0].state, Delivered::Failed);
    assert_eq!(
        order.destinations[0].reason.as_deref(),
        Some("capability_unavailable")
    );
}

#[test]
fn a_result_counts_once_it_was_compared_with_its_contract() {
    // runtime.review.schema_failed
    let mut pair = published();
    pair.b.ok(by_capability("T1", "B"));
    pair.exchange();
    pair.a.hold("A", "T1");
    assert_eq!(word(&pair.a.run(complete("A", "T1"))), "unjudged");
    let done = pair
        .a
        .ok(judged("A", "T1", Some("contract_violation: no sum")));
    assert_eq!(done.status, TaskStatus::NeedsPerson);
    pair.exchange();
    let state = order(&pair.b, "evt_T1").task.expect("it is a task").state;
    assert_eq!(
        state,
        TaskOrderState::Accepted,
        "it is never told as complete"
    );
    let approve = Review {
        task: "T1".into(),
        ruling: Ruling::Approve,
        reason: String::new(),
    };
    assert_eq!(word(&pair.a.run(approve.clone())), "invalid");
    assert_eq!(reviews(&mut pair.a), [(FailureClass::ContractViolation, 1)]);
    pair.a.ok(Review {
        ruling: Ruling::Redo,
        ..approve
    });
    pair.a.hold("A", "T1");
    assert_eq!(
        pair.a.ok(judged("A", "T1", None)).status,
        TaskStatus::Completed
    );
    pair.exchange();
    let state = order(&pair.b, "evt_T1").task.expect("it is a task").state;
    assert_eq!(state, TaskOrderState::Done);
}

#[test]
fn one_review_is_open_for_each_way_to_fail() {
    // runtime.review.task_failed, runtime.review.identity, runtime.review.evidence
    let mut pair = published();
    for n in 0..limits::REVIEW_SAMPLES_MAX + 2 {
        let id = format!("T{n}");
        pair.wait(Duration::from_secs(1));
        pair.b.ok(by_capability(&id, "B"));
        pair.exchange();
        pair.a.hold("A", &id);
        let mut fail = fail("A", &id);
        fail.recoverable = false;
        pair.a.ok(fail);
        pair.exchange();
    }
    let many = limits::REVIEW_SAMPLES_MAX as u64 + 2;
    for swarm in [&mut pair.a, &mut pair.b] {
        assert_eq!(reviews(swarm), [(FailureClass::ExecutionError, many)]);
    }
    let open = pair.a.records.values().find_map(SkillReview::of).cloned();
    let open = open.expect("there is one");
    assert!(open.id.starts_with("rev_"), "{}", open.id);
    assert_eq!(
        (&*open.delegation_version, &*open.executor_version),
        ("1.0.0", "1.0.0")
    );
    assert_eq!(open.corr_ids.len(), limits::REVIEW_SAMPLES_MAX);
    assert_eq!(
        open.corr_ids.last().map(|id| id.as_str()),
        Some(&*format!("corr_T{}", many - 1))
    );
    let resolve = ResolveReview {
        review: open.id.clone(),
        by: "ann".to_owned(),
        note: "the skill names the file now".to_owned(),
    };
    let resolved = pair.a.ok(resolve.clone()).resolved.expect("it is");
    assert_eq!(resolved.by, "ann");
    assert_eq!(word(&pair.a.run(resolve)), "review_not_found");
    // What fails afterwards is another review.
    pair.b.ok(by_capability("again", "B"));
    pair.exchange();
    let mut fail = fail("A", "again");
    fail.recoverable = false;
    pair.a.hold("A", "again");
    pair.a.ok(fail);
    let mut found = reviews(&mut pair.a);
    found.sort_by_key(|(_, count)| *count);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], (FailureClass::ExecutionError, 1));
}

#[test]
fn a_task_that_is_late_is_reviewed_once_by_the_last_promise() {
    // runtime.review.eta_missed
    let mut pair = published();
    pair.b.ok(by_capability("T1", "B"));
    pair.exchange();
    let eta = Duration::from_secs(900);
    pair.wait(eta);
    pair.a.hold("A", "T1");
    pair.wait(limits::OUTCOME_GRACE);
    pair.a.ok(EndPromises);
    assert_eq!(reviews(&mut pair.a), [], "the claim promised anew");
    pair.wait(eta);
    pair.a.ok(EndPromises);
    assert_eq!(reviews(&mut pair.a), [(FailureClass::SlaBreach, 1)]);
    pair.wait(eta + eta);
    pair.a.ok(EndPromises);
    assert_eq!(reviews(&mut pair.a), [(FailureClass::SlaBreach, 1)]);
    // The node that waits for it finds out by itself.
    pair.b.ok(ChaseOrders);
    assert_eq!(reviews(&mut pair.b), [(FailureClass::SlaBreach, 1)]);
    let mut done = published();
    done.b.ok(by_capability("T1", "B"));
    done.exchange();
    done.a.hold("A", "T1");
    done.a.ok(judged("A", "T1", None));
    done.wait(eta + limits::OUTCOME_GRACE);
    assert_eq!(done.a.ok(EndPromises).done, 1);
    assert_eq!(reviews(&mut done.a), []);
}

#[test]
fn whoever_accepts_a_task_of_a_capability_may_promise_another_time() {
    let mut pair = published();
    pair.b.ok(by_capability("T1", "B"));
    pair.exchange();
    let soon = Duration::from_secs(60);
    pair.a.ok(PublishStep {
        event: "evt_accept".into(),
        agent: "A".into(),
        corr_id: pair.a.task("T1").corr_id.clone(),
        expires_in: None,
        step: Step::Accept {
            task: "T1".into(),
            eta_at: pair.a.now + soon,
            plan: None,
        },
        sum: 1,
    });
    let contract = pair.a.task("T1").contract.as_ref();
    let grace = contract.expect("it was routed").timings.grace();
    pair.wait(soon + grace - Duration::from_secs(1));
    pair.a.ok(EndPromises);
    assert_eq!(reviews(&mut pair.a), []);
    pair.wait(Duration::from_secs(1));
    pair.a.ok(EndPromises);
    assert_eq!(reviews(&mut pair.a), [(FailureClass::SlaBreach, 1)]);
}

#[test]
fn what_a_capability_routes_is_accepted_in_the_name_of_its_agents() {
    // runtime.ack.actor
    let mut pair = published();
    pair.b.ok(by_capability("T1", "B"));
    pair.exchange();
    let told = pair.a.records.values().filter_map(Outgoing::of);
    let by = told.filter_map(|told| match &told.event.news {
        News::Ack(answer) if answer.kind == "task_create" => Some(answer.by.clone()),
        _ => None,
    });
    assert_eq!(by.collect::<Vec<_>>(), [vec![AgentId::from("A")]]);
}

#[test]
fn three_tasks_that_go_nowhere_within_ten_minutes_are_reviewed() {
    // runtime.review.route_failing
    let mut pair = published();
    let note = |required: &str| NoteUnrouted {
        required: vec![required.to_owned(), "rust".to_owned()],
        corr_id: "corr".into(),
    };
    let step = limits::UNROUTED_WITHIN / 2;
    for (after, required, expected) in [
        (Duration::ZERO, "cap.unknown", 0),
        (Duration::ZERO, "cap.x", 0),
        (step, "CAP.X", 0),
        (step, "cap.x", 0),
        (step - Duration::from_secs(1), "cap.x", 1),
    ] {
        pair.wait(after);
        pair.b.ok(note(required));
        assert_eq!(reviews(&mut pair.b).len(), expected, "{required}");
    }
}

fn distribution(swarm: &Swarm) -> Option<&Distribution> {
    swarm.records.values().find_map(Distribution::of)
}

fn part(swarm: &Swarm, agent: &str) -> String {
    let mut all = swarm.tasks.values();
    let found = all.find(|task| task.about.audience == [AgentId::from(agent)]);
    found.expect("it is asked").id.to_string()
}

/// What the node that published it knows of the task that it gave another one.
fn given(pair: &Pair) -> Order {
    let orders = pair.a.records.values().filter_map(Order::of);
    let mut to_b = orders.filter(|order| {
        order.news == "task_create"
            && order
                .destinations
                .iter()
                .any(|one| one.node.as_str() == "b")
    });
    to_b.next().cloned().expect("it was given")
}

#[test]
fn a_skill_is_distributed_once_all_have_confirmed_it_or_let_it_lapse() {
    // runtime.skill.confirmed
    let mut pair = Pair::new();
    pair.b.join("B2", &[]);
    pair.b.ok(Announce {
        agents: vec!["B2".into()],
        again: false,
    });
    pair.exchange();
    let mut manifest = manifest("1.0.0");
    manifest.owner_node = "a".into();
    pair.a.ok(begin(manifest));
    pair.a.ok(finish("1.0.0"));
    pair.exchange();
    let lapses_at = pair.a.now + limits::SKILL_INSTALLED_WITHIN;
    let order = given(&pair);
    let task = order.task.expect("it is a task");
    assert_eq!(
        (task.state, task.eta_at),
        (TaskOrderState::Claimed, Some(lapses_at))
    );
    let known = distribution(&pair.b).expect("it goes on");
    assert_eq!(known.waiting, [AgentId::from("B"), AgentId::from("B2")]);
    // Nobody gets it by asking for anything.
    let nothing = pair.b.ok(claim("B"));
    assert!(
        matches!(nothing, crate::verb::Claimed::None(_)),
        "{nothing:?}"
    );
    let mut asked = claim("B");
    asked.filter.kinds = Some(vec![TaskKind::SkillDistribution]);
    let got = pair.b.ok(asked);
    assert!(matches!(got, crate::verb::Claimed::Task(_)), "{got:?}");
    let id = part(&pair.b, "B");
    assert_eq!(word(&pair.b.run(complete("B", &id))), "unjudged");
    pair.b.ok(judged("B", &id, None));
    pair.exchange();
    assert_eq!(given(&pair).task.unwrap().state, TaskOrderState::Claimed);
    // Another version is none, and the other one does not install it in time.
    let id = part(&pair.b, "B2");
    pair.b.hold("B2", &id);
    let done = pair
        .b
        .ok(judged("B2", &id, Some("contract_violation: 0.9.0")));
    assert_eq!(done.status, TaskStatus::NeedsPerson);
    pair.wait(limits::SKILL_INSTALLED_WITHIN);
    while pair.b.ok(EndDeadlines).more {}
    pair.exchange();
    let order = given(&pair);
    assert_eq!(order.task.unwrap().state, TaskOrderState::Done);
    assert!(order.ended_at.is_some());
    assert_eq!(distribution(&pair.b), None);
    let told = outbox(&pair.b)
        .into_iter()
        .find_map(|row| match row.event.news {
            News::TaskComplete { result, .. } => result,
            _ => None,
        });
    assert_eq!(
        told.as_deref(),
        Some(
            r#"{"summary":"installed by 1 of 2 agents","installed":{"name":"delegate-x","version":"1.0.0"}}"#
        )
    );
    // No part of it is a step that anybody else hears of.
    let incidents = pair.a.records.values().filter_map(crate::Incident::of);
    assert_eq!(incidents.count(), 0);
}

#[test]
fn a_node_that_does_not_say_what_it_installed_has_installed_nothing() {
    for (said, state) in [
        (Some(("delegate-x", "1.0.0")), TaskOrderState::Done),
        (Some(("delegate-x", "0.9.0")), TaskOrderState::Failed),
        (Some(("another", "1.0.0")), TaskOrderState::Failed),
        (None, TaskOrderState::Failed),
    ] {
        let mut pair = Pair::new();
        let mut manifest = manifest("1.0.0");
        manifest.owner_node = "a".into();
        pair.a.ok(begin(manifest));
        pair.a.ok(finish("1.0.0"));
        pair.exchange();
        let id = part(&pair.b, "B");
        pair.b.hold("B", &id);
        pair.b.ok(judged("B", &id, None));
        for row in outbox(&pair.b) {
            let is_complete = matches!(row.event.news, News::TaskComplete { .. });
            let named = said.map(|(name, version)| (name.to_owned(), version.to_owned()));
            pair.a.ok(Consume {
                installed: named.filter(|_| is_complete),
                ..consume("b", &row)
            });
        }
        assert_eq!(given(&pair).task.unwrap().state, state, "{said:?}");
    }
}

#[test]
fn what_nobody_installs_in_time_has_failed() {
    let mut pair = Pair::new();
    let mut manifest = manifest("1.0.0");
    manifest.owner_node = "a".into();
    pair.a.ok(begin(manifest));
    pair.a.ok(finish("1.0.0"));
    pair.exchange();
    pair.wait(limits::SKILL_INSTALLED_WITHIN);
    while pair.b.ok(EndDeadlines).more {}
    pair.exchange();
    assert_eq!(given(&pair).task.unwrap().state, TaskOrderState::Failed);
}

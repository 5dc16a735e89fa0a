//! A recipient confirms a message; confirming a handoff takes the task over.

use super::{Verb, awake, check_holder, speaker};
use crate::agent::Agent;
use crate::attempt::{Attempt, Outcome};
use crate::changes::Changes;
use crate::doors::Door;
use crate::event::Event;
use crate::id::{AgentId, EventId, MessageId, NodeId, TaskId};
use crate::lane::LaneKey;
use crate::lease::Lease;
use crate::limits;
use crate::message::{Afar, Delivery, DeliveryState, Message};
use crate::order::Order;
use crate::outbox::{Answer, AnswerKind, Dispatch, News};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledge {
    pub agent: AgentId,
    pub message: MessageId,
    pub via: Door,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    pub at: Timestamp,
    /// The task that changed hands, and its new epoch.
    pub took: Option<(TaskId, u64)>,
}

impl Verb for Acknowledge {
    type Reply = Acknowledged;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        want.delivery(&self.message, &self.agent);
        let Some(message) = want.message(&self.message) else {
            return;
        };
        if let Some((task, _)) = &message.handoff {
            want.agent(&message.from);
            let _ = want.leases_of_task(task);
            let _ = want.leases_of_agent(&message.from);
            if let Some(task) = want.task(task) {
                want.lane_of(task);
                want.lane_for(&LaneKey::of(task));
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Acknowledged, Changes), Refusal> {
        self.decide_by(confirm, slice, now)
    }
}

/// What becomes of the rows when a message counts as acknowledged by an agent.
type Confirm = fn(&mut Changes, &mut Agent, &Message, &Delivery, Door, Timestamp);

impl Acknowledge {
    pub(super) fn decide_by(
        &self,
        confirm: Confirm,
        slice: &Slice,
        now: Timestamp,
    ) -> Result<(Acknowledged, Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        let message = slice
            .message(&self.message)
            .ok_or_else(|| Refusal::MessageNotFound {
                message: self.message.clone(),
            })?;
        let delivery =
            slice
                .delivery(&self.message, &self.agent)
                .ok_or_else(|| Refusal::NotARecipient {
                    message: self.message.clone(),
                    agent: self.agent.clone(),
                })?;
        let mut changes = Changes::default();
        if let Some(at) = delivery.acknowledged_at {
            super::sign_of_life(known, &mut changes, now);
            return Ok((Acknowledged { at, took: None }, changes));
        }
        if let Some(reason) = &delivery.reason {
            let message = format!("the delivery of message {} failed: {reason}", self.message);
            let field = "id";
            return Err(Refusal::Invalid { field, message });
        }
        // A receipt may come late; an offer that ran out is no longer one.
        if message.handoff.is_some() && message.is_over(now) {
            let message = format!("the offer in message {} has expired", self.message);
            return Err(Refusal::Invalid {
                field: "id",
                message: message + "; ask its sender for another",
            });
        }
        let mut agent = awake(known, &mut changes, now);
        confirm(&mut changes, &mut agent, message, delivery, self.via, now);
        let took = match &message.handoff {
            Some((task, epoch)) => Some(take_over(
                slice,
                &mut changes,
                message,
                (task, *epoch),
                &mut agent,
                now,
            )?),
            None => None,
        };
        changes.put(agent);
        Ok((Acknowledged { at: now, took }, changes))
    }
}

/// The message counts as acknowledged by the agent, and the node that it came from hears of it.
pub(super) fn confirm(
    changes: &mut Changes,
    agent: &mut Agent,
    message: &Message,
    delivery: &Delivery,
    via: Door,
    now: Timestamp,
) {
    mark(changes, agent, message, delivery, via, now);
    if let Some(afar) = message.afar.as_ref().filter(|_| message.ack_required) {
        answer(changes, &agent.id, message, afar, now);
    }
}

/// The same, of which this node alone knows.
pub(super) fn mark(
    changes: &mut Changes,
    agent: &mut Agent,
    message: &Message,
    delivery: &Delivery,
    via: Door,
    now: Timestamp,
) {
    let mut delivery = delivery.clone();
    if delivery.state == DeliveryState::Queued {
        agent.inbox = agent.inbox.saturating_sub(1);
        delivery.delivered_at = Some(now);
        delivery.via.get_or_insert(via);
    }
    let owed = &mut agent.stream.unacknowledged;
    owed.retain(|id| *id != message.id);
    delivery.state = DeliveryState::Acknowledged;
    delivery.acknowledged_at = Some(now);
    changes.put(delivery);
    let mut confirmed = message.clone();
    if confirmed.to.one().is_some() {
        confirmed.delivered_at.get_or_insert(now);
    }
    confirmed
        .acknowledged
        .get_or_insert((agent.id.clone(), now));
    changes.put(confirmed);
    changes.event(Event::MessageAcknowledged {
        message: message.id.clone(),
        agent: agent.id.clone(),
        from: Some(message.from.clone()),
    });
}

/// The node that a message came from hears of its acknowledgement: as a reply without words, and the last answer.
fn answer(changes: &mut Changes, by: &AgentId, message: &Message, afar: &Afar, now: Timestamp) {
    let event = EventId::from(message.id.as_str());
    let reply = News::Reply {
        to: event.clone(),
        body: "\"\"".into(),
        status: None,
    };
    let salt = format!("{}|{by}", message.id);
    let mut told = Dispatch::own(&afar.here, &salt, message.corr_id.clone(), reply, now);
    changes.put(address(&mut told, by, message, afar));
    changes.dispatches.push(told);
    changes
        .dispatches
        .push(processed(&afar.here, by, message, now));
}

/// A reply goes to the sender's node, which is to say that it has it.
pub(super) fn address(told: &mut Dispatch, by: &AgentId, message: &Message, afar: &Afar) -> Order {
    let home = message.from.as_str();
    let home = home
        .strip_suffix(&format!("@{}", afar.node))
        .unwrap_or(home);
    let sender = AgentId::from(home);
    (told.from, told.to) = (by.clone(), Some(sender.clone()));
    told.to_node = Some(afar.node.clone());
    Order::to_one(told, afar.node.clone(), &sender, afar.timings)
}

/// The last answer to a message: nothing more will come from this agent.
pub(super) fn processed(
    here: &NodeId,
    by: &AgentId,
    message: &Message,
    now: Timestamp,
) -> Dispatch {
    let news = News::Ack(Answer {
        to: EventId::from(message.id.as_str()),
        kind: "message".to_owned(),
        answer: AnswerKind::Processed,
        by: vec![by.clone()],
        at: now,
        eta_at: None,
        reason: None,
        accepts: None,
    });
    let salt = format!("{}|{by}", message.id);
    Dispatch::own(here, &salt, message.corr_id.clone(), news, now)
}

/// Claim and leases move in one commit, under a new epoch and new fencing tokens.
fn take_over(
    slice: &Slice,
    changes: &mut Changes,
    message: &Message,
    (id, epoch): (&TaskId, u64),
    taker: &mut Agent,
    now: Timestamp,
) -> Result<(TaskId, u64), Refusal> {
    let task = slice
        .task(id)
        .ok_or_else(|| Refusal::TaskNotFound { task: id.clone() })?;
    check_holder(task, &message.from, Some(epoch)).map_err(|why| Refusal::TaskNotYours {
        task: id.clone(),
        why,
    })?;
    if task.about.barred.contains(&taker.id) {
        return Err(Refusal::Invalid {
            field: "agent.id",
            message: format!(
                "{} may not have task {id}; hand it to another agent",
                taker.id
            ),
        });
    }
    if taker.holds.len() >= limits::CLAIMS_PER_AGENT_MAX {
        return Err(Refusal::TooMany {
            what: "tasks held by one agent",
            limit: limits::CLAIMS_PER_AGENT_MAX,
        });
    }
    let mut giver = slice
        .agent(&message.from)
        .expect("whoever holds a task is known")
        .clone();
    if let Some(attempt) = Attempt::end(task, Outcome::HandedOver, now) {
        giver.worked_for(now.since(attempt.claimed_at));
        changes.put(attempt);
    }
    changes.events.extend(giver.let_go(id, now));
    changes.put(giver);
    let (after, event) = task.clone().hand_over(&taker.id, now);
    let took = (id.clone(), after.epoch);
    changes.task((after, event));
    taker.hold(id, now);
    move_leases(slice, changes, message, id, &taker.id);
    Ok(took)
}

/// The task's leases follow it, except where the giver still works under another lease of its own.
fn move_leases(
    slice: &Slice,
    changes: &mut Changes,
    message: &Message,
    task: &TaskId,
    taker: &AgentId,
) {
    let mut kept: Vec<&Lease> = Want::new(slice).leases_of_agent(&message.from).collect();
    kept.retain(|lease| message.from != *taker && lease.task.as_ref() != Some(task));
    let mut moved: Vec<&Lease> = Want::new(slice).leases_of_task(task).collect();
    // What stays may in turn hold others back.
    while let Some(lease) = kept.pop() {
        let (stay, go): (Vec<&Lease>, Vec<&Lease>) = moved
            .into_iter()
            .partition(|other| other.path.overlaps(&lease.path));
        moved = go;
        for stays in stay {
            changes.put(Lease {
                task: None,
                ..stays.clone()
            });
            kept.push(stays);
        }
    }
    let mut fencing = slice.head.fencing;
    for lease in moved {
        let mut lease = lease.clone();
        fencing += 1;
        lease.agent = taker.clone();
        lease.fencing = fencing;
        changes.event(Event::LeaseAcquired {
            path: lease.path.to_string(),
            agent: taker.clone(),
            task: lease.task.clone(),
            fencing: lease.fencing,
            until: lease.expires_at,
        });
        changes.put(lease);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Standing, Swarm, complete, send, word};
    use super::super::{Receive, ReleaseTask, Send};
    use super::*;
    use crate::message::Meaning;
    use crate::task::TaskStatus;

    fn acknowledge(agent: &str, message: &str) -> Acknowledge {
        Acknowledge {
            agent: agent.into(),
            message: message.into(),
            via: Door::Jetpack,
        }
    }

    fn offered(status: TaskStatus) -> Swarm {
        let mut swarm = Swarm::with_task(status);
        swarm.ok(Send {
            meaning: Meaning::Offer("T".into()),
            ..send("offer", "A", Some("B"))
        });
        swarm
    }

    #[test]
    fn who_may_confirm() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.join("C", &[]);
        swarm.ok(send("m", "A", Some("B")));
        let table = [
            ("B", "nothing", "message_not_found"),
            ("C", "m", "not_a_recipient"),
            ("nobody", "m", "agent_not_registered"),
            ("B", "m", "ok"),
        ];
        for (agent, message, expected) in table {
            let outcome = swarm.run(acknowledge(agent, message));
            assert_eq!(word(&outcome), expected, "{agent} {message}");
        }
    }

    #[test]
    fn a_message_is_confirmed_once_whether_fetched_or_not() {
        for fetched in [false, true] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.join("B", &[]);
            swarm.ok(send("m", "A", Some("B")));
            if fetched {
                swarm.ok(Receive {
                    agent: "B".into(),
                    kinds: vec![],
                    limit: 1,
                    via: Door::Jetpack,
                });
            }
            let at = swarm.now;
            swarm.ok(acknowledge("B", "m"));
            swarm.wait(Duration::from_secs(1));
            let again = swarm.ok(acknowledge("B", "m"));
            assert_eq!((again.at, again.took), (at, None));
            assert!(swarm.said().is_empty(), "the second time says nothing");
            let row = &swarm.deliveries[&("m".into(), "B".into())];
            assert_eq!(row.state, DeliveryState::Acknowledged);
            assert_eq!(
                (row.acknowledged_at, row.delivered_at),
                (Some(at), Some(at))
            );
            assert_eq!(
                (swarm.agent("B").inbox, swarm.head.queued_deliveries),
                (0, 0)
            );
            let message = &swarm.messages[&MessageId::from("m")];
            assert_eq!(message.acknowledged, Some(("B".into(), at)));
        }
    }

    #[test]
    fn confirming_a_handoff_moves_claim_and_leases_in_one_commit() {
        for status in [TaskStatus::Claimed, TaskStatus::InProgress] {
            let mut swarm = offered(status);
            swarm.lease("A", "src/a.rs", Some("T"));
            swarm.lease("A", "docs", None);
            let before = swarm.head.fencing;
            let took = swarm.ok(acknowledge("B", "offer")).took;
            assert_eq!(took, Some(("T".into(), 2)));
            let task = swarm.task("T");
            assert_eq!((task.status(), task.holder()), (status, Some(&"B".into())));
            assert!(swarm.agent("A").holds.is_empty());
            assert_eq!(swarm.agent("B").holds, vec![TaskId::from("T")]);
            assert_eq!(swarm.leased(), [("docs", "A"), ("src/a.rs", "B")]);
            let moved = swarm
                .leases
                .values()
                .find(|lease| lease.agent == "B".into());
            assert_eq!(moved.map(|lease| lease.fencing), Some(before + 1));
            assert_eq!(swarm.attempts[0].outcome, Outcome::HandedOver);
            let late = super::super::Complete {
                epoch: Some(1),
                ..complete("A", "T")
            };
            assert_eq!(word(&swarm.run(late)), "task_reassigned");
            swarm.ok(complete("B", "T"));
        }
    }

    #[test]
    fn a_lease_under_another_lease_of_the_giver_stays_with_the_giver() {
        let mut swarm = offered(TaskStatus::Claimed);
        swarm.lease("A", "src/b.rs", None);
        swarm.lease("A", "src", Some("T"));
        swarm.lease("A", "src/a.rs", Some("T"));
        swarm.lease("A", "docs", Some("T"));
        swarm.ok(acknowledge("B", "offer"));
        assert_eq!(
            swarm.leased(),
            [
                ("docs", "B"),
                ("src", "A"),
                ("src/a.rs", "A"),
                ("src/b.rs", "A")
            ]
        );
        swarm.ok(complete("B", "T"));
        assert_eq!(swarm.leased().len(), 3, "what stayed is the task's no more");
    }

    #[test]
    fn an_offer_that_ran_out_moves_nothing_but_a_late_receipt_counts() {
        for (meaning, expected) in [
            (Meaning::Offer("T".into()), "invalid"),
            (Meaning::Nothing, "ok"),
        ] {
            let mut swarm = Swarm::with_task(TaskStatus::Claimed);
            let expires_in = Some(Duration::from_secs(30));
            swarm.ok(Send {
                meaning,
                expires_in,
                ..send("offer", "A", Some("B"))
            });
            swarm.wait(Duration::from_secs(30));
            let outcome = swarm.run(acknowledge("B", "offer"));
            assert_eq!(word(&outcome), expected);
            assert_eq!(swarm.task("T").holder(), Some(&"A".into()));
        }
    }

    #[test]
    fn an_offer_is_void_once_the_claim_it_was_made_under_is_over() {
        let mut swarm = offered(TaskStatus::Claimed);
        swarm.ok(ReleaseTask {
            task: "T".into(),
            agent: Some("A".into()),
            epoch: None,
        });
        assert_eq!(word(&swarm.run(acknowledge("B", "offer"))), "not_holder");
        swarm.hold("A", "T");
        assert_eq!(word(&swarm.run(acknowledge("B", "offer"))), "stale_epoch");
        swarm.ok(complete("A", "T"));
        assert_eq!(
            word(&swarm.run(acknowledge("B", "offer"))),
            "task_reassigned"
        );
        assert_eq!(swarm.agent("B").inbox, 1, "a refusal confirms nothing");
    }

    #[test]
    fn a_handoff_does_not_pass_the_bound_of_tasks_in_one_hand() {
        let most = limits::CLAIMS_PER_AGENT_MAX;
        for (held, expected) in [(most - 1, "ok"), (most, "too_many")] {
            let mut swarm = offered(TaskStatus::Claimed);
            let taker = swarm
                .agents
                .get_mut(&AgentId::from("B"))
                .expect("B is there");
            taker.holds = (0..held).map(|at| format!("x{at}").into()).collect();
            assert_eq!(
                word(&swarm.run(acknowledge("B", "offer"))),
                expected,
                "{held}"
            );
        }
    }
}

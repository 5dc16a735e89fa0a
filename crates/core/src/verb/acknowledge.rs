//! A recipient confirms a message; confirming a handoff takes the task over.

use super::{Verb, awake, check_holder, speaker};
use crate::agent::Agent;
use crate::attempt::{Attempt, Outcome};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, MessageId, TaskId};
use crate::lane::LaneKey;
use crate::message::{DeliveryState, Message};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledge {
    pub agent: AgentId,
    pub message: MessageId,
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
            if let Some(task) = want.task(task) {
                want.lane_of(task);
                want.lane_for(&LaneKey::of(task));
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Acknowledged, Changes), Refusal> {
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
        let mut agent = awake(known, &mut changes, now);
        let mut delivery = delivery.clone();
        if delivery.state == DeliveryState::Queued {
            agent.inbox = agent.inbox.saturating_sub(1);
            delivery.delivered_at = Some(now);
        }
        delivery.state = DeliveryState::Acknowledged;
        delivery.acknowledged_at = Some(now);
        changes.deliveries.push(delivery);
        let mut confirmed = message.clone();
        if confirmed.to.is_some() {
            confirmed.delivered_at.get_or_insert(now);
        }
        confirmed
            .acknowledged
            .get_or_insert((self.agent.clone(), now));
        changes.messages.push(confirmed);
        changes.event(Event::MessageAcknowledged {
            message: self.message.clone(),
            agent: self.agent.clone(),
        });
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
        changes.agents.push(agent);
        Ok((Acknowledged { at: now, took }, changes))
    }
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
    let mut giver = slice
        .agent(&message.from)
        .expect("whoever holds a task is known")
        .clone();
    if let Some(attempt) = Attempt::end(task, Outcome::HandedOver, now) {
        giver.worked_for(now.since(attempt.claimed_at));
        changes.attempts.push(attempt);
    }
    giver.let_go(id, now);
    changes.agents.push(giver);
    let (after, event) = task.clone().hand_over(&taker.id, now);
    let took = (id.clone(), after.epoch);
    changes.task((after, event));
    taker.hold(id, now);
    for (offset, lease) in Want::new(slice).leases_of_task(id).enumerate() {
        let mut lease = lease.clone();
        lease.agent = taker.id.clone();
        lease.fencing = slice.head.fencing + 1 + offset as u64;
        changes.event(Event::LeaseAcquired {
            path: lease.path.to_string(),
            agent: taker.id.clone(),
            task: lease.task.clone(),
            fencing: lease.fencing,
            until: lease.expires_at,
        });
        changes.leases.push(lease);
    }
    Ok(took)
}

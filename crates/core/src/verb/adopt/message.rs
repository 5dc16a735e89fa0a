//! Messages that were written, read or confirmed by hand.

use super::{HandStep, Meant, Steps};
use crate::assertion::Asserted;
use crate::changes::Changes;
use crate::doors::Door;
use crate::event::Event;
use crate::id::{AgentId, MessageId};
use crate::limits;
use crate::message::{DeliveryState, Meaning, Message, Sender};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Priority;
use crate::time::Timestamp;
use crate::verb::send::take_from_inbox;
use crate::verb::{Acknowledge, Send, Verb, check_unreserved, sign_of_life};
use crate::want::Want;

pub(super) fn steps(
    steps: &mut Steps,
    was: Option<&Message>,
    is: Option<&Message>,
    reader: Option<&AgentId>,
    meaning: Meant<'_>,
) {
    let Some(is) = is else { return };
    let Some(was) = was else {
        steps.push(Box::new(Post {
            message: is.clone(),
            meant: meaning(is),
        }));
        return;
    };
    let Some(reader) = reader.or(was.to.one()) else {
        return;
    };
    if is.delivered_at.is_some() && was.delivered_at.is_none() {
        steps.push(Box::new(Deliver {
            message: was.id.clone(),
            agent: reader.clone(),
        }));
    }
    if is.acknowledged.is_some() && was.acknowledged.is_none() {
        steps.push(Box::new(Acknowledge {
            agent: reader.clone(),
            message: was.id.clone(),
            via: Door::BY_HAND,
        }));
    }
}

/// Sent in SQL, by an agent or by somebody who is none.
struct Post {
    message: Message,
    /// Or what is wrong with it.
    meant: Result<(Meaning, Vec<Asserted>), String>,
}

impl Post {
    /// As an agent's, until it turns out to be nobody's.
    fn send(&self, now: Timestamp) -> Result<Send, Refusal> {
        let is = &self.message;
        let (meaning, claims) = self.meant.clone().map_err(|message| Refusal::Invalid {
            field: "messages.payload",
            message,
        })?;
        Ok(Send {
            id: is.id.clone(),
            from: Sender::Agent(is.from.clone()),
            to: is.to.clone(),
            kind: is.kind.clone(),
            payload: is.payload.clone(),
            ack_required: is.ack_required,
            priority: Priority::Medium,
            expires_in: is
                .expires_at
                .map(|at| at.since(now).min(limits::MESSAGE_EXPIRES_MAX)),
            corr_id: crate::CorrId::new(is.id.as_str()),
            meaning,
            claims,
        })
    }
}

impl HandStep for Post {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Ok(send) = self.send(now) {
            Verb::asks(&send, want, now);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let id = self.message.from.clone();
        let send = self.send(now)?;
        let is_agent = slice.agent(&id).is_some_and(|agent| !agent.is_gone());
        let from = if is_agent {
            Sender::Agent(id)
        } else {
            // A person may be called as the hub calls one, but not nearly so.
            if id.is_reserved() && !id.is_no_agent() {
                check_unreserved(&id)?;
            }
            Sender::Person(id)
        };
        Verb::decide(&Send { from, ..send }, slice, now).map(|(_, changes)| changes)
    }
}

/// Read in SQL, and marked so.
struct Deliver {
    message: MessageId,
    agent: AgentId,
}

impl HandStep for Deliver {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        want.message(&self.message);
        want.delivery(&self.message, &self.agent);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let mut changes = Changes::default();
        let queued = slice
            .delivery(&self.message, &self.agent)
            .filter(|delivery| delivery.state == DeliveryState::Queued);
        let (Some(message), Some(delivery)) = (slice.message(&self.message), queued) else {
            return Ok(changes);
        };
        if let Some(agent) = slice.agent(&self.agent).filter(|agent| !agent.is_gone()) {
            sign_of_life(agent, &mut changes, now);
        }
        take_from_inbox(slice, &mut changes, &self.agent);
        let mut delivery = delivery.clone();
        delivery.hand_over(Door::BY_HAND, None, now);
        changes.put(delivery);
        if message.to.one().is_some() {
            let mut message = message.clone();
            message.delivered_at = Some(now);
            changes.put(message);
        }
        changes.event(Event::MessageDelivered {
            message: self.message.clone(),
            agent: self.agent.clone(),
        });
        Ok(changes)
    }
}

//! Messages on their way through a stream: taken up, written, and only then counted as handed over.
//!
//! Between the two nobody else hands them out: each names the stream that took it up, of which an agent may have any
//! number. Whoever took them up may be gone before the second step: then the hold lapses, or the stream that takes its
//! place takes them up again. The agent knows a message by its id.
//!
//! What must be acknowledged and was not when its stream ended is queued again, for whatever door comes next.

use std::time::Duration;

use super::receive::want_inbox;
use super::{Verb, reader};
use crate::agent::Agent;
use crate::changes::Changes;
use crate::doors::Door;
use crate::event::Event;
use crate::id::{AgentId, MessageId};
use crate::limits;
use crate::message::{Delivery, DeliveryState, Message, Received};
use crate::refusal::Refusal;
use crate::slice::{InboxAsk, InboxOrder, Slice};
use crate::time::Timestamp;
use crate::want::Want;

/// Takes up what waits for an agent, the most urgent first; also what a stream took up whose place this one has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    pub agent: AgentId,
    pub via: Door,
    pub stream: String,
    pub limit: usize,
    /// For this long nobody else hands them out.
    pub hold_for: Duration,
}

impl Verb for Hand {
    type Reply = Vec<Received>;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want_inbox(want, &self.inbox());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Vec<Received>, Changes), Refusal> {
        let known = reader(slice, &self.agent)?;
        let mut changes = Changes::default();
        if known.inbox == 0 || is_replaced(known, Some(self.via), &self.stream) {
            return Ok((Vec::new(), changes));
        }
        let mut taken = Vec::new();
        let mut bytes = 0;
        let mut unacknowledged = known.stream.unacknowledged.len();
        for id in Want::new(slice).inbox(&self.inbox()) {
            let (Some(message), Some(delivery)) =
                (slice.message(id), slice.delivery(id, &self.agent))
            else {
                continue;
            };
            // What has run out is the caretaker's, and what another stream has taken up is that one's.
            let floor = slice.head.floor;
            if message.is_over(now) || !self.may_take(known, delivery, floor, now) {
                continue;
            }
            if owes(message, known) {
                if unacknowledged >= limits::UNACKNOWLEDGED_MAX {
                    continue;
                }
                unacknowledged += 1;
            }
            bytes += message.payload.len();
            let redelivered = delivery.is_redelivered() || self.was_taken_by_another(delivery);
            taken.push(Received {
                message: message.clone().read_by(&self.agent),
                priority: delivery.priority,
                redelivered,
            });
            let mut delivery = delivery.clone();
            if redelivered {
                // Whoever gets it after this stream gives it back has to know, too.
                delivery.delivered_at.get_or_insert(now);
            }
            delivery.via = Some(self.via);
            delivery.stream = Some(self.stream.as_str().into());
            delivery.handing_until = Some(now + self.hold_for);
            changes.put(delivery);
            if bytes > limits::HAND_BYTES {
                break;
            }
        }
        Ok((taken, changes))
    }
}

impl Hand {
    fn inbox(&self) -> InboxAsk {
        InboxAsk {
            agent: self.agent.clone(),
            kinds: Vec::new(),
            limit: self.limit,
            order: InboxOrder::MostUrgent,
        }
    }

    /// What was taken up before the ledger was served anew is nobody's: that process is gone.
    fn may_take(
        &self,
        agent: &Agent,
        delivery: &Delivery,
        floor: Timestamp,
        now: Timestamp,
    ) -> bool {
        let is_held =
            |stream: &str| *stream != *self.stream && !is_replaced(agent, delivery.via, stream);
        let is_left = delivery
            .handing_until
            .is_some_and(|until| until < floor + self.hold_for);
        is_left || delivery.is_free(now) || !delivery.stream.as_deref().is_some_and(is_held)
    }

    /// It may have been written there, and nobody said so.
    fn was_taken_by_another(&self, delivery: &Delivery) -> bool {
        delivery.stream.is_some() && !delivery.is_of(&self.stream)
    }
}

/// A newer stream has taken its place: what is written to the older one may reach nobody.
fn is_replaced(agent: &Agent, via: Option<Door>, stream: &str) -> bool {
    let newest = agent.stream.name.as_deref();
    via.is_none_or(Door::has_one_stream) && newest.is_some_and(|name| name != stream)
}

/// Whether its acknowledgement is waited for. Who is no agent gives none.
fn owes(message: &Message, agent: &Agent) -> bool {
    message.ack_required && !agent.id.is_no_agent()
}

/// They were written to the agent's stream. Those that another door or stream has meanwhile are left alone, and so are all
/// if a newer stream has taken the place of this one: that one takes them up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    pub agent: AgentId,
    pub stream: String,
    pub messages: Vec<MessageId>,
}

impl Verb for Handed {
    /// How many this settled.
    type Reply = usize;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        for message in &self.messages {
            want.message(message);
            want.delivery(message, &self.agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(usize, Changes), Refusal> {
        let known = reader(slice, &self.agent)?;
        let mut changes = Changes::default();
        let mut agent = known.clone();
        for id in &self.messages {
            let (Some(message), Some(delivery)) =
                (slice.message(id), slice.delivery(id, &self.agent))
            else {
                continue;
            };
            let Some(via) = delivery.via.filter(|_| delivery.is_of(&self.stream)) else {
                continue;
            };
            if delivery.state != DeliveryState::Queued
                || is_replaced(known, Some(via), &self.stream)
            {
                continue;
            }
            let mut delivery = delivery.clone();
            let stream = delivery.stream.take();
            delivery.hand_over(via, stream, now);
            changes.put(delivery);
            if owes(message, known) {
                agent.stream.unacknowledged.push(id.clone());
                if via.has_one_stream() {
                    agent.stream.name = Some(self.stream.clone());
                }
            }
            changes.event(Event::MessageDelivered {
                message: id.clone(),
                agent: self.agent.clone(),
            });
            if message.to.one().is_some() {
                let mut message = message.clone();
                message.delivered_at = Some(now);
                changes.put(message);
            }
            agent.inbox = agent.inbox.saturating_sub(1);
        }
        let settled = changes.rows::<Delivery>().count();
        if settled == 0 {
            return Ok((0, changes));
        }
        changes.put(agent);
        Ok((settled, changes))
    }
}

/// They could not be written: whoever comes next may have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeBack {
    pub agent: AgentId,
    pub stream: String,
    pub messages: Vec<MessageId>,
}

impl Verb for TakeBack {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        for message in &self.messages {
            want.delivery(message, &self.agent);
        }
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut changes = Changes::default();
        for id in &self.messages {
            // What another stream has taken up meanwhile is that one's.
            if let Some(delivery) = slice.delivery(id, &self.agent)
                && delivery.state == DeliveryState::Queued
                && delivery.is_of(&self.stream)
            {
                let mut delivery = delivery.clone();
                delivery.wait_again();
                changes.put(delivery);
            }
        }
        Ok(((), changes))
    }
}

/// A stream ended: what it handed over and the agent did not acknowledge waits again. If a newer one has taken its place,
/// that one has seen to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndStream {
    pub agent: AgentId,
    pub stream: String,
}

impl Verb for EndStream {
    /// How many messages are queued again.
    type Reply = usize;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(agent) = want.agent(&self.agent) {
            want_unacknowledged(want, agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(usize, Changes), Refusal> {
        let mut changes = Changes::default();
        let Some(known) = slice.agent(&self.agent) else {
            return Ok((0, changes));
        };
        let is_newest = known.stream.name.as_ref() == Some(&self.stream);
        let mut agent = known.clone();
        // It keeps its name: one that was taken for ended and goes on ends again.
        let is_its = |row: &Delivery| {
            let is_unnamed = row.stream.is_none() && is_newest;
            is_unnamed || row.is_of(&self.stream) && !is_replaced(known, row.via, &self.stream)
        };
        queue_again(slice, &mut changes, &mut agent, is_its, now);
        let queued = changes.rows::<Delivery>().count();
        if agent.stream != known.stream {
            changes.put(agent);
        }
        Ok((queued, changes))
    }
}

/// What the end of an agent's stream must see.
pub(super) fn want_unacknowledged(want: &mut Want<'_>, agent: &Agent) {
    for message in &agent.stream.unacknowledged {
        want.message(message);
        want.delivery(message, &agent.id);
    }
}

/// Whether it was handed over by a stream of which an agent has one at most.
pub(super) fn is_of_one_stream(delivery: &Delivery) -> bool {
    delivery.via.is_none_or(Door::has_one_stream)
}

/// What streams handed over that are over, and the agent did not acknowledge, waits again.
pub(super) fn queue_again(
    slice: &Slice,
    changes: &mut Changes,
    agent: &mut Agent,
    is_over: impl Fn(&Delivery) -> bool,
    now: Timestamp,
) {
    for id in std::mem::take(&mut agent.stream.unacknowledged) {
        let (Some(message), Some(delivery)) = (slice.message(&id), slice.delivery(&id, &agent.id))
        else {
            continue;
        };
        if !is_over(delivery) {
            agent.stream.unacknowledged.push(id);
            continue;
        }
        if delivery.state != DeliveryState::Handed || message.is_over(now) {
            continue;
        }
        let mut delivery = delivery.clone();
        delivery.wait_again();
        changes.put(delivery);
        if message.to.one().is_some() {
            let mut message = message.clone();
            message.delivered_at = None;
            changes.put(message);
        }
        agent.inbox += 1;
        changes.event(Event::MessageQueuedAgain {
            message: id,
            agent: agent.id.clone(),
        });
    }
}

#[cfg(test)]
mod tests;

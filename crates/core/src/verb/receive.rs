//! RECEIVE_MESSAGES: each waiting message once, marked as handed over in the commit that answers.

use super::{Verb, awake, speaker};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::message::{DeliveryState, Message};
use crate::refusal::Refusal;
use crate::slice::{InboxAsk, Slice};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    pub agent: AgentId,
    /// Empty: all kinds.
    pub kinds: Vec<String>,
    pub limit: usize,
}

impl Verb for Receive {
    type Reply = Vec<Message>;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let Some(agent) = want.agent(&self.agent) else {
            return;
        };
        if agent.inbox == 0 {
            return;
        }
        for message in want.inbox(&self.inbox()) {
            want.message(message);
            want.delivery(message, &self.agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Vec<Message>, Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        if known.inbox == 0 {
            super::sign_of_life(known, &mut changes, now);
            return Ok((Vec::new(), changes));
        }
        let mut agent = awake(known, &mut changes, now);
        let mut received = Vec::new();
        for id in Want::new(slice).inbox(&self.inbox()) {
            let (Some(message), Some(delivery)) =
                (slice.message(id), slice.delivery(id, &self.agent))
            else {
                continue;
            };
            let mut delivery = delivery.clone();
            agent.inbox = agent.inbox.saturating_sub(1);
            if message.is_over(now) {
                delivery.state = DeliveryState::Expired;
                changes.deliveries.push(delivery);
                changes.event(Event::MessageExpired {
                    message: id.clone(),
                    agent: self.agent.clone(),
                });
                continue;
            }
            delivery.state = DeliveryState::Handed;
            delivery.delivered_at = Some(now);
            changes.deliveries.push(delivery);
            changes.event(Event::MessageDelivered {
                message: id.clone(),
                agent: self.agent.clone(),
            });
            let mut message = message.clone();
            if message.to.is_some() {
                message.delivered_at = Some(now);
                changes.messages.push(message.clone());
            }
            received.push(message);
        }
        changes.agents.push(agent);
        Ok((received, changes))
    }
}

impl Receive {
    fn inbox(&self) -> InboxAsk {
        InboxAsk {
            agent: self.agent.clone(),
            kinds: self.kinds.clone(),
            limit: self.limit,
        }
    }
}

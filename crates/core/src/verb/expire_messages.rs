//! Caretaker: messages that nobody fetched in time are no longer handed out.

use super::{Step, Verb};
use crate::changes::Changes;
use crate::event::Event;
use crate::limits;
use crate::message::DeliveryState;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireMessages;

impl Verb for ExpireMessages {
    type Reply = Step;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for (message, agent) in want.due_deliveries(now, limits::CARETAKER_STEP) {
            want.delivery(message, agent);
            want.agent(agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Step, Changes), Refusal> {
        let mut changes = Changes::default();
        for (message, agent) in Want::new(slice).due_deliveries(now, limits::CARETAKER_STEP) {
            let Some(delivery) = slice.delivery(message, agent) else {
                continue;
            };
            if delivery.state != DeliveryState::Queued
                || delivery.expires_at.is_none_or(|at| at > now)
            {
                continue;
            }
            let mut delivery = delivery.clone();
            delivery.state = DeliveryState::Expired;
            changes.deliveries.push(delivery);
            changes.event(Event::MessageExpired {
                message: message.clone(),
                agent: agent.clone(),
            });
            super::send::take_from_inbox(slice, &mut changes, agent);
        }
        let done = changes.deliveries.len();
        Ok((
            Step {
                done,
                more: done == limits::CARETAKER_STEP,
            },
            changes,
        ))
    }
}

//! Caretaker: messages that nobody fetched in time are no longer handed out.

use super::{Sweep, Verb};
use crate::changes::Changes;
use crate::event::Event;
use crate::limits;
use crate::message::{Delivery, DeliveryState};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireMessages;

impl Verb for ExpireMessages {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for (message, agent) in want.due_deliveries(now, limits::CARETAKER_STEP) {
            want.delivery(message, agent);
            want.agent(agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
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
            changes.put(delivery);
            changes.event(Event::MessageExpired {
                message: message.clone(),
                agent: agent.clone(),
            });
            super::send::take_from_inbox(slice, &mut changes, agent);
        }
        let done = changes.rows::<Delivery>().count();
        Ok((
            Sweep {
                done,
                more: done == limits::CARETAKER_STEP,
            },
            changes,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Standing, Swarm, send};
    use super::super::{Receive, Send};
    use super::*;
    use crate::doors::Door;

    fn with_mail(count: usize) -> Swarm {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        for at in 0..count {
            swarm.ok(Send {
                expires_in: Some(Duration::from_secs(1)),
                ..send(&format!("m{at}"), "B", Some("A"))
            });
        }
        swarm
    }

    #[test]
    fn what_nobody_fetched_in_time_expires_once() {
        // jetpack.send.expires_in, jetpack.coordinator.cleanup
        for (after, done) in [(999, 0), (1000, 1), (1001, 1)] {
            let mut swarm = with_mail(1);
            swarm.wait(Duration::from_millis(after));
            assert_eq!(
                swarm.ok(ExpireMessages),
                Sweep { done, more: false },
                "{after}"
            );
            assert_eq!(swarm.agent("A").inbox as usize, 1 - done);
            assert_eq!(swarm.ok(ExpireMessages).done, 0);
        }
    }

    #[test]
    fn what_was_fetched_or_never_expires_stays() {
        let mut swarm = with_mail(1);
        swarm.ok(Receive {
            agent: "A".into(),
            kinds: vec![],
            limit: 1,
            via: Door::Jetpack,
        });
        swarm.ok(send("forever", "B", Some("A")));
        swarm.wait(Duration::from_secs(1000));
        assert_eq!(swarm.ok(ExpireMessages).done, 0);
    }

    #[test]
    fn one_step_is_bounded() {
        let step = limits::CARETAKER_STEP;
        for (waiting, done, more) in [
            (step - 1, step - 1, false),
            (step, step, true),
            (step + 1, step, true),
        ] {
            let mut swarm = with_mail(waiting);
            swarm.wait(Duration::from_secs(10));
            assert_eq!(swarm.ok(ExpireMessages), Sweep { done, more }, "{waiting}");
        }
    }
}

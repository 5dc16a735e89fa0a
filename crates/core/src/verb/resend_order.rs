//! What was given up is sent once more, because a person wants it to.

use super::Verb;
use crate::changes::Changes;
use crate::id::EventId;
use crate::limits;
use crate::order::{Delivered, Order, TaskOrderState};
use crate::refusal::Refusal;
use crate::route::is_joined;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResendOrder {
    pub event: EventId,
}

impl Verb for ResendOrder {
    type Reply = Order;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(order) = want.private::<Order>(self.event.to_string()) {
            for one in &order.destinations {
                is_joined(want, &one.node);
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Order, Changes), Refusal> {
        let mut want = Want::new(slice);
        let known = want.private::<Order>(self.event.to_string());
        let Some(mut order) = known.filter(|order| order.is_dead()).cloned() else {
            return Err(Refusal::DeadLetterNotFound {
                event: self.event.clone(),
            });
        };
        let Some(mut sent) = order.sent.take() else {
            return Err(
                self.refused("it was accepted before it was given up; publish it under another id")
            );
        };
        let dead = order.destinations.iter_mut();
        let mut dead = dead.filter(|one| one.state == Delivered::Dead);
        if dead.any(|one| !is_joined(&mut want, &one.node)) {
            return Err(self.refused("its node has left; publish it under another id"));
        }
        for one in &mut order.destinations {
            if one.state == Delivered::Dead {
                (one.state, one.reason) = (Delivered::Emitted, None);
            }
        }
        if let Some(task) = &mut order.task {
            (task.state, task.note) = (TaskOrderState::Emitted, None);
        }
        order.attempt += 1;
        sent.attempt = order.attempt;
        // It counts as long as if it were new.
        let lasts_for = sent.expires_at.since(sent.created_at);
        (sent.created_at, order.created_at) = (now, now);
        sent.expires_at = now + lasts_for.min(limits::DISPATCH_VALID_MAX);
        order.expires_at = sent.expires_at;
        order.ended_at = None;
        order.look_at = Some(now + order.timings.answered_within());
        order.seq = slice.head.outbox + 1;
        let mut changes = Changes::default();
        changes.dispatches.push((*sent).clone());
        order.sent = Some(sent);
        changes.put(order.clone());
        Ok((order, changes))
    }
}

impl ResendOrder {
    fn refused(&self, why: &str) -> Refusal {
        Refusal::Invalid {
            field: "id",
            message: format!("event {} cannot be sent again: {why}", self.event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, joined, publish, word};
    use super::super::{ChaseOrders, ForgetNode, LeaveNode};
    use super::*;
    use crate::cursor::FarAgent;
    use crate::outbox::Outgoing;
    use crate::record::{Listed as _, Record};

    fn sent() -> Swarm {
        let mut swarm = Swarm::new();
        joined(&mut swarm, "far");
        swarm.join("A", &[]);
        let row: Record = FarAgent {
            agent: "f".into(),
            home_id: "f".into(),
            node: "far".into(),
            rev: 1,
            is_live: true,
        }
        .into();
        swarm.records.insert(row.key(), row);
        swarm.ok(publish("e", "A", &["f"]));
        swarm
    }

    fn resend() -> ResendOrder {
        ResendOrder { event: "e".into() }
    }

    #[test]
    fn what_was_given_up_is_sent_once_more_and_counts_anew() {
        let mut swarm = sent();
        assert_eq!(
            word(&swarm.run(resend())),
            "dead_letter_not_found",
            "it is waited for"
        );
        swarm.wait(limits::DISPATCH_VALID_FOR);
        swarm.ok(ChaseOrders);
        let again = swarm.ok(resend());
        assert_eq!(again.destinations[0].state, Delivered::Emitted);
        assert_eq!((again.attempt, again.ended_at), (2, None));
        assert_eq!(again.expires_at, swarm.now + limits::DISPATCH_VALID_FOR);
        let rows = swarm.records.values().filter_map(Outgoing::of);
        let last = rows.max_by_key(|row| row.seq).expect("it was sent");
        assert_eq!((last.event.id.as_str(), last.event.attempt), ("e", 2));
        assert_eq!(last.seq, again.seq);
        assert_eq!(
            word(&swarm.run(resend())),
            "dead_letter_not_found",
            "it is on its way"
        );
    }

    #[test]
    fn what_nobody_can_take_any_more_is_not_sent_again() {
        let mut swarm = sent();
        swarm.ok(LeaveNode {
            node: "far".into(),
            by: "ann".to_owned(),
        });
        while swarm.ok(ForgetNode).more {}
        assert_eq!(word(&swarm.run(resend())), "invalid");
        let other = ResendOrder { event: "x".into() };
        assert_eq!(word(&swarm.run(other)), "dead_letter_not_found");
    }
}

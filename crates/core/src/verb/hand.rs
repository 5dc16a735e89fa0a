//! Messages on their way through a stream: taken up, written, and only then counted as handed over.
//!
//! Between the two nobody else hands them out. Whoever took them up may be gone before the second step: then the
//! hold lapses, or the agent's next stream takes them up again. The agent knows a message by its id.

use std::time::Duration;

use super::receive::want_inbox;
use super::{Verb, speaker};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, MessageId};
use crate::limits;
use crate::message::{DeliveryState, Message};
use crate::refusal::Refusal;
use crate::slice::{InboxAsk, Slice};
use crate::time::Timestamp;
use crate::want::Want;

/// Takes up what waits for an agent; also what an earlier stream of it has taken up, which is gone by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    pub agent: AgentId,
    pub limit: usize,
    /// For this long nobody else hands them out.
    pub hold_for: Duration,
}

impl Verb for Hand {
    type Reply = Vec<Message>;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want_inbox(want, &self.inbox());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Vec<Message>, Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        if known.inbox == 0 {
            return Ok((Vec::new(), changes));
        }
        let mut taken = Vec::new();
        let mut bytes = 0;
        for id in Want::new(slice).inbox(&self.inbox()) {
            let (Some(message), Some(delivery)) =
                (slice.message(id), slice.delivery(id, &self.agent))
            else {
                continue;
            };
            // What has run out is the caretaker's.
            if message.is_over(now) {
                continue;
            }
            bytes += message.payload.len();
            let mut delivery = delivery.clone();
            delivery.handing_until = Some(now + self.hold_for);
            changes.deliveries.push(delivery);
            taken.push(message.clone());
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
        }
    }
}

/// They were written to the agent's stream. Those that another door handed over meanwhile are left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    pub agent: AgentId,
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
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        let mut agent = known.clone();
        for id in &self.messages {
            let (Some(message), Some(delivery)) =
                (slice.message(id), slice.delivery(id, &self.agent))
            else {
                continue;
            };
            if delivery.state != DeliveryState::Queued {
                continue;
            }
            let mut delivery = delivery.clone();
            delivery.state = DeliveryState::Handed;
            delivery.delivered_at = Some(now);
            delivery.handing_until = None;
            changes.deliveries.push(delivery);
            changes.event(Event::MessageDelivered {
                message: id.clone(),
                agent: self.agent.clone(),
            });
            if message.to.is_some() {
                let mut message = message.clone();
                message.delivered_at = Some(now);
                changes.messages.push(message);
            }
            agent.inbox = agent.inbox.saturating_sub(1);
        }
        let settled = changes.deliveries.len();
        if settled == 0 {
            return Ok((0, changes));
        }
        changes.agents.push(agent);
        Ok((settled, changes))
    }
}

/// They could not be written: whoever comes next may have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeBack {
    pub agent: AgentId,
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
            if let Some(delivery) = slice.delivery(id, &self.agent)
                && delivery.state == DeliveryState::Queued
                && delivery.handing_until.is_some()
            {
                let mut delivery = delivery.clone();
                delivery.handing_until = None;
                changes.deliveries.push(delivery);
            }
        }
        Ok(((), changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, send};
    use super::super::{Acknowledge, Receive};
    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

    fn hand() -> Hand {
        Hand {
            agent: "A".into(),
            limit: 10,
            hold_for: HOLD,
        }
    }

    fn receive() -> Receive {
        Receive {
            agent: "A".into(),
            kinds: Vec::new(),
            limit: 10,
        }
    }

    fn with_mail() -> Swarm {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        for id in ["m1", "m2"] {
            swarm.ok(send(id, "B", Some("A")));
        }
        swarm
    }

    fn ids(messages: &[Message]) -> Vec<&str> {
        messages.iter().map(|message| message.id.as_str()).collect()
    }

    fn handed(messages: &[&str]) -> Handed {
        Handed {
            agent: "A".into(),
            messages: messages.iter().map(|id| MessageId::from(*id)).collect(),
        }
    }

    #[test]
    fn what_a_stream_took_up_no_other_door_hands_out() {
        let mut swarm = with_mail();
        assert_eq!(ids(&swarm.ok(hand())), ["m1", "m2"]);
        assert!(swarm.ok(receive()).is_empty());
        assert_eq!(swarm.agent("A").inbox, 2, "they are not handed over yet");
        assert_eq!(swarm.ok(handed(&["m1", "m2"])), 2);
        assert_eq!(swarm.said(), ["message_delivered", "message_delivered"]);
        assert_eq!(swarm.agent("A").inbox, 0);
        assert_eq!(swarm.ok(handed(&["m1"])), 0, "once");
    }

    #[test]
    fn what_nobody_wrote_is_handed_out_by_the_next_door() {
        let mut swarm = with_mail();
        swarm.ok(hand());
        assert_eq!(ids(&swarm.ok(hand())), ["m1", "m2"], "a new stream");
        swarm.wait(HOLD);
        assert_eq!(ids(&swarm.ok(receive())), ["m1", "m2"], "the hold lapsed");
        assert_eq!(swarm.ok(handed(&["m1", "m2"])), 0, "another door was first");
        let mut swarm = with_mail();
        swarm.ok(hand());
        swarm.ok(TakeBack {
            agent: "A".into(),
            messages: vec!["m1".into()],
        });
        assert_eq!(ids(&swarm.ok(receive())), ["m1"]);
    }

    #[test]
    fn what_is_taken_up_at_once_is_bounded() {
        let half = limits::HAND_BYTES / 2;
        for (bytes, taken) in [(half - 1, 3), (half, 3), (half + 1, 2)] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.join("B", &[]);
            for id in ["m1", "m2", "m3"] {
                let mut large = send(id, "B", Some("A"));
                large.payload = "x".repeat(bytes).into();
                swarm.ok(large);
            }
            assert_eq!(swarm.ok(hand()).len(), taken, "{bytes}");
        }
    }

    #[test]
    fn an_acknowledgement_settles_it_before_the_hub_does() {
        let mut swarm = with_mail();
        swarm.ok(hand());
        swarm.ok(Acknowledge {
            agent: "A".into(),
            message: "m1".into(),
        });
        assert_eq!(swarm.ok(handed(&["m1", "m2"])), 1);
        assert_eq!(swarm.agent("A").inbox, 0);
    }
}

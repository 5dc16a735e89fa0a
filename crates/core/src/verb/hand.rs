//! Messages on their way through a stream: taken up, written, and only then counted as handed over.
//!
//! Between the two nobody else hands them out. Whoever took them up may be gone before the second step: then the
//! hold lapses, or the agent's next stream takes them up again. The agent knows a message by its id.
//!
//! What must be acknowledged and was not when its stream ended is queued again, for whatever door comes next.

use std::time::Duration;

use super::receive::want_inbox;
use super::{Verb, speaker};
use crate::agent::Agent;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, MessageId};
use crate::limits;
use crate::message::{Delivery, DeliveryState, Received};
use crate::refusal::Refusal;
use crate::slice::{InboxAsk, Slice};
use crate::time::Timestamp;
use crate::want::Want;

/// Takes up what waits for an agent; also what an earlier stream of it has taken up, which is gone by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    pub agent: AgentId,
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
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        if known.inbox == 0 || is_replaced(known, &self.stream) {
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
            // What has run out is the caretaker's.
            if message.is_over(now) {
                continue;
            }
            if message.ack_required {
                if unacknowledged >= limits::UNACKNOWLEDGED_MAX {
                    continue;
                }
                unacknowledged += 1;
            }
            bytes += message.payload.len();
            let redelivered = delivery.is_redelivered();
            let mut delivery = delivery.clone();
            delivery.handing_until = Some(now + self.hold_for);
            changes.put(delivery);
            taken.push(Received {
                message: message.clone(),
                redelivered,
            });
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

/// A newer stream has the agent: what is written to the older one may reach nobody.
fn is_replaced(agent: &Agent, stream: &str) -> bool {
    agent
        .stream
        .name
        .as_ref()
        .is_some_and(|name| name != stream)
}

/// They were written to the agent's stream. Those that another door handed over meanwhile are left alone, and so are all
/// if a newer stream has the agent: that one takes them up.
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
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        if is_replaced(known, &self.stream) {
            return Ok((0, changes));
        }
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
            changes.put(delivery);
            if message.ack_required {
                agent.stream.unacknowledged.push(id.clone());
                agent.stream.name = Some(self.stream.clone());
            }
            changes.event(Event::MessageDelivered {
                message: id.clone(),
                agent: self.agent.clone(),
            });
            if message.to.is_some() {
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
        want.agent(&self.agent);
        for message in &self.messages {
            want.delivery(message, &self.agent);
        }
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut changes = Changes::default();
        // A newer stream has taken them up itself.
        let known = slice.agent(&self.agent);
        if known.is_some_and(|known| is_replaced(known, &self.stream)) {
            return Ok(((), changes));
        }
        for id in &self.messages {
            if let Some(delivery) = slice.delivery(id, &self.agent)
                && delivery.state == DeliveryState::Queued
                && delivery.handing_until.is_some()
            {
                let mut delivery = delivery.clone();
                delivery.handing_until = None;
                changes.put(delivery);
            }
        }
        Ok(((), changes))
    }
}

/// A stream ended. If a newer one has its agent, that one has seen to it.
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
        let known = slice.agent(&self.agent);
        let Some(known) = known.filter(|known| known.stream.name.as_ref() == Some(&self.stream))
        else {
            return Ok((0, changes));
        };
        if known.stream.unacknowledged.is_empty() {
            return Ok((0, changes));
        }
        let mut agent = known.clone();
        // It keeps its name: one that was taken for ended and goes on ends again.
        queue_again(slice, &mut changes, &mut agent, now);
        changes.put(agent);
        Ok((changes.rows::<Delivery>().count(), changes))
    }
}

/// What the end of an agent's stream must see.
pub(super) fn want_unacknowledged(want: &mut Want<'_>, agent: &Agent) {
    for message in &agent.stream.unacknowledged {
        want.message(message);
        want.delivery(message, &agent.id);
    }
}

/// What its stream handed over and the agent did not acknowledge waits again.
pub(super) fn queue_again(slice: &Slice, changes: &mut Changes, agent: &mut Agent, now: Timestamp) {
    for id in std::mem::take(&mut agent.stream.unacknowledged) {
        let (Some(message), Some(delivery)) = (slice.message(&id), slice.delivery(&id, &agent.id))
        else {
            continue;
        };
        if delivery.state != DeliveryState::Handed || message.is_over(now) {
            continue;
        }
        let mut delivery = delivery.clone();
        delivery.state = DeliveryState::Queued;
        changes.put(delivery);
        if message.to.is_some() {
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
mod tests {
    use super::super::testing::{Standing, Swarm, join_bus, send};
    use super::super::{Acknowledge, CloseDoor, Join, MarkSilent, Receive, Send};
    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

    fn hand() -> Hand {
        hand_of("s1")
    }

    fn hand_of(stream: &str) -> Hand {
        Hand {
            agent: "A".into(),
            stream: stream.to_owned(),
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

    fn take_back(stream: &str) -> TakeBack {
        TakeBack {
            agent: "A".into(),
            stream: stream.to_owned(),
            messages: vec!["m1".into()],
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

    fn ids(messages: &[Received]) -> Vec<&str> {
        let ids = messages.iter().map(|received| received.message.id.as_str());
        ids.collect()
    }

    fn handed(messages: &[&str]) -> Handed {
        Handed {
            agent: "A".into(),
            stream: "s1".to_owned(),
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
        swarm.ok(take_back("s1"));
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

    fn join(stream: &str) -> Join {
        Join {
            stream: Some(stream.to_owned()),
            ..join_bus("A")
        }
    }

    fn end(stream: &str) -> EndStream {
        EndStream {
            agent: "A".into(),
            stream: stream.to_owned(),
        }
    }

    /// A's stream has handed over a message that must be acknowledged, and one that must not.
    fn handed_over() -> Swarm {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.ok(join("s1"));
        for (id, ack_required) in [("m1", true), ("m2", false)] {
            swarm.ok(Send {
                ack_required,
                ..send(id, "B", Some("A"))
            });
        }
        swarm.ok(hand());
        assert_eq!(swarm.ok(handed(&["m1", "m2"])), 2);
        swarm
    }

    #[test]
    fn what_was_not_acknowledged_when_its_stream_ended_waits_for_whatever_door_comes_next() {
        type Ends = fn(&mut Swarm);
        let ends: [(&str, Ends); 4] = [
            ("a disconnect", |swarm| assert_eq!(swarm.ok(end("s1")), 1)),
            ("the next hello", |swarm| drop(swarm.ok(join("s2")))),
            ("silence", |swarm| {
                swarm.wait(limits::SILENT_AFTER * 2);
                swarm.ok(MarkSilent);
            }),
            ("leaving", |swarm| {
                let (agent, door) = ("A".into(), crate::Door::Bus);
                swarm.ok(CloseDoor { agent, door });
            }),
        ];
        for (how, ends) in ends {
            let mut swarm = handed_over();
            ends(&mut swarm);
            assert_eq!(swarm.agent("A").inbox, 1, "{how}");
            assert_eq!(swarm.head.queued_deliveries, 1, "{how}");
            assert_eq!(swarm.messages[&MessageId::from("m1")].delivered_at, None);
            let got = swarm.ok(receive());
            assert_eq!(ids(&got), ["m1"], "{how}");
            assert!(got[0].redelivered, "{how}");
            // A pull is an answer: what it returned stays delivered.
            swarm.ok(join("s3"));
            swarm.ok(end("s3"));
            assert!(swarm.ok(receive()).is_empty(), "{how}");
        }
        let mut swarm = handed_over();
        swarm.ok(end("s1"));
        let again = swarm.ok(hand());
        assert_eq!((ids(&again), again[0].redelivered), (vec!["m1"], true));
    }

    #[test]
    fn what_an_older_stream_wrote_counts_for_nothing_once_a_newer_one_has_the_agent() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.ok(join("s1"));
        swarm.ok(send("m1", "B", Some("A")));
        assert_eq!(ids(&swarm.ok(hand())), ["m1"]);
        swarm.ok(join("s2"));
        assert_eq!(swarm.ok(handed(&["m1"])), 0);
        assert!(swarm.ok(hand()).is_empty(), "the older one");
        assert_eq!(ids(&swarm.ok(hand_of("s2"))), ["m1"]);
        swarm.ok(take_back("s1"));
        assert!(
            swarm.ok(receive()).is_empty(),
            "it is the newer one's to take back"
        );
        let mut settled = handed(&["m1"]);
        settled.stream = "s2".to_owned();
        assert_eq!(swarm.ok(settled), 1);
    }

    #[test]
    fn an_acknowledged_message_and_another_streams_end_queue_nothing() {
        let mut swarm = handed_over();
        swarm.ok(Acknowledge {
            agent: "A".into(),
            message: "m1".into(),
        });
        assert_eq!(swarm.ok(end("s1")), 0);
        let mut swarm = handed_over();
        assert_eq!(swarm.ok(end("s0")), 0, "an older one");
        assert_eq!(swarm.agent("A").stream.unacknowledged, ["m1".into()]);
        assert_eq!(swarm.ok(end("s1")), 1);
        assert_eq!(swarm.ok(end("s1")), 0, "once");
    }

    #[test]
    fn what_a_stream_leaves_unacknowledged_is_bounded() {
        let most = limits::UNACKNOWLEDGED_MAX;
        for (before, taken) in [(most - 1, 2), (most, 1), (most + 1, 1)] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.join("B", &[]);
            swarm.ok(join("s1"));
            for (id, ack_required) in [("m1", true), ("m2", false)] {
                swarm.ok(Send {
                    ack_required,
                    ..send(id, "B", Some("A"))
                });
            }
            let agent = swarm
                .agents
                .get_mut(&AgentId::from("A"))
                .expect("A is there");
            agent.stream.unacknowledged = (0..before).map(|at| format!("x{at}").into()).collect();
            assert_eq!(swarm.ok(hand()).len(), taken, "{before}");
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

//! A door says that messages will not reach their recipient, and why: nobody waits for them any longer.

use super::Verb;
use super::send::take_from_inbox;
use crate::agent::Agent;
use crate::changes::Changes;
use crate::doors::Door;
use crate::event::Event;
use crate::id::{AgentId, MessageId};
use crate::limits;
use crate::message::{Delivery, DeliveryState};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

/// Of what nobody has taken up, and of what this stream took up or handed over. All else is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailDelivery {
    pub agent: AgentId,
    pub via: Door,
    pub stream: Option<String>,
    pub messages: Vec<MessageId>,
    /// For people and programs; the end of a long one is left out.
    pub reason: String,
}

impl Verb for FailDelivery {
    /// How many failed.
    type Reply = usize;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        for message in &self.messages {
            want.delivery(message, &self.agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(usize, Changes), Refusal> {
        let mut changes = Changes::default();
        let reason = limits::cut(&self.reason, limits::NOTE_BYTES_MAX);
        let mut failed: Vec<&MessageId> = Vec::new();
        for id in &self.messages {
            let found = slice.delivery(id, &self.agent);
            let Some(delivery) = found.filter(|row| self.may_fail(row, now)) else {
                continue;
            };
            if failed.contains(&id) {
                continue;
            }
            failed.push(id);
            if delivery.state == DeliveryState::Queued {
                take_from_inbox(slice, &mut changes, &self.agent);
            }
            let mut delivery = delivery.clone();
            delivery.state = DeliveryState::Failed;
            delivery.via = Some(self.via);
            delivery.handing_until = None;
            delivery.reason = Some(reason.into());
            changes.put(delivery);
            changes.event(Event::MessageFailed {
                message: id.clone(),
                agent: self.agent.clone(),
                why: reason.to_owned(),
            });
        }
        self.forget(slice, &mut changes, &failed);
        Ok((failed.len(), changes))
    }
}

impl FailDelivery {
    fn may_fail(&self, delivery: &Delivery, now: Timestamp) -> bool {
        let stream = self.stream.as_deref();
        let is_its = stream.is_some_and(|stream| delivery.is_of(stream));
        match delivery.state {
            DeliveryState::Queued => is_its || delivery.is_free(now),
            DeliveryState::Handed => is_its,
            DeliveryState::Acknowledged | DeliveryState::Expired | DeliveryState::Failed => false,
        }
    }

    /// Their acknowledgements are waited for no longer.
    fn forget(&self, slice: &Slice, changes: &mut Changes, failed: &[&MessageId]) {
        let Some(known) = slice.agent(&self.agent) else {
            return;
        };
        let is_failed = |id: &MessageId| failed.contains(&id);
        if !known.stream.unacknowledged.iter().any(is_failed) {
            return;
        }
        let forget = |row: &mut Agent| row.stream.unacknowledged.retain(|id| !is_failed(id));
        match changes.row_mut::<Agent>(&self.agent) {
            Some(row) => forget(row),
            None => {
                let mut row = known.clone();
                forget(&mut row);
                changes.put(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Standing, Swarm, send, word};
    use super::super::{Acknowledge, Hand, Handed, Receive, Send};
    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

    fn fail(stream: Option<&str>) -> FailDelivery {
        FailDelivery {
            agent: "A".into(),
            via: Door::Bus,
            stream: stream.map(str::to_owned),
            messages: vec!["m".into(), "m".into(), "nothing".into()],
            reason: "agent_not_running".to_owned(),
        }
    }

    fn with_mail(expires_in: Option<Duration>) -> Swarm {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.ok(Send {
            ack_required: true,
            expires_in,
            ..send("m", "B", Some("A"))
        });
        swarm
    }

    fn take_up(swarm: &mut Swarm) {
        let taken = swarm.ok(Hand {
            agent: "A".into(),
            via: Door::Bus,
            stream: "s1".to_owned(),
            limit: 10,
            hold_for: HOLD,
        });
        assert_eq!(taken.len(), 1);
    }

    fn write(swarm: &mut Swarm) {
        take_up(swarm);
        let written = swarm.ok(Handed {
            agent: "A".into(),
            stream: "s1".to_owned(),
            messages: vec!["m".into()],
        });
        assert_eq!(written, 1);
    }

    fn receive() -> Receive {
        Receive {
            agent: "A".into(),
            kinds: Vec::new(),
            limit: 10,
            via: Door::Jetpack,
        }
    }

    fn acknowledge() -> Acknowledge {
        Acknowledge {
            agent: "A".into(),
            message: "m".into(),
            via: Door::Jetpack,
        }
    }

    #[test]
    fn what_may_fail_by_state_and_by_who_says_so() {
        type Before = fn(&mut Swarm);
        // What was done before; whether it fails if s1 says so, another stream, no stream.
        let table: [(&str, Before, [usize; 3]); 7] = [
            ("waits", |_| {}, [1, 1, 1]),
            ("is taken up", take_up, [1, 0, 0]),
            (
                "was taken up long ago",
                |swarm| {
                    take_up(swarm);
                    swarm.wait(HOLD);
                },
                [1, 1, 1],
            ),
            ("is handed over", write, [1, 0, 0]),
            ("is received", |swarm| drop(swarm.ok(receive())), [0, 0, 0]),
            (
                "is acknowledged",
                |swarm| {
                    write(swarm);
                    swarm.ok(acknowledge());
                },
                [0, 0, 0],
            ),
            (
                "failed",
                |swarm| assert_eq!(swarm.ok(fail(Some("s1"))), 1),
                [0, 0, 0],
            ),
        ];
        for (what, before, expected) in table {
            for (stream, expected) in [Some("s1"), Some("s2"), None].into_iter().zip(expected) {
                let mut swarm = with_mail(None);
                before(&mut swarm);
                let was = swarm.deliveries.clone();
                assert_eq!(swarm.ok(fail(stream)), expected, "{what} {stream:?}");
                let row = &swarm.deliveries[&("m".into(), "A".into())];
                if expected == 0 {
                    assert_eq!(swarm.deliveries, was, "{what} {stream:?}");
                    assert!(swarm.said().is_empty(), "{what} {stream:?}");
                    continue;
                }
                assert_eq!(swarm.said(), ["message_failed"], "{what} {stream:?}");
                assert_eq!(row.state, DeliveryState::Failed);
                assert_eq!(row.reason.as_deref(), Some("agent_not_running"));
                assert_eq!((row.via, row.handing_until), (Some(Door::Bus), None));
                let agent = swarm.agent("A");
                assert_eq!((agent.inbox, swarm.head.queued_deliveries), (0, 0));
                assert!(agent.stream.unacknowledged.is_empty());
                assert!(swarm.ok(receive()).is_empty(), "it is final");
                assert_eq!(word(&swarm.run(acknowledge())), "invalid");
            }
        }
    }

    #[test]
    fn what_ran_out_does_not_fail_and_a_gone_agents_messages_do() {
        let mut swarm = with_mail(Some(Duration::from_secs(1)));
        swarm.wait(Duration::from_secs(1));
        swarm.ok(super::super::ExpireMessages);
        assert_eq!(swarm.ok(fail(None)), 0);
        let mut swarm = with_mail(None);
        swarm.ok(super::super::Deregister { agent: "A".into() });
        assert_eq!(swarm.ok(fail(None)), 1);
    }

    #[test]
    fn a_reason_is_bounded() {
        let most = limits::NOTE_BYTES_MAX;
        for (bytes, kept) in [(most - 1, most - 1), (most, most), (most + 1, most)] {
            let mut swarm = with_mail(None);
            swarm.ok(FailDelivery {
                reason: "x".repeat(bytes),
                ..fail(None)
            });
            let row = &swarm.deliveries[&("m".into(), "A".into())];
            assert_eq!(row.reason.as_deref().map(str::len), Some(kept), "{bytes}");
        }
    }
}

//! RECEIVE_MESSAGES: each waiting message once, marked as handed over in the commit that answers.

use super::{Verb, awake, speaker};
use crate::changes::Changes;
use crate::doors::Door;
use crate::event::Event;
use crate::id::AgentId;
use crate::limits;
use crate::message::{DeliveryState, Received};
use crate::refusal::Refusal;
use crate::slice::{InboxAsk, InboxOrder, Slice};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    pub agent: AgentId,
    /// Empty: all kinds.
    pub kinds: Vec<String>,
    pub limit: usize,
    pub via: Door,
}

impl Verb for Receive {
    type Reply = Vec<Received>;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want_inbox(want, &self.inbox());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Vec<Received>, Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        if known.inbox == 0 {
            super::sign_of_life(known, &mut changes, now);
            return Ok((Vec::new(), changes));
        }
        let mut agent = awake(known, &mut changes, now);
        let mut received = Vec::new();
        let mut bytes = 0;
        for id in Want::new(slice).inbox(&self.inbox()) {
            let (Some(message), Some(delivery)) =
                (slice.message(id), slice.delivery(id, &self.agent))
            else {
                continue;
            };
            if !delivery.is_free(now) {
                continue;
            }
            bytes += message.payload.len();
            let mut delivery = delivery.clone();
            agent.inbox = agent.inbox.saturating_sub(1);
            if message.is_over(now) {
                delivery.state = DeliveryState::Expired;
                changes.put(delivery);
                changes.event(Event::MessageExpired {
                    message: id.clone(),
                    agent: self.agent.clone(),
                });
                continue;
            }
            let redelivered = delivery.is_redelivered();
            let priority = delivery.priority;
            delivery.hand_over(self.via, None, now);
            changes.put(delivery);
            changes.event(Event::MessageDelivered {
                message: id.clone(),
                agent: self.agent.clone(),
            });
            let mut message = message.clone();
            if message.to.one().is_some() {
                message.delivered_at = Some(now);
                changes.put(message.clone());
            }
            received.push(Received {
                message: message.read_by(&self.agent),
                priority,
                redelivered,
            });
            if bytes > limits::RECEIVE_BYTES {
                break;
            }
        }
        changes.put(agent);
        Ok((received, changes))
    }
}

/// What waits for an agent, with what is known of each; nothing is looked for where nothing waits.
pub(super) fn want_inbox(want: &mut Want<'_>, ask: &InboxAsk) {
    if want.agent(&ask.agent).is_none_or(|agent| agent.inbox == 0) {
        return;
    }
    for message in want.inbox(ask) {
        want.message(message);
        want.delivery(message, &ask.agent);
    }
}

impl Receive {
    fn inbox(&self) -> InboxAsk {
        InboxAsk {
            agent: self.agent.clone(),
            kinds: self.kinds.clone(),
            limit: self.limit,
            order: InboxOrder::Oldest,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Send;
    use super::super::testing::{Standing, Swarm, send, word};
    use super::*;
    use crate::id::MessageId;

    fn receive(agent: &str, limit: usize) -> Receive {
        Receive {
            agent: agent.into(),
            kinds: Vec::new(),
            limit,
            via: Door::Jetpack,
        }
    }

    fn got(swarm: &mut Swarm, receive: Receive) -> Vec<String> {
        let messages = swarm.ok(receive);
        messages
            .into_iter()
            .map(|received| received.message.id.to_string())
            .collect()
    }

    fn with_mail(ids: &[&str]) -> Swarm {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        for id in ids {
            swarm.ok(send(id, "B", Some("A")));
        }
        swarm
    }

    #[test]
    fn who_may_receive_by_standing() {
        for standing in Standing::ALL {
            let outcome = Swarm::with_agent(standing).run(receive("A", 10));
            let expected = match standing {
                Standing::Unknown | Standing::Gone => "agent_not_registered",
                Standing::Live | Standing::Stopping | Standing::Silent => "ok",
            };
            assert_eq!(word(&outcome), expected, "{standing:?}");
        }
    }

    #[test]
    fn each_message_comes_once_oldest_first_within_the_limit() {
        // jetpack.receive.order, jetpack.receive.limit, jetpack.receive.addressed
        let mut swarm = with_mail(&["c", "a", "b"]);
        assert_eq!(got(&mut swarm, receive("A", 2)), ["c", "a"]);
        assert_eq!(swarm.agent("A").inbox, 1);
        assert_eq!(got(&mut swarm, receive("A", 2)), ["b"]);
        assert!(got(&mut swarm, receive("A", 2)).is_empty());
        assert!(got(&mut swarm, receive("B", 2)).is_empty(), "not for B");
    }

    #[test]
    fn delivery_is_marked_while_the_acknowledgement_stays_open() {
        // jetpack.receive.delivered_not_acked
        let mut swarm = with_mail(&["m"]);
        swarm.ok(send("all", "B", None));
        swarm.ok(receive("A", 10));
        for id in ["m", "all"] {
            let row = &swarm.deliveries[&(id.into(), "A".into())];
            assert_eq!(
                (row.state, row.delivered_at),
                (DeliveryState::Handed, Some(swarm.now))
            );
            assert_eq!(row.acknowledged_at, None);
        }
        let delivered = |id: &str| swarm.messages[&MessageId::from(id)].delivered_at;
        assert_eq!(delivered("m"), Some(swarm.now));
        assert_eq!(delivered("all"), None, "a broadcast has no single reader");
        assert_eq!(swarm.said(), ["message_delivered", "message_delivered"]);
    }

    #[test]
    fn kinds_leave_the_others_waiting() {
        // jetpack.receive.filters
        let mut swarm = with_mail(&["plain"]);
        swarm.ok(Send {
            kind: "info.discovery".to_owned(),
            ..send("found", "B", Some("A"))
        });
        let only = Receive {
            kinds: vec!["info.discovery".to_owned()],
            ..receive("A", 10)
        };
        assert_eq!(got(&mut swarm, only), ["found"]);
        assert_eq!(got(&mut swarm, receive("A", 10)), ["plain"]);
    }

    #[test]
    fn a_message_is_not_handed_out_once_it_is_over() {
        // jetpack.send.expires_in
        for (after, handed) in [(999, true), (1000, false), (1001, false)] {
            let mut swarm = with_mail(&[]);
            swarm.ok(Send {
                expires_in: Some(Duration::from_millis(1000)),
                ..send("m", "B", Some("A"))
            });
            swarm.wait(Duration::from_millis(after));
            assert_eq!(
                !got(&mut swarm, receive("A", 10)).is_empty(),
                handed,
                "{after}"
            );
            assert_eq!(
                (swarm.agent("A").inbox, swarm.head.queued_deliveries),
                (0, 0)
            );
        }
    }
}

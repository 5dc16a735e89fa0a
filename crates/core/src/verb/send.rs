//! SEND_MESSAGE: to one agent, or to everyone who is registered now.

use std::time::Duration;

use super::{Verb, check_holder, sign_of_life, speaker};
use crate::agent::Agent;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, CorrId, HUB, MessageId, TaskId};
use crate::limits;
use crate::message::{Delivery, DeliveryState, Meaning, Message, Sender};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Send {
    pub id: MessageId,
    pub from: Sender,
    pub to: Option<AgentId>,
    pub kind: String,
    pub payload: Box<str>,
    pub ack_required: bool,
    pub expires_in: Option<Duration>,
    pub corr_id: CorrId,
    pub meaning: Meaning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub message: MessageId,
    pub created_at: Timestamp,
    pub recipients: u32,
}

enum Recipients {
    One(AgentId),
    Everyone(Vec<AgentId>),
    /// Nobody holds the file: the sender is told so at once.
    LockIsFree,
}

impl Verb for Send {
    type Reply = Sent;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Sender::Agent(id) = &self.from {
            want.agent(id);
        }
        want.message(&self.id);
        if let Meaning::Offer(task) = &self.meaning {
            want.task(task);
        }
        match self.recipients(want, now) {
            Recipients::One(to) => {
                want.agent(&to);
            }
            Recipients::Everyone(list) => {
                for id in &list {
                    want.agent(id);
                }
            }
            Recipients::LockIsFree => {}
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sent, Changes), Refusal> {
        let sender = match &self.from {
            Sender::Agent(id) => Some(speaker(slice, id)?),
            Sender::Person(_) => None,
        };
        if slice.message(&self.id).is_some() {
            return Err(Refusal::MessageAlreadyExists {
                message: self.id.clone(),
            });
        }
        let handoff = self.offered(slice)?;
        let mut changes = Changes::default();
        if let Some(sender) = sender {
            sign_of_life(sender, &mut changes, now);
        }
        let mut message = self.message(slice, handoff, now);
        let mut recipients: Vec<&Agent> = Vec::new();
        match self.recipients(&mut Want::new(slice), now) {
            Recipients::One(to) => {
                let to = slice
                    .agent(&to)
                    .ok_or(Refusal::RecipientNotFound { agent: to })?;
                if to.inbox >= limits::INBOX_MAX {
                    return Err(Refusal::TooMany {
                        what: "messages waiting for this agent",
                        limit: limits::INBOX_MAX as usize,
                    });
                }
                message.to = Some(to.id.clone());
                recipients.push(to);
            }
            Recipients::Everyone(list) => {
                let others = list.iter().filter(|id| *id != self.from.id());
                let rows = others.filter_map(|id| slice.agent(id));
                recipients.extend(rows.filter(|agent| agent.inbox < limits::INBOX_MAX));
            }
            Recipients::LockIsFree => {
                let sender = sender.ok_or_else(|| Refusal::Invalid {
                    field: "message.payload.file_path",
                    message: "nobody holds a lease on this file".to_owned(),
                })?;
                message.from = HUB.into();
                message.to = Some(sender.id.clone());
                message.kind = "file.lock_granted".to_owned();
                recipients.push(sender);
            }
        }
        let created_at = message.created_at;
        changes.event(Event::MessageSent {
            message: self.id.clone(),
            from: message.from.clone(),
            to: message.to.clone(),
            kind: message.kind.clone(),
            recipients: u32::try_from(recipients.len()).unwrap_or(u32::MAX),
        });
        let count = recipients.len();
        for agent in recipients {
            deliver(&message, agent, &mut changes);
        }
        changes.put(message);
        let recipients = u32::try_from(count).unwrap_or(u32::MAX);
        Ok((
            Sent {
                message: self.id.clone(),
                created_at,
                recipients,
            },
            changes,
        ))
    }
}

impl Send {
    fn recipients(&self, want: &mut Want<'_>, now: Timestamp) -> Recipients {
        if let Some(to) = &self.to {
            return Recipients::One(to.clone());
        }
        if let Meaning::Wants(path) = &self.meaning {
            let mut near = want.leases_near(path);
            let held = near.find(|lease| !lease.is_over(now) && lease.path.overlaps(path));
            return held.map_or(Recipients::LockIsFree, |lease| {
                Recipients::One(lease.agent.clone())
            });
        }
        Recipients::Everyone(want.present_agents().unwrap_or_default().to_vec())
    }

    /// Only what one holds can be offered, and only to somebody.
    fn offered(&self, slice: &Slice) -> Result<Option<(TaskId, u64)>, Refusal> {
        let Meaning::Offer(id) = &self.meaning else {
            return Ok(None);
        };
        let Sender::Agent(from) = &self.from else {
            let message = "a person cannot hand off a task; release it instead".to_owned();
            return Err(Refusal::Invalid {
                field: "message.type",
                message,
            });
        };
        if self.to.is_none() {
            let message =
                "a task.handoff requires 'to': the agent that should take the task".to_owned();
            return Err(Refusal::Invalid {
                field: "message.to",
                message,
            });
        }
        let task = slice
            .task(id)
            .ok_or_else(|| Refusal::TaskNotFound { task: id.clone() })?;
        check_holder(task, from, None).map_err(|why| Refusal::TaskNotYours {
            task: id.clone(),
            why,
        })?;
        Ok(Some((id.clone(), task.epoch)))
    }

    fn message(&self, slice: &Slice, handoff: Option<(TaskId, u64)>, now: Timestamp) -> Message {
        // Receivers page by time, so no two messages share an instant.
        let after_last = slice.head.last_message_at + Duration::from_millis(1);
        Message {
            id: self.id.clone(),
            number: slice.head.message_number + 1,
            from: self.from.id().clone(),
            to: None,
            kind: self.kind.clone(),
            payload: self.payload.clone(),
            ack_required: self.ack_required,
            corr_id: self.corr_id.clone(),
            handoff,
            created_at: now.max(after_last),
            expires_at: self.expires_in.map(|span| now + span),
            acknowledged: None,
            delivered_at: None,
            rev: 0,
        }
    }
}

fn deliver(message: &Message, agent: &Agent, changes: &mut Changes) {
    changes.put(Delivery {
        message: message.id.clone(),
        number: message.number,
        agent: agent.id.clone(),
        state: DeliveryState::Queued,
        delivered_at: None,
        acknowledged_at: None,
        expires_at: message.expires_at,
        handing_until: None,
    });
    // Speaking may have brought the sender back; nobody else's row is put so far.
    let spoke = changes.rows_mut::<Agent>().next();
    match spoke.filter(|row| row.id == agent.id) {
        Some(row) => row.inbox += 1,
        None => {
            let mut row = agent.clone();
            row.inbox += 1;
            changes.put(row);
        }
    }
}

/// One message less waits for this agent.
pub(super) fn take_from_inbox(slice: &Slice, changes: &mut Changes, agent: &AgentId) {
    if let Some(row) = changes.row_mut::<Agent>(agent) {
        row.inbox = row.inbox.saturating_sub(1);
    } else if let Some(mut row) = slice.agent(agent).cloned() {
        row.inbox = row.inbox.saturating_sub(1);
        changes.put(row);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, send, word};
    use super::super::{Deregister, Receive};
    use super::*;
    use crate::path::LeasePath;
    use crate::task::TaskStatus;

    fn waiting(swarm: &Swarm) -> Vec<(&str, &str)> {
        let rows = swarm.deliveries.keys();
        rows.map(|(message, agent)| (message.as_str(), agent.as_str()))
            .collect()
    }

    #[test]
    fn who_may_send_by_standing() {
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            swarm.join("B", &[]);
            let expected = match standing {
                Standing::Unknown | Standing::Gone => "agent_not_registered",
                Standing::Live | Standing::Stopping | Standing::Silent => "ok",
            };
            assert_eq!(
                word(&swarm.run(send("m", "A", Some("B")))),
                expected,
                "{standing:?}"
            );
        }
    }

    #[test]
    fn a_person_speaks_without_being_registered_and_is_sent_nothing() {
        let person = |id: &str, to: Option<&str>| Send {
            from: Sender::Person("steward".into()),
            ..send(id, "steward", to)
        };
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            swarm.join("B", &[]);
            let (one, all) = match standing {
                Standing::Unknown => ("recipient_not_found", 1),
                Standing::Gone => ("ok", 1),
                Standing::Live | Standing::Stopping | Standing::Silent => ("ok", 2),
            };
            let outcome = swarm.run(person("one", Some("A")));
            assert_eq!(word(&outcome), one, "{standing:?}");
            assert_eq!(
                swarm.ok(person("all", None)).recipients,
                all,
                "{standing:?}"
            );
            let message = &swarm.messages[&MessageId::from("all")];
            assert_eq!(message.from.as_str(), "steward");
            assert!(
                !swarm.agents.contains_key(&"steward".into()),
                "{standing:?}"
            );
            let answer = swarm.run(send("back", "B", Some("steward")));
            assert_eq!(word(&answer), "recipient_not_found");
        }
    }

    #[test]
    fn a_person_hands_off_nothing_and_is_granted_nothing() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let from = || Sender::Person("steward".into());
        let offer = Send {
            from: from(),
            meaning: Meaning::Offer("T".into()),
            ..send("offer", "steward", Some("B"))
        };
        assert_eq!(word(&swarm.run(offer)), "invalid");
        let ask = |id: &str| Send {
            from: from(),
            meaning: Meaning::Wants(LeasePath::stored("src/a.rs")),
            ..send(id, "steward", None)
        };
        assert_eq!(word(&swarm.run(ask("free"))), "invalid");
        swarm.lease("B", "src/**", None);
        assert_eq!(swarm.ok(ask("held")).recipients, 1);
        assert_eq!(waiting(&swarm), [("held", "B")]);
    }

    #[test]
    fn whom_a_message_reaches_by_standing() {
        // jetpack.send.directed; a known but gone agent is fine, an id never seen is not.
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            swarm.join("B", &[]);
            let (directed, broadcast) = match standing {
                Standing::Unknown => ("recipient_not_found", 0),
                Standing::Gone => ("ok", 0),
                Standing::Live | Standing::Stopping | Standing::Silent => ("ok", 1),
            };
            let outcome = swarm.run(send("one", "B", Some("A")));
            assert_eq!(word(&outcome), directed, "{standing:?}");
            let sent = swarm.ok(send("all", "B", None));
            assert_eq!(sent.recipients, broadcast, "{standing:?}");
        }
    }

    #[test]
    fn a_directed_message_reaches_that_agent_alone() {
        // jetpack.send.directed, jetpack.send.response
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.join("C", &[]);
        let sent = swarm.ok(send("m", "A", Some("B")));
        assert_eq!((sent.message.as_str(), sent.recipients), ("m", 1));
        assert_eq!(waiting(&swarm), [("m", "B")]);
        assert_eq!((swarm.agent("B").inbox, swarm.agent("C").inbox), (1, 0));
        assert_eq!(swarm.said(), ["message_sent"]);
        assert_eq!(
            word(&swarm.run(send("m", "A", Some("C")))),
            "message_already_exists"
        );
    }

    #[test]
    fn a_broadcast_reaches_every_other_agent_once_and_nobody_later() {
        // jetpack.send.broadcast
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.join("C", &[]);
        swarm.ok(send("m", "A", None));
        assert_eq!(waiting(&swarm), [("m", "B"), ("m", "C")]);
        swarm.join("late", &[]);
        assert_eq!(swarm.agent("late").inbox, 0);
    }

    #[test]
    fn no_two_messages_share_an_instant() {
        // jetpack.receive.order
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        let times: Vec<Timestamp> = ["a", "b", "c"]
            .iter()
            .map(|id| swarm.ok(send(id, "A", Some("B"))).created_at)
            .collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    }

    #[test]
    fn only_the_holder_can_offer_a_task_and_only_to_somebody() {
        // jetpack.send.type_enum: task.handoff
        let offer = |from: &str, to: Option<&str>| Send {
            meaning: Meaning::Offer("T".into()),
            ..send("m", from, to)
        };
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        assert_eq!(word(&swarm.run(offer("B", Some("A")))), "not_holder");
        assert_eq!(word(&swarm.run(offer("A", None))), "invalid");
        assert_eq!(word(&swarm.run(offer("A", Some("B")))), "ok");
        let message = &swarm.messages[&MessageId::from("m")];
        assert_eq!(message.handoff, Some(("T".into(), 1)));
        assert_eq!(
            swarm.task("T").holder(),
            Some(&"A".into()),
            "an offer moves nothing"
        );
        let outcome = Swarm::with_agent(Standing::Live).run(offer("A", Some("A")));
        assert_eq!(word(&outcome), "task_not_found");
    }

    #[test]
    fn a_lock_request_goes_to_the_holder_or_is_granted_at_once() {
        // jetpack.send.type_enum: file.lock_request
        let ask = |id: &str| Send {
            kind: "file.lock_request".to_owned(),
            meaning: Meaning::Wants(LeasePath::stored("src/a.rs")),
            ..send(id, "A", None)
        };
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.join("B", &[]);
        swarm.join("C", &[]);
        swarm.ok(ask("free"));
        let granted = &swarm.messages[&MessageId::from("free")];
        assert_eq!(
            (granted.from.as_str(), &*granted.kind),
            (HUB, "file.lock_granted")
        );
        swarm.lease("B", "src/**", None);
        swarm.ok(ask("held"));
        assert_eq!(waiting(&swarm), [("free", "A"), ("held", "B")]);
        swarm.wait(Duration::from_secs(600));
        swarm.ok(ask("over"));
        assert_eq!(
            swarm.messages[&MessageId::from("over")].kind,
            "file.lock_granted"
        );
    }

    #[test]
    fn an_inbox_is_bounded() {
        for (there, expected, reached) in [
            (limits::INBOX_MAX - 1, "ok", 1),
            (limits::INBOX_MAX, "too_many", 0),
        ] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.join("B", &[]);
            let full = |swarm: &mut Swarm| {
                let agent = swarm.agents.get_mut(&AgentId::from("B"));
                agent.expect("B is there").inbox = there;
            };
            full(&mut swarm);
            let outcome = swarm.run(send("one", "A", Some("B")));
            assert_eq!(word(&outcome), expected, "{there}");
            full(&mut swarm);
            let sent = swarm.ok(send("all", "A", None));
            assert_eq!(
                sent.recipients, reached,
                "a broadcast leaves out whoever is full"
            );
        }
    }

    #[test]
    fn a_message_to_a_gone_agent_waits_for_it() {
        let mut swarm = Swarm::with_agent(Standing::Gone);
        swarm.join("B", &[]);
        swarm.ok(send("m", "B", Some("A")));
        swarm.join("A", &[]);
        let got = swarm.ok(Receive {
            agent: "A".into(),
            kinds: vec![],
            limit: 10,
        });
        assert_eq!(got.len(), 1);
        swarm.ok(Deregister { agent: "A".into() });
    }
}

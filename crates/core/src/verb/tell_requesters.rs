//! Caretaker: who gave a task to an agent of its own node hears of it, as it would from another node.

use super::{Send, Sweep, Verb};
use crate::changes::Changes;
use crate::contract::Notice;
use crate::id::MessageId;
use crate::message::{Meaning, Sender, To};
use crate::outbox::Dispatch;
use crate::record::{Listed as _, Record};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Priority;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug)]
pub struct TellRequesters {
    /// The payload of an event, as it is handed over.
    pub print: fn(&Dispatch) -> Box<str>,
}

/// One at a time: each takes the next number of the ledger's messages.
const STEP: usize = 1;

impl Verb for TellRequesters {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for notice in want.due_privates::<Notice>(now, STEP) {
            if let Some(send) = self.message(notice) {
                send.asks(want, now);
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut changes = Changes::default();
        let due = Want::new(slice).due_privates::<Notice>(now, STEP);
        for notice in &due {
            changes.remove::<Record>(Notice::at(notice.event.id.to_string()));
            // Who has left, or has too much waiting, is not told: the task shows it.
            if let Some(send) = self.message(notice)
                && let Ok((_, sent)) = send.decide(slice, now)
            {
                changes.puts.extend(sent.puts);
                changes.events.extend(sent.events);
            }
        }
        let done = due.len();
        let more = done == STEP;
        Ok((Sweep { done, more }, changes))
    }
}

impl TellRequesters {
    fn message(&self, notice: &Notice) -> Option<Send> {
        let (kind, by) = notice.event.news.tells_requester()?;
        Some(Send {
            id: MessageId::from(notice.event.id.as_str()),
            from: Sender::Person(by.clone()),
            to: To::One(notice.requester.clone()),
            kind: kind.to_owned(),
            payload: (self.print)(&notice.event),
            ack_required: false,
            priority: Priority::Medium,
            expires_in: None,
            corr_id: notice.event.corr_id.clone(),
            meaning: Meaning::Nothing,
            claims: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, commissioned, complete};
    use super::super::{PublishStep, Step};
    use super::*;
    use crate::id::AgentId;

    fn tell(swarm: &mut Swarm) -> Vec<(String, String)> {
        let print = |event: &Dispatch| event.news.kind().into();
        while swarm.ok(TellRequesters { print }).more {}
        let to = |id: &AgentId| id.as_str() == "A";
        let mut told: Vec<_> = swarm.messages.values().collect();
        told.sort_by_key(|message| message.number);
        let told = told
            .into_iter()
            .filter(|message| message.to.one().is_some_and(to));
        told.map(|message| (message.from.to_string(), message.kind.clone()))
            .collect()
    }

    #[test]
    fn a_requester_hears_of_a_task_that_stays_at_its_node_if_it_wants_to() {
        let told = [("B", "task.accepted"), ("B", "task.completed")];
        let told = told.map(|(by, kind)| (by.to_owned(), kind.to_owned()));
        for (wants, by_events) in [(true, false), (true, true), (false, false)] {
            let mut swarm = commissioned(wants);
            match by_events {
                false => swarm.hold("B", "T"),
                true => drop(swarm.ok(PublishStep {
                    event: "e1".into(),
                    agent: "B".into(),
                    corr_id: "corr_T".into(),
                    expires_in: None,
                    step: Step::Accept {
                        task: "T".into(),
                        eta_at: Timestamp(1_760_000_900_000),
                        plan: None,
                    },
                    sum: 1,
                })),
            }
            swarm.ok(complete("B", "T"));
            let expected = if wants { &told[..] } else { &[] };
            for _ in 0..2 {
                assert_eq!(tell(&mut swarm), expected, "{wants} {by_events}");
            }
        }
    }
}

//! Caretaker: acknowledgements that are owed are asked for again, and in the end told as an incident.

use super::send::{Send, deliver};
use super::{Sweep, Verb};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, HUB_ROLE, MessageId};
use crate::incident::Alarm;
use crate::message::{DeliveryState, Meaning, Sender, To};
use crate::record::{Listed as _, Record};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::talk::{Counted, Owed};
use crate::task::Priority;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug)]
pub struct Chase {
    /// The words of a reminder, and of the last word to whoever waits.
    pub words: fn(&Owed) -> Box<str>,
}

/// One at a time: each reminder takes the next number of the ledger's messages.
const STEP: usize = 1;

impl Verb for Chase {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for owed in due(want, now) {
            want.message(&owed.message);
            want.delivery(&owed.message, &owed.by);
            want.agent(told(owed));
            want.message(&reminder(owed));
            Counted::next(&HUB_ROLE.into(), want, now);
            if owed.is_overdue() {
                alarm(owed).asks(want);
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut changes = Changes::default();
        let due = due(&mut Want::new(slice), now);
        for owed in &due {
            let delivery = slice.delivery(&owed.message, &owed.by);
            let waits = |state| matches!(state, DeliveryState::Queued | DeliveryState::Handed);
            if !delivery.is_some_and(|row| waits(row.state)) {
                changes.remove::<Record>(Owed::at(Owed::key_of(&owed.message, &owed.by)));
                continue;
            }
            self.remind(slice, &mut changes, owed, now);
            if owed.is_overdue() {
                alarm(owed).raise(slice, &mut changes, now);
            }
            changes.put(Owed {
                reminded: owed.reminded + 1,
                ..(*owed).clone()
            });
        }
        let done = due.len();
        let more = done == STEP;
        Ok((Sweep { done, more }, changes))
    }
}

impl Chase {
    fn remind(&self, slice: &Slice, changes: &mut Changes, owed: &Owed, now: Timestamp) {
        let (id, to) = (reminder(owed), told(owed));
        // Nobody is asked twice for one step, nor is somebody who has no mailbox.
        let (None, Some(agent)) = (slice.message(&id), slice.agent(to)) else {
            return;
        };
        let send = Send {
            id: id.clone(),
            from: Sender::Person(AgentId::from(HUB_ROLE)),
            to: To::One(agent.id.clone()),
            kind: "custom".to_owned(),
            payload: (self.words)(owed),
            ack_required: false,
            priority: Priority::Critical,
            expires_in: None,
            corr_id: owed.message.as_str().into(),
            meaning: Meaning::Nothing,
            claims: Vec::new(),
        };
        let mut message = send.message(slice, None, now);
        message.given = Some(Counted::count(&message.from, slice, changes, now));
        deliver(&message, send.priority, agent, changes);
        changes.event(Event::MessageSent {
            message: id,
            from: message.from.clone(),
            to: Some(agent.id.clone()),
            to_several: Vec::new(),
            kind: message.kind.clone(),
            recipients: 1,
        });
        changes.put(message);
    }
}

fn due<'a>(want: &mut Want<'a>, now: Timestamp) -> Vec<&'a Owed> {
    want.due_privates::<Owed>(now, STEP)
}

/// Whoever owes it; in the end whoever waits for it.
fn told(owed: &Owed) -> &AgentId {
    match owed.is_overdue() {
        true => &owed.to,
        false => &owed.by,
    }
}

fn reminder(owed: &Owed) -> MessageId {
    format!(
        "reminder-{}-{}/{}",
        owed.reminded + 1,
        owed.message,
        owed.by
    )
    .into()
}

fn alarm(owed: &Owed) -> Alarm {
    let named = owed.number.map(|n| format!(" #{n}")).unwrap_or_default();
    Alarm {
        kind: "ack_overdue",
        subject: owed.by.to_string(),
        corr_id: None,
        message: format!(
            "{} has not acknowledged message{named} of {} ({})",
            owed.by, owed.to, owed.message
        ),
    }
}

//! SEND_MESSAGE: to one agent, to several, or to everyone who is registered now.

use std::time::Duration;

use super::{Verb, check_holder, sign_of_life, speaker};
use crate::agent::Agent;
use crate::assertion::{self, Asserted};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, CorrId, HUB, MessageId, TaskId};
use crate::limits;
use crate::message::{Delivery, DeliveryState, Meaning, Message, Sender, To};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::talk::{Chat, Counted};
use crate::task::Priority;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Send {
    pub id: MessageId,
    pub from: Sender,
    pub to: To,
    pub kind: String,
    pub payload: Box<str>,
    pub ack_required: bool,
    pub priority: Priority,
    pub expires_in: Option<Duration>,
    pub corr_id: CorrId,
    pub meaning: Meaning,
    /// What it claims; it counts where roles talk.
    pub claims: Vec<Asserted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub message: MessageId,
    pub created_at: Timestamp,
    pub recipients: u32,
}

enum Recipients<'a> {
    Named(&'a [AgentId]),
    Everyone(&'a [AgentId]),
    /// Nobody holds the file: the sender is told so at once.
    LockIsFree,
}

impl Verb for Send {
    type Reply = Sent;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.message(&self.id);
        if let Meaning::Offer(task) = &self.meaning {
            want.task(task);
        }
        let (list, from) = match self.recipients(want, now) {
            Recipients::Named(list) | Recipients::Everyone(list) => (list, self.from.id().clone()),
            Recipients::LockIsFree => (std::slice::from_ref(self.from.id()), HUB.into()),
        };
        let copy = Chat::copy_of(&self.to, want, now);
        let (mut is_counted, mut is_claimed) = (false, self.claims_by_role(want));
        for agent in list.iter().chain(&copy).filter_map(|id| want.agent(id)) {
            is_counted |= agent.reads_numbers();
            is_claimed |= self.claims_to(agent);
        }
        if is_counted {
            Counted::next(&from, want, now);
        }
        if is_claimed {
            assertion::ask(want);
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
        self.check_recipients()?;
        let handoff = self.offered(slice)?;
        let mut changes = Changes::default();
        if let Some(sender) = sender {
            sign_of_life(sender, &mut changes, now);
        }
        let mut message = self.message(slice, handoff, now);
        let mut recipients: Vec<&Agent> = Vec::new();
        match self.recipients(&mut Want::new(slice), now) {
            Recipients::Named(list) => {
                for id in list {
                    recipients.push(recipient(slice, id)?);
                }
                if let [only] = list {
                    message.to = To::One(only.clone());
                }
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
                message.to = To::One(sender.id.clone());
                message.kind = "file.lock_granted".to_owned();
                recipients.push(sender);
            }
        }
        let copy = Chat::copy_of(&self.to, &mut Want::new(slice), now);
        recipients.extend(copy.and_then(|id| slice.agent(&id)));
        let created_at = message.created_at;
        changes.event(Event::MessageSent {
            message: self.id.clone(),
            from: message.from.clone(),
            to: message.to.one().cloned(),
            to_several: self.several().to_vec(),
            kind: message.kind.clone(),
            recipients: u32::try_from(recipients.len()).unwrap_or(u32::MAX),
        });
        if recipients.iter().any(|agent| agent.reads_numbers()) {
            message.given = Some(Counted::count(&message.from, slice, &mut changes, now));
        }
        let to_role = recipients.iter().any(|agent| self.claims_to(agent));
        if to_role || self.claims_by_role(&mut Want::new(slice)) {
            let said = (self.from.id(), &self.id, now);
            assertion::make(slice, &mut changes, &self.claims, said);
        }
        let count = recipients.len();
        for agent in recipients {
            deliver(&message, self.priority, agent, &mut changes);
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
    /// Whether the message that has this id is the same, sent before.
    pub fn is_kept_as(&self, kept: &Message) -> bool {
        let asks_holder = matches!(self.meaning, Meaning::Wants(_)) && self.to == To::Everyone;
        let is_own = kept.from == *self.from.id()
            && kept.kind == self.kind
            && (kept.to == self.to || asks_holder);
        let is_answer =
            asks_holder && kept.from.as_str() == HUB && kept.to.one() == Some(self.from.id());
        kept.payload == self.payload && (is_own || is_answer)
    }

    /// Whether it claims something, as a role does.
    fn claims_by_role(&self, want: &mut Want<'_>) -> bool {
        match &self.from {
            Sender::Agent(id) => want.agent(id).is_some_and(|agent| self.claims_to(agent)),
            Sender::Person(_) => false,
        }
    }

    fn claims_to(&self, agent: &Agent) -> bool {
        !self.claims.is_empty() && agent.has_role()
    }

    fn recipients<'a, 'w: 'a>(&'a self, want: &mut Want<'w>, now: Timestamp) -> Recipients<'a> {
        match (&self.to, &self.meaning) {
            (To::One(_) | To::Several(_), _) => Recipients::Named(self.to.named()),
            (To::Everyone, Meaning::Wants(path)) => {
                let mut near = want.leases_near(path);
                let held = near.find(|lease| !lease.is_over(now) && lease.path.overlaps(path));
                held.map_or(Recipients::LockIsFree, |lease| {
                    Recipients::Named(std::slice::from_ref(&lease.agent))
                })
            }
            (To::Everyone, Meaning::Among(agents)) => Recipients::Everyone(agents),
            (To::Everyone, Meaning::Nothing | Meaning::Offer(_)) => {
                Recipients::Everyone(want.present_agents().unwrap_or_default())
            }
        }
    }

    /// The list, if it is for several.
    fn several(&self) -> &[AgentId] {
        match &self.to {
            To::Several(list) => list,
            To::Everyone | To::One(_) => &[],
        }
    }

    fn check_recipients(&self) -> Result<(), Refusal> {
        match self.to.is_beyond() {
            Some((what, limit)) => Err(Refusal::TooMany { what, limit }),
            None => Ok(()),
        }
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
        if self.to.one().is_none() {
            let message =
                "a task.handoff requires 'to': the one agent that should take the task".to_owned();
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

    pub(super) fn message(
        &self,
        slice: &Slice,
        handoff: Option<(TaskId, u64)>,
        now: Timestamp,
    ) -> Message {
        // Receivers page by time, so no two messages share an instant.
        let after_last = slice.head.last_message_at + Duration::from_millis(1);
        Message {
            id: self.id.clone(),
            number: slice.head.message_number + 1,
            from: self.from.id().clone(),
            to: self.to.clone(),
            kind: self.kind.clone(),
            payload: self.payload.clone(),
            ack_required: self.ack_required,
            corr_id: self.corr_id.clone(),
            handoff,
            given: None,
            created_at: now.max(after_last),
            expires_at: self.expires_in.map(|span| now + span),
            acknowledged: None,
            delivered_at: None,
            afar: None,
            rev: 0,
        }
    }
}

pub(super) fn recipient<'a>(slice: &'a Slice, id: &AgentId) -> Result<&'a Agent, Refusal> {
    let known = slice
        .agent(id)
        .ok_or_else(|| Refusal::RecipientNotFound { agent: id.clone() })?;
    if known.inbox >= limits::INBOX_MAX {
        return Err(Refusal::TooMany {
            what: "messages waiting for this agent",
            limit: limits::INBOX_MAX as usize,
        });
    }
    Ok(known)
}

pub(super) fn deliver(message: &Message, priority: Priority, agent: &Agent, changes: &mut Changes) {
    changes.put(Delivery {
        message: message.id.clone(),
        number: message.number,
        agent: agent.id.clone(),
        state: DeliveryState::Queued,
        priority,
        via: None,
        stream: None,
        delivered_at: None,
        acknowledged_at: None,
        expires_at: message.expires_at,
        handing_until: None,
        reason: None,
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
mod tests;

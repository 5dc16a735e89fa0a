//! Somebody says something under a role: to a role, to several, or to all.
//!
//! One decision for whatever path it came by: is it known, may it be said, does its number follow, who gets it, which task
//! and which acknowledgement follow from it.

use std::time::Duration;

use super::acknowledge::confirm;
use super::send::{Send, deliver, recipient};
use super::{CreateTasks, NewTask, Verb};
use crate::agent::Agent;
use crate::assertion::{self, Asserted};
use crate::changes::Changes;
use crate::doors::Door;
use crate::event::Event;
use crate::id::{AgentId, CorrId, HUB_ROLE, MessageId, USER};
use crate::incident::Alarm;
use crate::limits;
use crate::message::{Delivery, DeliveryState, Meaning, Message, Sender, To};
use crate::record::{Listed as _, Record};
use crate::recurrence::Failed;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::talk::{
    Chat, Counted, Gist, Holders, Owed, ROLE_SKILL, Session, Slip, Spoken, Utterance, sum,
};
use crate::task::{Priority, Task};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Say {
    pub id: MessageId,
    pub from: Speaker,
    /// By canonical names; each has a mailbox from here on.
    pub to: To,
    pub payload: Box<str>,
    /// So much of the payload is what was said; the rest is about it.
    pub body_bytes: usize,
    /// As the speaker numbers it.
    pub number: Option<u32>,
    /// The role that it says it speaks for.
    pub header_role: Option<AgentId>,
    pub priority: Priority,
    pub ack_required: bool,
    /// Numbers that it mentions.
    pub names: Vec<u32>,
    /// It begins as an acknowledgement.
    pub is_ack: bool,
    /// It delegates a task.
    pub task: Option<Box<NewTask>>,
    pub corr_id: CorrId,
    /// The same said under another id a moment ago counts as this one.
    pub once: bool,
    /// What kind of word it is, beside what it says.
    pub gist: Option<Gist>,
    /// What it claims.
    pub claims: Vec<Asserted>,
    /// It tells of a failure that says this.
    pub failed: Option<String>,
    /// By which door it is said, and handed over to who is connected.
    pub via: Door,
    /// The recipient belongs to this role: nobody else but a person speaks to it.
    pub bound_to: Option<AgentId>,
    /// Recipients that are connected here, and by which stream.
    pub take_up: Vec<TakeUp>,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    Role(AgentId),
    /// Belongs to a role, and speaks to it alone.
    Slot {
        id: AgentId,
        owner: AgentId,
    },
    /// A person, the hub, or a name that no role has.
    Other(AgentId),
}

impl Speaker {
    pub fn id(&self) -> &AgentId {
        match self {
            Speaker::Role(id) | Speaker::Slot { id, .. } | Speaker::Other(id) => id,
        }
    }

    /// Under which name it is remembered what was said. Names that anybody may make up share one.
    fn remembered(&self) -> String {
        match self {
            Speaker::Other(id) if !id.is_no_agent() => String::new(),
            Speaker::Role(id) | Speaker::Slot { id, .. } | Speaker::Other(id) => id.to_string(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeUp {
    pub agent: AgentId,
    pub stream: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    New(Box<Heard>),
    /// It is known under this id.
    Again,
    /// It is known under another one.
    Like {
        message: MessageId,
        by: Likeness,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Said a moment ago.
    Signature,
    /// Said under the same number.
    Sequence,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    pub message: Message,
    /// Their streams have it in hand: it is to be written, and then settled.
    pub taken_up: Vec<AgentId>,
    /// It waits in their mailboxes.
    pub waiting: Vec<AgentId>,
    pub session: u32,
    pub slip: Option<Slip>,
    pub task: Option<Box<Task>>,
}

/// Streams that take a message up have it for this long.
const HOLD_FOR: Duration = Duration::from_secs(30);

impl Verb for Say {
    type Reply = Said;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if want.message(&self.id).is_some() {
            return;
        }
        want.agent(self.from.id());
        let spoken = self.spoken(want);
        for alarm in self.alarms(self.slip(&spoken)) {
            alarm.asks(want);
        }
        for id in self.recipients(want, now) {
            want.agent(&id);
        }
        if let Some(task) = self.tasks(want, now) {
            task.asks(want, now);
        }
        if self.is_counted() {
            Counted::next(self.from.id(), want, now);
        }
        if !self.claims.is_empty() {
            assertion::ask(want);
        }
        if let Some(failed) = self.failed() {
            failed.known(want);
        }
        for owed in self.settles(want) {
            want.message(&owed.message);
            want.delivery(&owed.message, &owed.by);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Said, Changes), Refusal> {
        let mut changes = Changes::default();
        if let Some(known) = slice.message(&self.id) {
            if self.is_same(&known.payload) {
                return Ok((Said::Again, changes));
            }
            let message = self.id.clone();
            return Err(Refusal::MessageAlreadyExists { message });
        }
        self.check_binding()?;
        let mut want = Want::new(slice);
        let (mut spoken, sum) = (self.spoken(&mut want), sum(&self.to, self.body()));
        let just = spoken.just_said(sum, self.priority, now);
        if let Some(message) = just.filter(|_| self.once) {
            let (message, by) = (message.clone(), Likeness::Signature);
            return Ok((Said::Like { message, by }, changes));
        }
        let numbered = self.number.and_then(|number| spoken.numbered(number, sum));
        if let Some(message) = numbered {
            let (message, by) = (message.clone(), Likeness::Sequence);
            return Ok((Said::Like { message, by }, changes));
        }
        let slip = self.slip(&spoken);
        for alarm in self.alarms(slip) {
            alarm.raise(slice, &mut changes, now);
        }
        let mut message = self.message(slice, now);
        if self.is_counted() {
            message.given = Some(Counted::count(&message.from, slice, &mut changes, now));
        }
        let session = spoken.session;
        match self.gist {
            Some(Gist::CheckIn) => spoken.checked_in_at = Some(now),
            // One that was asked for says enough.
            Some(Gist::EmptyAck) if self.settles(&mut want).is_empty() => {
                spoken.empty_acks = spoken.empty_acks.saturating_add(1);
            }
            Some(Gist::EmptyAck) | None => {}
        }
        spoken.note(Utterance {
            message: message.id.clone(),
            number: self.number,
            sum,
            priority: self.priority,
            at: now,
        });
        changes.put(spoken);
        self.settle(slice, &mut changes, now);
        let mut heard = Heard {
            message,
            taken_up: Vec::new(),
            waiting: Vec::new(),
            session,
            slip,
            task: None,
        };
        self.hand_out(slice, &mut changes, &mut heard, now)?;
        if let Some(task) = self.tasks(&mut want, now) {
            let (tasks, made) = task.decide(slice, now)?;
            changes.puts.extend(made.puts);
            changes.events.extend(made.events);
            heard.task = tasks.into_iter().next().map(Box::new);
        }
        self.note_owed(&mut changes, now);
        let said = (self.from.id(), &self.id, now);
        assertion::make(slice, &mut changes, &self.claims, said);
        if let Some(failed) = self.failed() {
            failed.note(slice, &mut changes, now);
        }
        changes.put(heard.message.clone());
        Ok((Said::New(Box::new(heard)), changes))
    }
}

impl Say {
    /// Words of which nothing more is known; of the payload all but its last letter is said.
    pub fn plain(
        via: Door,
        id: MessageId,
        from: Speaker,
        to: To,
        payload: impl Into<Box<str>>,
    ) -> Say {
        let payload = payload.into();
        Say {
            corr_id: id.as_str().into(),
            id,
            from,
            to,
            body_bytes: payload.len().saturating_sub(1),
            payload,
            number: None,
            header_role: None,
            priority: Priority::Medium,
            ack_required: false,
            names: Vec::new(),
            is_ack: false,
            task: None,
            once: false,
            gist: None,
            claims: Vec::new(),
            failed: None,
            via,
            bound_to: None,
            take_up: Vec::new(),
        }
    }

    fn body(&self) -> &str {
        self.payload.get(..self.body_bytes).unwrap_or(&self.payload)
    }

    /// The hub numbers what it says itself.
    fn is_counted(&self) -> bool {
        self.number.is_none() && self.from.id().as_str() == HUB_ROLE
    }

    /// Whether this is said by a message's payload.
    fn is_same(&self, payload: &str) -> bool {
        let rest = payload.strip_prefix(self.body());
        rest.is_some_and(|rest| rest.starts_with([',', '}']))
    }

    /// What belongs to a role speaks to it alone, and hears of nobody else but a person.
    fn check_binding(&self) -> Result<(), Refusal> {
        let refused = |to: &AgentId| Refusal::OwnerBinding {
            from: self.from.id().clone(),
            to: to.clone(),
        };
        let from = self.from.id();
        if let (Some(owner), Some(to)) = (&self.bound_to, self.to.one())
            && from != owner
            && !matches!(from.as_str(), USER | HUB_ROLE)
        {
            return Err(refused(to));
        }
        let Speaker::Slot { owner, .. } = &self.from else {
            return Ok(());
        };
        match &self.to {
            To::Everyone => Err(refused(&"all".into())),
            To::One(_) | To::Several(_) => {
                let stranger = self.to.named().iter().find(|id| *id != owner);
                stranger.map_or(Ok(()), |id| Err(refused(id)))
            }
        }
    }

    fn spoken(&self, want: &mut Want<'_>) -> Spoken {
        let session = want.private::<Session>("").map_or(0, |row| row.number);
        let speaker = self.from.remembered();
        let known = want.private::<Spoken>(speaker.clone()).cloned();
        let spoken = known.unwrap_or_else(|| Spoken {
            speaker,
            ..Spoken::default()
        });
        spoken.in_session(session)
    }

    fn slip(&self, spoken: &Spoken) -> Option<Slip> {
        let counts = !matches!(self.from, Speaker::Other(_));
        let number = self.number.filter(|_| counts)?;
        spoken.slip(number)
    }

    /// What a person should know of it.
    fn alarms(&self, slip: Option<Slip>) -> impl Iterator<Item = Alarm> {
        let alarm = |kind, message| Alarm {
            kind,
            subject: self.from.id().to_string(),
            corr_id: Some(self.corr_id.clone()),
            message,
        };
        let from = self.from.id();
        let number = self.number.unwrap_or_default();
        let slip = slip.map(|slip| {
            let what = match slip {
                Slip::Gap { expected } => format!("#{number} follows where #{expected} should"),
                Slip::Repeat => format!("#{number} was used before, for something else"),
                Slip::Back { last } => format!("#{number} follows #{last}"),
            };
            alarm("sequence_slip", format!("{from}: {what}"))
        });
        let header = self.header_role.as_ref();
        let header = header.filter(|role| matches!(&self.from, Speaker::Role(id) if id != *role));
        let header = header.map(|role| {
            let message = format!("{from} sent a message under the header of {role}");
            alarm("header_mismatch", message)
        });
        slip.into_iter().chain(header)
    }

    /// Each role's own mailbox, and whoever holds the role beside it.
    fn recipients(&self, want: &mut Want<'_>, now: Timestamp) -> Vec<AgentId> {
        if self.to == To::Everyone {
            let present = want.present_agents().unwrap_or_default();
            let others = present.iter().filter(|id| *id != self.from.id());
            return others.cloned().collect();
        }
        let mut list = Vec::new();
        for role in self.to.named() {
            let holders = self.holders(want, role);
            for id in std::iter::once(role.clone()).chain(holders) {
                if !list.contains(&id) {
                    list.push(id);
                }
            }
        }
        list.extend(Chat::copy_of(&self.to, want, now));
        list
    }

    fn holders(&self, want: &mut Want<'_>, role: &AgentId) -> Vec<AgentId> {
        let known = want.private::<Holders>(role.to_string());
        let named = known.map_or(&[][..], |row| &row.agents);
        let skill = format!("{ROLE_SKILL}{role}");
        let mut holds = |id: &AgentId| {
            let agent = want.agent(id);
            agent.is_some_and(|agent| !agent.is_gone() && agent.skills.contains(&skill))
        };
        let others = named.iter().filter(|id| *id != self.from.id());
        others.filter(|id| holds(id)).cloned().collect()
    }

    /// The task that it makes, for its recipients.
    fn tasks(&self, want: &mut Want<'_>, now: Timestamp) -> Option<CreateTasks> {
        let mut task = self.task.as_deref()?.clone();
        task.about.audience = self.recipients(want, now);
        Some(CreateTasks { tasks: vec![task] })
    }

    fn failed(&self) -> Option<Failed<'_>> {
        Some(Failed {
            role: self.from.remembered(),
            by: self.from.id(),
            message: &self.id,
            line: self.failed.as_deref()?,
        })
    }

    fn message(&self, slice: &Slice, now: Timestamp) -> Message {
        let send = Send {
            id: self.id.clone(),
            from: Sender::Person(self.from.id().clone()),
            to: self.to.clone(),
            kind: "custom".to_owned(),
            payload: self.payload.clone(),
            ack_required: self.ack_required,
            priority: self.priority,
            expires_in: None,
            corr_id: self.corr_id.clone(),
            meaning: Meaning::Nothing,
            claims: Vec::new(),
        };
        send.message(slice, None, now)
    }

    /// A delivery for each recipient; those that are connected here have it in hand at once.
    fn hand_out(
        &self,
        slice: &Slice,
        changes: &mut Changes,
        heard: &mut Heard,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let list = self.recipients(&mut Want::new(slice), now);
        for id in &list {
            let agent = match slice.agent(id) {
                None => Agent::without_row(id, slice.former_agent(id), now),
                Some(_) if self.to == To::Everyone => {
                    let known = slice.agent(id).filter(|row| row.inbox < limits::INBOX_MAX);
                    let Some(known) = known else { continue };
                    known.clone()
                }
                Some(_) => recipient(slice, id)?.clone(),
            };
            let is_there = agent.is_reached();
            deliver(&heard.message, self.priority, &agent, changes);
            let by = self.take_up.iter().find(|by| by.agent == *id);
            match by.filter(|_| is_there) {
                Some(by) => {
                    let key = (self.id.clone(), id.clone());
                    let row = changes.row_mut::<Delivery>(&key).expect("it was just put");
                    row.via = Some(self.via);
                    row.stream = Some(by.stream.as_str().into());
                    row.handing_until = Some(now + HOLD_FOR);
                    heard.taken_up.push(id.clone());
                }
                None => heard.waiting.push(id.clone()),
            }
        }
        let several = match &self.to {
            To::Several(list) => list.clone(),
            To::Everyone | To::One(_) => Vec::new(),
        };
        changes.event(Event::MessageSent {
            message: self.id.clone(),
            from: self.from.id().clone(),
            to: self.to.one().cloned(),
            to_several: several,
            kind: heard.message.kind.clone(),
            recipients: u32::try_from(list.len()).unwrap_or(u32::MAX),
        });
        Ok(())
    }

    /// What it acknowledges: messages of its recipient that ask for it, by their number or as a whole.
    fn settles<'a>(&self, want: &mut Want<'a>) -> Vec<&'a Owed> {
        let Some(to) = self.to.one() else {
            return Vec::new();
        };
        if !self.is_ack && self.names.is_empty() {
            return Vec::new();
        }
        let owed = want.privates::<Owed>(&Owed::owed_by(self.from.id()));
        let to_them = owed.into_iter().filter(|owed| owed.to == *to);
        let is_named = |owed: &&Owed| owed.number.is_some_and(|n| self.names.contains(&n));
        let (named, others): (Vec<&Owed>, Vec<&Owed>) = to_them.partition(is_named);
        match named.is_empty() && self.is_ack {
            true => others,
            false => named,
        }
    }

    fn settle(&self, slice: &Slice, changes: &mut Changes, now: Timestamp) {
        let Some(known) = slice.agent(self.from.id()) else {
            return;
        };
        let mut agent = known.clone();
        agent.seen_at = now;
        for owed in self.settles(&mut Want::new(slice)) {
            changes.remove::<Record>(Owed::at(Owed::key_of(&owed.message, &owed.by)));
            let found = slice.message(&owed.message);
            let delivery = slice.delivery(&owed.message, &owed.by);
            if let (Some(message), Some(delivery)) = (found, delivery)
                && matches!(
                    delivery.state,
                    DeliveryState::Queued | DeliveryState::Handed
                )
            {
                confirm(changes, &mut agent, message, delivery, self.via, now);
            }
        }
        if agent.is_live() && agent.inbox == known.inbox && agent.stream == known.stream {
            changes.pulse(&agent.id, now);
        } else if agent.inbox != known.inbox || agent.stream != known.stream {
            changes.put(agent);
        }
    }

    fn note_owed(&self, changes: &mut Changes, now: Timestamp) {
        let roles = self.to.named().iter().filter(|id| !id.is_no_agent());
        for by in roles.filter(|_| self.ack_required) {
            changes.put(Owed {
                message: self.id.clone(),
                by: by.clone(),
                to: self.from.id().clone(),
                number: self.number,
                since: now,
                reminded: 0,
            });
        }
    }
}

#[cfg(test)]
mod tests;

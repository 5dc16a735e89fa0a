//! An agent of this node publishes what it does: takes a task, says how far it is, ends it, or replies to a message.
//!
//! Each is what it would be by any other door, by the same verb, in one commit with the event that tells it.

use std::time::Duration;

use super::acknowledge::{address, mark, processed};
use super::end_promises::{late_at, promises};
use super::publish::again;
use super::{Acknowledge, Claim, Claimed, Complete, Fail, Filter, Progressed, Published};
use super::{ReportProgress, Send, Verb};
use crate::changes::{Changes, PublishedStep};
use crate::contract::{Contract, Promise};
use crate::doors::Door;
use crate::id::{AgentId, CorrId, EventId, HUB, MessageId, TaskId};
use crate::limits;
use crate::message::{Meaning, Message, Sender, To};
use crate::node::Gateway;
use crate::order::Order;
use crate::outbox::{Dispatch, FailureClass, News, Standing};
use crate::refusal::Refusal;
use crate::route::gateway;
use crate::skill_review::Promised;
use crate::slice::Slice;
use crate::task::{Phase, Priority, Task};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct PublishStep {
    pub event: EventId,
    pub agent: AgentId,
    /// That of the task or message.
    pub corr_id: CorrId,
    pub expires_in: Option<Duration>,
    pub step: Step,
    /// Of all that was said: the same under the same id is the same publication.
    pub sum: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Accept {
        task: TaskId,
        eta_at: Timestamp,
        plan: Option<String>,
    },
    Update {
        task: TaskId,
        /// What is not said stays as it was.
        percent: Option<u8>,
        note: Option<String>,
        revised_eta_at: Option<Timestamp>,
    },
    Complete(Box<Complete>),
    Fail {
        task: TaskId,
        class: FailureClass,
        error: String,
    },
    Reply {
        to: EventId,
        /// Any JSON value.
        body: Box<str>,
        status: Option<String>,
        /// All of it, as it is handed over.
        payload: Box<str>,
    },
}

impl Verb for PublishStep {
    type Reply = Published;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.private::<Gateway>("");
        want.message(&MessageId::from(self.event.as_str()));
        if want.private::<Order>(self.event.to_string()).is_some() {
            return;
        }
        match &self.step {
            Step::Accept { task, .. } => {
                want.task(task);
                self.claim(task).asks(want, now);
            }
            Step::Update { task, .. } => {
                if let Some(known) = want.task(task) {
                    self.report(known).asks(want, now);
                }
            }
            Step::Complete(complete) => complete.asks(want, now),
            Step::Fail { task, class, error } => self.fail(task, *class, error).asks(want, now),
            Step::Reply { to, payload, .. } => {
                want.private::<Order>(to.to_string());
                self.acknowledge(to).asks(want, now);
                if let Some(message) = want.message(&MessageId::from(to.as_str()))
                    && let Some(send) = self.answers(message, payload)
                {
                    send.asks(want, now);
                }
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Published, Changes), Refusal> {
        let mut want = Want::new(slice);
        if let Some(known) = want.private::<Order>(self.event.to_string()) {
            return again(known, &self.agent, self.sum);
        }
        let message = MessageId::from(self.event.as_str());
        if slice.message(&message).is_some() {
            let event = self.event.clone();
            return Err(Refusal::EventAlreadyExists { event });
        }
        let here = gateway(&mut want)?;
        match &self.step {
            Step::Accept { task, .. } | Step::Update { task, .. } | Step::Fail { task, .. } => {
                self.moves(slice, here, task, now)
            }
            Step::Complete(complete) => self.moves(slice, here, &complete.task, now),
            Step::Reply {
                to,
                body,
                status,
                payload,
            } => {
                let reply = News::Reply {
                    to: to.clone(),
                    body: body.clone(),
                    status: status.clone(),
                };
                self.replies(slice, here, to, (reply, payload), now)
            }
        }
    }
}

impl PublishStep {
    fn claim(&self, task: &TaskId) -> Claim {
        Claim {
            agent: self.agent.clone(),
            filter: Filter::default(),
            task: Some(task.clone()),
        }
    }

    fn report(&self, task: &Task) -> ReportProgress {
        let (percent, note) = match &self.step {
            Step::Update { percent, note, .. } => (*percent, note.clone()),
            Step::Accept { .. } | Step::Complete(_) | Step::Fail { .. } | Step::Reply { .. } => {
                (None, None)
            }
        };
        let known = task.progress.as_ref();
        ReportProgress {
            agent: self.agent.clone(),
            task: task.id.clone(),
            epoch: None,
            phase: known.map_or(Phase::Implementing, |known| known.phase),
            percent: percent.or(known.map(|known| known.percent)).unwrap_or(0),
            note: note
                .or(known.map(|known| known.note.clone()))
                .unwrap_or_default(),
            files: Vec::new(),
        }
    }

    /// It is the end: whoever wants it tried again fails it by another door.
    fn fail(&self, task: &TaskId, class: FailureClass, error: &str) -> Fail {
        Fail {
            agent: self.agent.clone(),
            task: task.clone(),
            epoch: None,
            kind: class.into(),
            message: error.to_owned(),
            details: None,
            recoverable: false,
            suggested_action: None,
            is_free: false,
        }
    }

    fn acknowledge(&self, to: &EventId) -> Acknowledge {
        Acknowledge {
            agent: self.agent.clone(),
            message: MessageId::from(to.as_str()),
            via: Door::BY_HAND,
        }
    }

    fn check_corr(&self, what: &str, corr_id: &CorrId) -> Result<(), Refusal> {
        if self.corr_id == *corr_id {
            return Ok(());
        }
        Err(Refusal::Invalid {
            field: "corr_id",
            message: format!("must be that of {what}: {corr_id}"),
        })
    }

    fn dispatch(&self, here: &Gateway, news: News, now: Timestamp) -> Dispatch {
        let corr_id = self.corr_id.clone();
        let own = Dispatch::own(&here.node_id, "", corr_id, news, now);
        let asked = self
            .expires_in
            .map(|span| span.min(limits::DISPATCH_VALID_MAX));
        Dispatch {
            id: self.event.clone(),
            from: self.agent.clone(),
            expires_at: asked.map_or(own.expires_at, |span| now + span),
            ..own
        }
    }

    fn moves(
        &self,
        slice: &Slice,
        here: &Gateway,
        id: &TaskId,
        now: Timestamp,
    ) -> Result<(Published, Changes), Refusal> {
        let missing = || Refusal::TaskNotFound { task: id.clone() };
        let before = slice.task(id).ok_or_else(missing)?;
        self.check_corr(&format!("task {id}"), &before.corr_id)?;
        let mut changes = self.act(slice, before, now)?;
        let after = changes
            .row_mut::<Task>(id)
            .expect("whoever moves a task puts it");
        let promised = match &self.step {
            Step::Accept { eta_at, .. } => Some(*eta_at),
            Step::Update { revised_eta_at, .. } => *revised_eta_at,
            Step::Complete(_) | Step::Fail { .. } | Step::Reply { .. } => None,
        };
        let epoch = after.epoch;
        let contract = after.contract.as_deref_mut();
        if let (Some(contract), Some(eta_at)) = (contract, promised) {
            contract.promise = Some(Promise { epoch, eta_at });
        }
        let after = after.clone();
        if promised.is_some()
            && promises(&after)
            && let Some(at) = late_at(&after)
        {
            let task = id.clone();
            changes.put(Promised { task, at });
        }
        let news = self.news(before, &after, here, now);
        let mut told = self.dispatch(here, news, now);
        let mut order = None;
        let contract = after.contract.as_deref();
        told.to = contract.map(|contract| contract.requester.clone());
        told.to_node = Some(contract.map_or_else(|| here.node_id.clone(), |it| it.origin.clone()));
        if let Some(contract) = contract.filter(|it| it.origin != here.node_id)
            && told.news.is_answered()
        {
            let (node, requester) = (contract.origin.clone(), &contract.requester);
            order = Some(Order::to_one(&told, node, requester, here.timings));
        }
        let published = self.published(slice, here, &mut changes, (Some(id), told, order));
        Ok((published, changes))
    }

    /// The step itself.
    fn act(&self, slice: &Slice, task: &Task, now: Timestamp) -> Result<Changes, Refusal> {
        match &self.step {
            Step::Accept { task: id, .. } => match self.claim(id).decide(slice, now)? {
                (Claimed::Task(_), changes) => Ok(changes),
                (Claimed::None(_), _) => Err(Refusal::WrongState {
                    task: id.clone(),
                    status: task.status(),
                    wanted: "that claims are not paused",
                }),
            },
            Step::Update { task: id, .. } => match self.report(task).decide(slice, now)? {
                (Progressed::Continue, changes) => Ok(changes),
                (Progressed::Abort(why), _) => Err(Refusal::TaskNotYours {
                    task: id.clone(),
                    why,
                }),
            },
            Step::Complete(complete) => Ok(complete.decide(slice, now)?.1),
            Step::Fail { task, class, error } => {
                Ok(self.fail(task, *class, error).decide(slice, now)?.1)
            }
            Step::Reply { .. } => Ok(Changes::default()),
        }
    }

    /// What the step tells. What a completion comes to its gate says.
    fn news(&self, before: &Task, after: &Task, here: &Gateway, now: Timestamp) -> News {
        let by = self.agent.clone();
        match &self.step {
            Step::Accept { task, eta_at, plan } => News::TaskAccept {
                task: task.clone(),
                by,
                eta_at: *eta_at,
                plan: plan.clone(),
            },
            Step::Fail { task, class, error } => News::TaskFailed {
                task: task.clone(),
                by,
                class: *class,
                error: error.clone(),
                at: now,
            },
            Step::Update {
                note,
                revised_eta_at,
                ..
            } => News::TaskUpdate {
                task: after.id.clone(),
                status: Standing::InProgress,
                percent: after.progress.as_ref().map(|progress| progress.percent),
                note: note.clone(),
                revised_eta_at: *revised_eta_at,
            },
            Step::Complete(_) | Step::Reply { .. } => {
                let none = || {
                    let origin = &here.node_id;
                    Contract::new(here, origin, &self.event, &self.corr_id, &HUB.into())
                };
                let contract = after.contract.as_deref().cloned().unwrap_or_else(none);
                let told = contract.told(Some(before), after, now);
                let first = told.into_iter().next();
                first.expect("a task that ends, or asks for a person, is told")
            }
        }
    }

    /// A message of another node is answered there, one of this node here.
    fn replies(
        &self,
        slice: &Slice,
        here: &Gateway,
        to: &EventId,
        (reply, payload): (News, &str),
        now: Timestamp,
    ) -> Result<(Published, Changes), Refusal> {
        let acknowledge = self.acknowledge(to);
        let id = &acknowledge.message;
        let missing = || Refusal::MessageNotFound {
            message: id.clone(),
        };
        let message = slice.message(id).ok_or_else(missing)?;
        self.check_corr(&format!("event {to}"), &message.corr_id)?;
        let (_, mut changes) = acknowledge.decide_by(mark, slice, now)?;
        let mut told = self.dispatch(here, reply, now);
        let mut order = None;
        if let Some(afar) = &message.afar {
            order = Some(address(&mut told, &self.agent, message, afar));
        } else {
            told.to = Some(message.from.clone());
            told.to_node = Some(here.node_id.clone());
            // Who has left, or has too much waiting, is not told.
            if let Some(send) = self.answers(message, payload)
                && let Ok((_, sent)) = send.decide(slice, now)
            {
                changes.puts.extend(sent.puts);
                changes.events.extend(sent.events);
            }
        }
        let is_event = Want::new(slice).private::<Order>(to.to_string()).is_some();
        if message.afar.is_some() || is_event {
            let last = processed(&here.node_id, &self.agent, message, now);
            changes.dispatches.push(last);
        }
        let published = self.published(slice, here, &mut changes, (None, told, order));
        Ok((published, changes))
    }

    /// The reply, as an agent of this node gets it.
    fn answers(&self, message: &Message, payload: &str) -> Option<Send> {
        let is_here = message.afar.is_none() && message.from != self.agent;
        is_here.then(|| Send {
            id: MessageId::from(self.event.as_str()),
            from: Sender::Person(self.agent.clone()),
            to: To::One(message.from.clone()),
            kind: "custom".to_owned(),
            payload: payload.into(),
            ack_required: false,
            priority: Priority::Medium,
            expires_in: self.expires_in,
            corr_id: self.corr_id.clone(),
            meaning: Meaning::Nothing,
            claims: Vec::new(),
        })
    }

    /// Notes the event; so the same publication is known again, also where nobody is to answer it.
    fn published(
        &self,
        slice: &Slice,
        here: &Gateway,
        changes: &mut Changes,
        (task, told, order): (Option<&TaskId>, Dispatch, Option<Order>),
    ) -> Published {
        let recipients = told.to.iter().filter(|to| to.as_str() != HUB);
        let mut order = order.unwrap_or_else(|| Order::new(&told, Vec::new(), here.timings));
        order.sum = self.sum;
        order.seq = slice.head.outbox + 1;
        order.recipients = recipients.cloned().collect();
        let published = Published {
            event: self.event.clone(),
            seq: order.seq,
            corr_id: self.corr_id.clone(),
            recipients: order.recipients.clone(),
            ignored: Vec::new(),
            node: None,
        };
        changes.put(order);
        changes.published = Some(Box::new(PublishedStep {
            task: task.cloned(),
            event: told,
        }));
        published
    }
}

#[cfg(test)]
mod tests;

//! Something is said to agents of any node, or a task is given to one: delivered here and told to others in one commit.

use std::time::Duration;

use super::end_promises::late_at;
use super::{CreateTasks, NewTask, Send, Verb, speaker};
use crate::audit::AuditEntry;
use crate::capability::{Capability, Policies, is_granted};
use crate::changes::Changes;
use crate::contract::{Contract, Deadline};
use crate::cursor::FarAgent;
use crate::description::Description;
use crate::event::Event;
use crate::id::{AgentId, CorrId, EventId, MessageId, NodeId};
use crate::limits;
use crate::message::{Meaning, Sender, To};
use crate::node::{Gateway, Node};
use crate::order::{Destination, Order, Ordered, TaskOrder, TaskOrderState, Wants};
use crate::outbox::{Answer, AnswerKind, Commission, Dispatch, Letter, News, PolicyVersions};
use crate::refusal::Refusal;
use crate::route::{Whereabouts, by_capability, gateway, nobody};
use crate::skill_review::Promised;
use crate::skills::Skills;
use crate::slice::Slice;
use crate::task::{Priority, Task};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    pub event: EventId,
    pub from: Sender,
    pub corr_id: CorrId,
    pub expires_in: Option<Duration>,
    pub what: Publication,
    /// Of all that was said: the same under the same id is the same publication.
    pub sum: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Publication {
    Message {
        to: Targets,
        payload: Box<str>,
        priority: Priority,
        expects_reply: bool,
    },
    Task(Box<Commission>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Every agent of every node, but for the sender.
    All,
    Named(Vec<AgentId>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub event: EventId,
    pub seq: u64,
    pub corr_id: CorrId,
    pub recipients: Vec<AgentId>,
    /// Targets that are nobody, or that another node would have had to be asked for.
    pub ignored: Vec<AgentId>,
    /// The node that a task was given to.
    pub node: Option<NodeId>,
}

impl Verb for Publish {
    type Reply = Published;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Sender::Agent(id) = &self.from {
            want.agent(id);
        }
        want.private::<Gateway>("");
        want.private::<Order>(self.event.to_string());
        want.message(&MessageId::from(self.event.as_str()));
        match &self.what {
            Publication::Message { .. } => {
                let found = self.recipients(want);
                if found.all().is_empty() {
                    nobody(want);
                }
                if let Some(send) = self.send(&found) {
                    send.asks(want, now);
                }
            }
            Publication::Task(task) => {
                want.private::<Ordered>(task.task.to_string());
                want.task(&task.task);
                want.private::<Policies>("");
                terms(want, task);
                if let Ok(found) = route(want, task, now)
                    && found.node.is_none()
                {
                    create(task, &found.agents, &self.corr_id).asks(want, now);
                }
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Published, Changes), Refusal> {
        let mut want = Want::new(slice);
        if let Some(known) = want.private::<Order>(self.event.to_string()) {
            return again(known, self.from.id(), self.sum);
        }
        if slice
            .message(&MessageId::from(self.event.as_str()))
            .is_some()
        {
            return Err(self.taken());
        }
        if let Sender::Agent(id) = &self.from {
            speaker(slice, id)?;
        }
        let (published, mut changes) = match &self.what {
            Publication::Message { .. } => self.message(slice, now),
            Publication::Task(task) => self.task(slice, task, now),
        }?;
        let what = match &self.what {
            Publication::Message { .. } => "publish message",
            Publication::Task(_) => "publish task_create",
        };
        changes.put(AuditEntry {
            actor: Some(self.from.id().clone()),
            corr_id: Some(self.corr_id.clone()),
            peer: published.node.clone(),
            ..AuditEntry::of(format!("pub_{}", self.event), what, now)
        });
        Ok((published, changes))
    }
}

impl Publish {
    fn taken(&self) -> Refusal {
        Refusal::EventAlreadyExists {
            event: self.event.clone(),
        }
    }

    fn dispatch(&self, news: News, now: Timestamp) -> Dispatch {
        let valid_for = self.expires_in.unwrap_or(limits::DISPATCH_VALID_FOR);
        Dispatch {
            id: self.event.clone(),
            from: self.from.id().clone(),
            to: None,
            to_node: None,
            corr_id: self.corr_id.clone(),
            created_at: now,
            expires_at: now + valid_for.min(limits::DISPATCH_VALID_MAX),
            attempt: 1,
            policies: None,
            news,
        }
    }

    fn recipients(&self, want: &mut Want<'_>) -> Whereabouts {
        let Publication::Message { to, .. } = &self.what else {
            return Whereabouts::default();
        };
        match to {
            Targets::Named(agents) => Whereabouts::of(want, agents),
            Targets::All => {
                let mut found = Whereabouts::default();
                let present = want.present_agents().unwrap_or_default();
                let others = present.iter().filter(|id| *id != self.from.id());
                found.here.extend(others.cloned());
                let limit = limits::EVENT_RECIPIENTS_MAX + 1;
                for node in want.privates::<Node>(&Node::all()) {
                    for far in want.privates::<FarAgent>(&FarAgent::of_node(&node.node_id, limit)) {
                        if far.is_live {
                            found.add_far(far);
                        }
                    }
                }
                found
            }
        }
    }

    /// The message, as agents of this node get it.
    fn send(&self, found: &Whereabouts) -> Option<Send> {
        let Publication::Message {
            to,
            payload,
            priority,
            expects_reply,
        } = &self.what
        else {
            return None;
        };
        let to = match to {
            Targets::All => To::Everyone,
            Targets::Named(_) => To::agents(found.here.iter().cloned())?,
        };
        Some(Send {
            id: MessageId::from(self.event.as_str()),
            from: self.from.clone(),
            to,
            kind: "custom".to_owned(),
            payload: payload.clone(),
            ack_required: *expects_reply,
            priority: *priority,
            expires_in: self.expires_in,
            corr_id: self.corr_id.clone(),
            meaning: Meaning::Nothing,
            claims: Vec::new(),
        })
    }

    fn message(&self, slice: &Slice, now: Timestamp) -> Result<(Published, Changes), Refusal> {
        let Publication::Message {
            payload,
            priority,
            expects_reply,
            ..
        } = &self.what
        else {
            unreachable!("only a message is sent");
        };
        let mut want = Want::new(slice);
        let here = gateway(&mut want)?;
        let found = self.recipients(&mut want);
        let recipients = found.all();
        if recipients.is_empty() {
            return Err(Refusal::NoRoute(nobody(&mut want)));
        }
        if recipients.len() > limits::EVENT_RECIPIENTS_MAX {
            return Err(Refusal::TooMany {
                what: "recipients of one event",
                limit: limits::EVENT_RECIPIENTS_MAX,
            });
        }
        let mut changes = Changes::default();
        if let Some(send) = self.send(&found) {
            (_, changes) = send.decide(slice, now)?;
        }
        let mut told = self.dispatch(
            News::Message(Letter {
                to: recipients.clone(),
                routes: found.routes(&here.node_id),
                payload: payload.clone(),
                priority: *priority,
                expects_reply: *expects_reply,
            }),
            now,
        );
        if let [only] = &recipients[..] {
            told.to = Some(only.clone());
        }
        let mut order = Order::new(&told, found.far, here.timings);
        if *expects_reply {
            order.wants = Wants::Outcome;
        }
        order.ignored = found.nobody;
        let published = self.told(slice, &mut changes, (told, order, recipients));
        accept(
            here,
            &mut changes,
            &self.event,
            "message",
            (found.here, None),
            now,
        );
        Ok((published, changes))
    }

    /// Notes the event, and that it is waited for.
    fn told(
        &self,
        slice: &Slice,
        changes: &mut Changes,
        (told, mut order, recipients): (Dispatch, Order, Vec<AgentId>),
    ) -> Published {
        order.sum = self.sum;
        order.recipients.clone_from(&recipients);
        let published = Published {
            event: self.event.clone(),
            seq: slice.head.outbox + 1,
            corr_id: self.corr_id.clone(),
            recipients,
            ignored: order.ignored.clone(),
            node: order.task.as_ref().and_then(|task| task.node.clone()),
        };
        changes.put(order);
        changes.dispatches.push(told);
        published
    }

    fn task(
        &self,
        slice: &Slice,
        task: &Commission,
        now: Timestamp,
    ) -> Result<(Published, Changes), Refusal> {
        let mut want = Want::new(slice);
        let here = gateway(&mut want)?;
        let known = want.private::<Ordered>(task.task.to_string());
        if known.is_some() || slice.task(&task.task).is_some() {
            return Err(Refusal::TaskAlreadyExists {
                task: task.task.clone(),
            });
        }
        let mut found = route(&mut want, task, now)?;
        let mut changes = Changes::default();
        let mut commission = task.clone();
        commission.to.clone_from(&found.agents);
        let mut told = self.dispatch(News::TaskCreate(Box::new(commission)), now);
        if let [only] = &found.agents[..] {
            told.to = Some(only.clone());
        }
        let destination = found.node.clone().map(|node| Destination {
            node,
            agents: found.agents.clone(),
            state: crate::order::Delivered::Emitted,
            reason: None,
        });
        told.to_node = Some(found.node.clone().unwrap_or_else(|| here.node_id.clone()));
        if let Some(by) = found.by.take() {
            told.policies = Some(moved(
                &mut want,
                *by,
                told.to_node.as_ref(),
                &mut changes,
                now,
            ));
        }
        let mut order = Order::new(&told, destination.into_iter().collect(), here.timings);
        order.wants = Wants::Outcome;
        order.ignored = found.ignored;
        let eta_at = match &found.node {
            None => {
                Some(self.create_here(slice, here, (task, &found.agents), &mut changes, now)?)
            }
            Some(_) => {
                changes.put(Ordered {
                    task: task.task.clone(),
                    event: self.event.clone(),
                    at: now,
                });
                None
            }
        };
        order.task = Some(TaskOrder {
            task: task.task.clone(),
            node: told.to_node.clone(),
            requester: task.requester.clone(),
            response_required: task.response_required,
            state: match found.node {
                Some(_) => TaskOrderState::Emitted,
                None => TaskOrderState::Accepted,
            },
            by: None,
            eta_at,
            percent: None,
            note: None,
            capability: task.required.first().cloned(),
            installs: None,
        });
        let able = found.recipients.clone();
        let published = self.told(slice, &mut changes, (told, order, found.recipients));
        if let Some(eta_at) = eta_at {
            let by = (able, Some(eta_at));
            accept(here, &mut changes, &self.event, "task_create", by, now);
        }
        Ok((published, changes))
    }

    /// This node does it itself.
    fn create_here(
        &self,
        slice: &Slice,
        here: &Gateway,
        (task, audience): (&Commission, &[AgentId]),
        changes: &mut Changes,
        now: Timestamp,
    ) -> Result<Timestamp, Refusal> {
        let (_, made) = create(task, audience, &self.corr_id).decide(slice, now)?;
        changes.puts.extend(made.puts);
        changes.events.extend(made.events);
        let origin = (here, &here.node_id, &self.event);
        Ok(sign(slice, changes, task, &self.corr_id, origin, now))
    }
}

/// It was published before: what was said then is said again.
pub(super) fn again(
    known: &Order,
    from: &AgentId,
    sum: u64,
) -> Result<(Published, Changes), Refusal> {
    if known.sum != sum || known.from != *from {
        return Err(Refusal::EventAlreadyExists {
            event: known.event.clone(),
        });
    }
    let published = Published {
        event: known.event.clone(),
        seq: known.seq,
        corr_id: known.corr_id.clone(),
        recipients: known.recipients.clone(),
        ignored: known.ignored.clone(),
        node: known.task.as_ref().and_then(|task| task.node.clone()),
    };
    Ok((published, Changes::default()))
}

/// Where a task goes.
struct Destined {
    /// `None` is this one.
    node: Option<NodeId>,
    /// Those of the node that may take it; empty if skills decide.
    agents: Vec<AgentId>,
    ignored: Vec<AgentId>,
    /// Who may take it, as far as it is known.
    recipients: Vec<AgentId>,
    /// The capability that chose it.
    by: Option<Box<Capability>>,
}

/// One node does it: the one of the agents that are named, else one that can.
fn route(want: &mut Want<'_>, task: &Commission, now: Timestamp) -> Result<Destined, Refusal> {
    if task.to.is_empty() {
        let chosen = by_capability(want, &task.required, now)?;
        return Ok(Destined {
            node: chosen.node,
            agents: Vec::new(),
            ignored: Vec::new(),
            recipients: chosen.agents,
            by: chosen.by,
        });
    }
    let found = Whereabouts::of(want, &task.to);
    let Some(node) = found.node().map(Option::<&NodeId>::cloned) else {
        return Err(Refusal::NoRoute(nobody(want)));
    };
    let mut ignored = found.nobody;
    let mut agents = Vec::new();
    match node.is_none() {
        true => agents = found.here,
        false => ignored.extend(found.here),
    }
    for far in found.far {
        match Some(&far.node) == node.as_ref() {
            true => agents = far.agents,
            false => ignored.extend(far.agents),
        }
    }
    Ok(Destined {
        node,
        recipients: agents.clone(),
        agents,
        ignored,
        by: None,
    })
}

/// By which policies a capability chose this node; that it is another one than before is noted and told.
fn moved(
    want: &mut Want<'_>,
    mut by: Capability,
    to: Option<&NodeId>,
    changes: &mut Changes,
    now: Timestamp,
) -> Box<PolicyVersions> {
    let to = to.filter(|node| **node != by.routing.acting);
    if let Some(to) = to {
        let mut policies = want.private::<Policies>("").cloned().unwrap_or_default();
        by.routing.policy_version = policies.next_routing(now);
        changes.put(policies);
        changes.event(Event::CapabilityMoved {
            capability: by.id().clone(),
            from: by.routing.acting.clone(),
            to: to.clone(),
        });
        by.routing.acting = to.clone();
        changes.put(by.clone());
    }
    Box::new(PolicyVersions {
        routing: by.routing.policy_version,
        capability: by.index.policy_version,
    })
}

/// The task as this node makes it.
pub(super) fn create(task: &Commission, audience: &[AgentId], corr_id: &CorrId) -> CreateTasks {
    let about = Description {
        title: task.title.clone(),
        description: task.description.clone(),
        priority: task.priority,
        required_skills: Skills::new(&task.required),
        audience: audience.to_vec(),
        max_retries: limits::ROUTED_RETRIES,
        ..Description::default()
    };
    let tasks = vec![NewTask {
        about,
        corr_id: corr_id.clone(),
        ..NewTask::plain(task.task.clone(), "")
    }];
    CreateTasks { tasks }
}

/// Puts the contract on the task that was just made, and says when it should be done.
pub(super) fn sign(
    slice: &Slice,
    changes: &mut Changes,
    task: &Commission,
    corr_id: &CorrId,
    (here, origin, event): (&Gateway, &NodeId, &EventId),
    now: Timestamp,
) -> Timestamp {
    let by = terms(&mut Want::new(slice), task);
    let contract = Contract {
        response_required: task.response_required,
        eta_seconds: by.map(|by| by.manifest.eta_seconds),
        deadline_at: task.deadline_at,
        capability: task.required.first().cloned(),
        schema: by.and_then(|by| by.manifest.contract_schema.clone()),
        ..Contract::new(here, origin, event, corr_id, &task.requester)
    };
    if let Some(at) = task.deadline_at {
        let task = task.task.clone();
        changes.put(Deadline { task, at });
    }
    let mut eta_at = now + limits::OUTCOME_WITHIN;
    if let Some(row) = changes.row_mut::<Task>(&task.task) {
        eta_at = contract.eta_at(row, now);
        row.contract = Some(Box::new(contract));
        if by.is_some()
            && let Some(at) = late_at(row)
        {
            let task = task.task.clone();
            changes.put(Promised { task, at });
        }
    }
    eta_at
}

/// The capability that says what is owed, if a task needs one.
pub(super) fn terms<'a>(want: &mut Want<'a>, task: &Commission) -> Option<&'a Capability> {
    let named = task.required.first().filter(|word| is_granted(word))?;
    want.private::<Capability>(named.to_lowercase())
}

/// What is durable here is said to be, on this node's own outbox.
pub(super) fn accept(
    here: &Gateway,
    changes: &mut Changes,
    event: &EventId,
    kind: &str,
    (by, eta_at): (Vec<AgentId>, Option<Timestamp>),
    now: Timestamp,
) {
    if by.is_empty() && kind == "message" {
        return;
    }
    let answer = Answer {
        to: event.clone(),
        kind: kind.to_owned(),
        answer: AnswerKind::Accepted,
        by,
        at: now,
        eta_at,
        reason: None,
        accepts: None,
    };
    let corr_id = changes.dispatches.last().map(|told| told.corr_id.clone());
    let corr_id = corr_id.unwrap_or_else(|| CorrId::new(event.as_str()));
    let salt = format!("{event}|accepted");
    let told = Dispatch::own(&here.node_id, &salt, corr_id, News::Ack(answer), now);
    changes.dispatches.push(told);
}

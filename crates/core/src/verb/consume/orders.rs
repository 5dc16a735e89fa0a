//! What another node says of what it was sent from here: answers, replies, the steps of a task.

use super::super::publish::create;
use super::super::{Send, Verb};
use super::Consume;
use super::effect::Reply;
use crate::changes::Changes;
use crate::id::{AgentId, CorrId, EventId, HUB, NodeId, TaskId};
use crate::incident::Alarm;
use crate::lane::LaneKey;
use crate::limits;
use crate::message::{Meaning, Sender, To};
use crate::node::Gateway;
use crate::order::{Order, Ordered, TaskOrder, TaskOrderState};
use crate::outbox::{Answer, AnswerKind, Commission, FailureClass, News};
use crate::route::{is_eligible, next_node};
use crate::skill_review::Mishap;
use crate::slice::Slice;
use crate::task::Priority;
use crate::time::Timestamp;
use crate::want::Want;

impl Consume {
    pub(super) fn ask_order(&self, want: &mut Want<'_>, event: &EventId, now: Timestamp) {
        let known = want.private::<Order>(event.to_string());
        if let (Some(order), News::Ack(answer)) = (known, &self.event.news) {
            self.next_node(want, order, answer);
        }
        if let Some(order) = known
            && let Some(send) = self.tells(want, order)
        {
            send.asks(want, now);
        }
    }

    pub(super) fn ask_task_order(&self, want: &mut Want<'_>, task: &TaskId, now: Timestamp) {
        self.stray(task).asks(want);
        if let Some(known) = want.private::<Ordered>(task.to_string()) {
            self.ask_order(want, &known.event, now);
        }
    }

    pub(super) fn answered(
        &self,
        slice: &Slice,
        answer: &Answer,
        changes: &mut Changes,
        now: Timestamp,
    ) {
        let known = Want::new(slice).private::<Order>(answer.to.to_string());
        let Some(mut order) = known.cloned() else {
            return;
        };
        let reason = answer.reason.as_deref();
        let sent = order.sent.clone();
        let is_news = order.answer(&self.source, answer.answer, reason, now);
        let is_theirs = |task: &&mut TaskOrder| task.node.as_ref() == Some(&self.source);
        let accepts = order.task.as_mut().filter(is_theirs);
        let accepts =
            accepts.is_some_and(|task| task.accept(answer, |at| self.by_own_clock(at, now)));
        if !is_news && !accepts {
            return;
        }
        if let (true, Some(sent)) = (is_news, sent)
            && let Some(node) = self.next_node(&mut Want::new(slice), &order, answer)
        {
            order.move_to(node, sent, now);
            changes.dispatches.extend(order.sent.as_deref().cloned());
            changes.put(order);
            return;
        }
        if let Some(task) = &mut order.task {
            match answer.answer {
                AnswerKind::Accepted if task.state == TaskOrderState::Emitted => {
                    task.state = TaskOrderState::Accepted;
                    let eta_at = answer.eta_at.map(|at| self.by_own_clock(at, now));
                    task.eta_at = eta_at.or(task.eta_at);
                }
                AnswerKind::Failed => {
                    task.state = TaskOrderState::Failed;
                    task.note.clone_from(&answer.reason);
                }
                AnswerKind::Accepted | AnswerKind::Processed => {}
            }
            order.settle(now);
        }
        if accepts || answer.answer == AnswerKind::Failed {
            self.tell_requester(slice, &order, changes, now);
        }
        changes.put(order);
    }

    /// A task that capabilities routed goes on to the next node that can do it, if this one cannot.
    fn next_node(&self, want: &mut Want<'_>, order: &Order, answer: &Answer) -> Option<NodeId> {
        let reason = answer.reason.as_deref().and_then(FailureClass::parse)?;
        let moves = matches!(
            reason,
            FailureClass::Overloaded | FailureClass::CapabilityUnavailable
        );
        let task = order
            .task
            .as_ref()
            .filter(|task| task.node.as_ref() == Some(&self.source))?;
        let by_name = order.destinations.iter().any(|one| !one.agents.is_empty());
        let capability = task.capability.as_ref().filter(|_| !by_name && moves)?;
        let here = want.private::<Gateway>("")?.node_id.clone();
        let tried = order.destinations.iter().map(|one| one.node.clone());
        let tried: Vec<NodeId> = tried.chain([here]).collect();
        next_node(want, capability, &tried)
    }

    /// A reply is a message to whoever is waiting for it, and the last answer to what it replies to.
    pub(super) fn replied(
        &self,
        slice: &Slice,
        to: &EventId,
        changes: &mut Changes,
        now: Timestamp,
    ) -> Option<Reply> {
        let known = Want::new(slice).private::<Order>(to.to_string());
        let Some(mut order) = known.cloned() else {
            return self.unknown();
        };
        order.destination(&self.source)?;
        let by = vec![order.from.clone()];
        order.answer(&self.source, AnswerKind::Processed, None, now);
        self.tell_requester(slice, &order, changes, now);
        changes.put(order);
        Some(Reply::accepted(by))
    }

    /// A step of a task that the source does for somebody here. From any other node it is none.
    pub(super) fn task_moved(
        &self,
        slice: &Slice,
        changes: &mut Changes,
        now: Timestamp,
    ) -> Option<Reply> {
        let id = self.task_id()?;
        let mut want = Want::new(slice);
        let known = want.private::<Ordered>(id.to_string());
        let known = known.and_then(|known| want.private::<Order>(known.event.to_string()));
        let Some(mut order) = known.cloned() else {
            return self.unknown();
        };
        let is_same = order.corr_id == self.event.corr_id;
        let task = order.task.as_mut()?;
        let is_theirs = is_same && task.node.as_ref() == Some(&self.source);
        if is_theirs && task.ended_by(&self.event.news) {
            return Some(Reply::accepted(vec![order.from.clone()]));
        }
        if !is_theirs || task.is_over() {
            self.stray(id).raise(slice, changes, now);
            return None;
        }
        match &self.event.news {
            News::TaskComplete { by, .. } if !is_installed(task, self.installed.as_ref()) => {
                (task.state, task.by) = (TaskOrderState::Failed, Some(by.clone()));
                task.note = Some(
                    "contract_violation: it does not say that the skill is installed".to_owned(),
                );
            }
            news => task.follow(news, |at| self.by_own_clock(at, now)),
        }
        if let News::TaskFailed { class, .. } = &self.event.news {
            let named = task.capability.as_deref();
            let mishap = Mishap::of(named, *class, &order.corr_id, now);
            mishap.into_iter().for_each(|mishap| changes.put(mishap));
        }
        let is_end = task.is_over();
        if is_end {
            order.answer(&self.source, AnswerKind::Processed, None, now);
        } else {
            order.settle(now);
        }
        self.tell_requester(slice, &order, changes, now);
        let by = vec![order.from.clone()];
        changes.put(order);
        is_end.then(|| Reply::accepted(by))
    }

    /// Clocks of nodes differ: what counts is how long it takes from the event on.
    fn by_own_clock(&self, at: Timestamp, now: Timestamp) -> Timestamp {
        now + at.since(self.event.created_at)
    }

    /// What it is about is nothing that this node waits for. Who says that it is meant is told.
    fn unknown(&self) -> Option<Reply> {
        let is_meant = self.event.to_node.is_some() && self.event.news.is_answered();
        is_meant.then(|| Reply::failed("invalid_target"))
    }

    fn task_id(&self) -> Option<&TaskId> {
        match &self.event.news {
            News::TaskAccept { task, .. }
            | News::TaskUpdate { task, .. }
            | News::TaskComplete { task, .. }
            | News::TaskFailed { task, .. } => Some(task),
            News::Message(_)
            | News::Reply { .. }
            | News::TaskCreate(_)
            | News::Ack(_)
            | News::Signal { .. }
            | News::DeadLetter { .. }
            | News::Other { .. } => None,
        }
    }

    /// The message by which somebody here hears of the event, if one does.
    fn tells(&self, want: &mut Want<'_>, order: &Order) -> Option<Send> {
        let wants_response = order
            .task
            .as_ref()
            .is_some_and(|task| task.response_required);
        let (kind, by) = match &self.event.news {
            News::Reply { .. } => ("custom", Some(&self.event.from)),
            news @ (News::TaskAccept { .. }
            | News::TaskComplete { .. }
            | News::TaskFailed { .. }) => {
                let (kind, by) = news.tells_requester()?;
                (kind, Some(by))
            }
            News::Ack(answer) => match answer.answer {
                AnswerKind::Failed => ("task.failed", None),
                AnswerKind::Accepted => {
                    let task = order.task.as_ref()?;
                    ("task.accepted", Some(answer.accepted(&task.task)?.0))
                }
                AnswerKind::Processed => return None,
            },
            News::Message(_)
            | News::TaskCreate(_)
            | News::TaskUpdate { .. }
            | News::Signal { .. }
            | News::DeadLetter { .. }
            | News::Other { .. } => return None,
        };
        if !wants_response && kind != "custom" {
            return None;
        }
        let by = by.map_or_else(|| AgentId::from(HUB), |by| self.name_of(want, by));
        let to = order
            .task
            .as_ref()
            .map_or(&order.from, |task| &task.requester);
        Some(Send {
            id: self.message_id(),
            from: Sender::Person(by),
            to: To::One(to.clone()),
            kind: kind.to_owned(),
            payload: self.payload.clone(),
            ack_required: false,
            priority: Priority::Medium,
            expires_in: None,
            corr_id: order.corr_id.clone(),
            meaning: Meaning::Nothing,
            claims: Vec::new(),
        })
    }

    /// Who has left, or has too much waiting, is not told: the order shows it.
    fn tell_requester(&self, slice: &Slice, order: &Order, changes: &mut Changes, now: Timestamp) {
        let Some(send) = self.tells(&mut Want::new(slice), order) else {
            return;
        };
        if let Ok((_, sent)) = send.decide(slice, now) {
            changes.puts.extend(sent.puts);
            changes.events.extend(sent.events);
        }
    }

    /// A step of a task that is not the source's, or came after its end.
    fn stray(&self, task: &TaskId) -> Alarm {
        let kind = self.event.news.kind();
        Alarm {
            subject: format!("{} {task}", self.source),
            ..self.alarm(
                "stray_task_event",
                &format!("its {kind} of task {task} counts for nothing: the task is another node's, or over"),
            )
        }
    }
}

/// Whether a completion says that what was to be installed is, if anything was.
fn is_installed(task: &TaskOrder, said: Option<&(String, String)>) -> bool {
    let wanted = task.installs.as_ref();
    wanted.is_none_or(|skill| {
        said.is_some_and(|(name, version)| *name == skill.name && *version == skill.version)
    })
}

/// Whether too many tasks like this one wait for each agent of this node that may take it.
pub(super) fn is_overloaded(
    want: &mut Want<'_>,
    task: &Commission,
    audience: &[AgentId],
    now: Timestamp,
) -> bool {
    let able = match audience {
        [] => {
            let present = want.present_agents().unwrap_or_default();
            let able = present.iter().filter_map(|id| want.agent(id));
            able.filter(|agent| is_eligible(agent, &task.required))
                .count()
        }
        named => named.len(),
    };
    let made = create(task, audience, &CorrId::new("")).tasks;
    let keys = made.iter().map(|new| LaneKey::of(&new.task(0, now)));
    let mut waiting = 0;
    for key in keys {
        for priority in Priority::ALL {
            let key = LaneKey {
                priority: *priority,
                ..key.clone()
            };
            waiting += want.lane_for(&key).map_or(0, |lane| lane.ready);
        }
    }
    waiting >= limits::ROUTED_WAITING_MAX * able.max(1) as u64
}

//! Work for an idle worker: it stands in the same queue as everyone who waits for a task, and is told when one is its own.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use switchboard_core::query::TaskRef;
use switchboard_core::verb::{Assign, Claim, Filter, Unassign};
use switchboard_core::{AgentId, Refusal, Task, TaskId, TaskStatus};
use switchboard_wire::agentbus::UtcTime;
use switchboard_wire::agentbus::message::TaskAssigned;
use switchboard_wire::agentbus::parts::InParts as _;
use switchboard_wire::agentbus::redact;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::super::frame::send;
use super::super::server::Shared;
use super::{Held, Worker};
use crate::hub::Error;
use crate::stream::{RETRY_AFTER, Sought};

/// A worker that leaves so many offers in a row unanswered gets no more before it connects anew.
const UNANSWERED_MAX: u32 = 3;

/// How a worker comes to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    New,
    /// It accepted it on an earlier connection.
    Resumed,
}

/// One of those who may have a task at a time, where there is a bound.
pub(super) enum Slot {
    None,
    Waiting(AbortOnDropHandle<OwnedSemaphorePermit>),
    Held(#[allow(dead_code)] OwnedSemaphorePermit),
}

impl Slot {
    /// One of them, or a place in the queue for one: from now on, not from when a task first runs.
    fn ask(slots: &Arc<Semaphore>) -> Slot {
        let mut permit = Box::pin(Arc::clone(slots).acquire_owned());
        let never_closed = "the slots are never closed";
        match (&mut permit).now_or_never() {
            Some(permit) => Slot::Held(permit.expect(never_closed)),
            None => {
                let permit = async move { permit.await.expect(never_closed) };
                Slot::Waiting(AbortOnDropHandle::new(tokio::spawn(permit)))
            }
        }
    }

    pub async fn granted(&mut self) -> OwnedSemaphorePermit {
        match self {
            Slot::Waiting(permit) => match permit.await {
                Ok(permit) => permit,
                Err(_) => std::future::pending().await,
            },
            Slot::None | Slot::Held(_) => std::future::pending().await,
        }
    }
}

impl Worker {
    /// Takes the next task, if it may have one; else it waits in the queue.
    pub(super) async fn seek_work(&mut self, bus: &Shared) {
        if !self.may_work(bus) {
            return self.stream.leave_queue();
        }
        let assign = Assign {
            claim: Claim {
                agent: self.id.clone(),
                filter: self.filter(),
                task: None,
            },
            cap: bus.config.watchdog,
            stale_after: bus.config.claim_stale,
        };
        match self.stream.seek(&self.agent, assign).await {
            Ok(Sought::Task(task)) => self.offer(bus, &task, Offer::New),
            Ok(Sought::Nothing(look_at)) => {
                // It waits without a slot: whoever finds a task it may do takes one.
                self.slot = Slot::None;
                self.look_at = look_at.or(self.look_at);
                self.look_for_spared(bus);
            }
            Err(Error::Refused(Refusal::AgentNotRegistered { .. })) => self.sign_off(),
            Err(error) => {
                self.slot = Slot::None;
                self.looks_again_after(&error);
            }
        }
    }

    /// After a look that failed, if the next one may not.
    pub(super) fn looks_again_after(&mut self, error: &Error) {
        if error.may_pass() {
            self.look_at = Some(Instant::now() + RETRY_AFTER);
        }
    }

    /// What was taken back from it may be pushed to it again then, and nothing else tells it so.
    fn look_for_spared(&mut self, bus: &Shared) {
        let now = bus.hub.time();
        if let Some(until) = self.agent.spared(now).map(|spared| spared.until).min() {
            let at = Instant::now() + until.since(now);
            self.look_at = Some(self.look_at.map_or(at, |look_at| look_at.min(at)));
        }
    }

    fn filter(&self) -> Filter {
        Filter {
            excluded: self.declined.iter().cloned().collect::<HashSet<_>>(),
            ..Filter::default()
        }
    }

    /// Idle, able, and nothing holds it back.
    fn may_work(&mut self, bus: &Shared) -> bool {
        let is_idle = self.assigns
            && self.agent.is_live()
            && self.held.is_empty()
            && !self.agent.is_stopping()
            && self.unanswered < UNANSWERED_MAX
            && self.outbox.ended().is_none();
        if !is_idle || !*self.open.borrow_and_update() {
            if self.held.is_empty() {
                self.slot = Slot::None;
            } else if self.assigns {
                // Also what it brought along from an earlier connection takes a place.
                self.has_slot(bus);
            }
            return false;
        }
        self.has_slot(bus)
    }

    /// Whether it may have a task as far as the bound goes; if not, it will hear when it may.
    fn has_slot(&mut self, bus: &Shared) -> bool {
        match (&bus.slots, &self.slot) {
            (None, _) | (Some(_), Slot::Held(_)) => true,
            (Some(slots), Slot::None) => {
                self.slot = Slot::ask(slots);
                matches!(self.slot, Slot::Held(_))
            }
            (Some(_), Slot::Waiting(_)) => false,
        }
    }

    /// A task is over: those who wait for a slot come first, before it looks for its next one.
    pub(super) fn give_way(&mut self) {
        if self.held.is_empty() {
            self.slot = Slot::None;
        }
    }

    /// Tells it of a task that is its own, and waits for it to say so.
    pub(super) fn offer(&mut self, bus: &Shared, task: &Task, offer: Offer) {
        let mut held = Held::of(task);
        held.answer_by = Some(Instant::now() + bus.config.accept_within);
        self.held.push(held);
        // Other doors take what they are given.
        let said = |text: &str| redact::said(text).into_owned();
        let title = said(&task.about.title);
        let description = said(task.about.description.as_deref().unwrap_or_default());
        let files: Vec<String> = task.about.files.iter().map(|file| said(file)).collect();
        let branch = task.about.branch.as_deref().map(said);
        let texts = files.iter().chain(&branch).chain([&title, &description]);
        let message = TaskAssigned {
            issue_number: task.number,
            task_id: task.id.to_string(),
            epoch: task.epoch,
            attempt: task.retries + 1,
            redacted: texts.map(|text| redact::count(text)).sum(),
            title,
            description,
            files,
            branch,
            deadline: task.watch.map(|watch| UtcTime(watch.deadline_at.0)),
            corr_id: Some(task.corr_id.to_string()),
            resumed: offer == Offer::Resumed,
            part: 1,
            parts: 1,
        };
        for part in message.cut(bus.room("task_assigned.v1")) {
            send(&self.outbox, part);
        }
    }

    /// After a hello: what it was offered and never answered is offered again, under the same epoch, and so is what it
    /// had accepted. If it does not know of it any more, others may have it.
    pub(super) async fn offer_again(&mut self, bus: &Shared) {
        if !self.assigns {
            return;
        }
        let open = |held: &mut Held| !held.accepted || held.pushed;
        let open: Vec<_> = self.held.extract_if(.., open).collect();
        for held in open {
            let offer = match held.accepted {
                true => Offer::Resumed,
                false => Offer::New,
            };
            let which = TaskRef::Id(held.task.clone());
            match bus.hub.read(move |reader| reader.task(&which)).await {
                Ok(Some(task)) if task.epoch == held.epoch => self.offer(bus, &task, offer),
                _ => self.held.push(held),
            }
        }
    }

    /// Offers that were not answered in time go back to the queue.
    pub(super) async fn take_back_unanswered(&mut self, bus: &Shared, now: Instant) {
        let is_late = |held: &mut Held| held.answer_by.is_some_and(|by| by <= now);
        let late: Vec<_> = self.held.extract_if(.., is_late).collect();
        if late.is_empty() {
            return;
        }
        for mut held in late {
            let unassign = Unassign {
                task: held.task.clone(),
                epoch: held.epoch,
            };
            match bus.hub.run(unassign).await {
                Err(error) if error.may_pass() => {
                    held.answer_by = Some(now + RETRY_AFTER);
                    self.held.push(held);
                }
                _ => {
                    self.unanswered += 1;
                    if !held.accepted {
                        self.decline(held.task.clone());
                    }
                    self.tell_revoked(&held, "not accepted in time".to_owned());
                }
            }
        }
        // It may have been given up at another door, and then nothing rings.
        self.refresh(bus).await;
    }

    /// What it accepted and knows nothing of any more goes back to the queue.
    pub(super) async fn take_back_forgotten(&mut self, bus: &Shared) {
        self.beat.is_busy();
        let forgotten = self.held.iter().filter(|held| held.is_under_way());
        let unassigns: Vec<_> = forgotten
            .map(|held| Unassign {
                task: held.task.clone(),
                epoch: held.epoch,
            })
            .collect();
        for unassign in unassigns {
            let task = unassign.task.clone();
            if let Err(error) = bus.hub.run(unassign).await {
                tracing::debug!(%error, "a task that its worker no longer mentions will be released later");
                continue;
            }
            let gone = |held: &mut Held| held.task == task;
            let gone: Vec<_> = self.held.extract_if(.., gone).collect();
            for held in gone {
                let reason = "two heartbeats reported that the worker is idle";
                self.tell_revoked(&held, reason.to_owned());
            }
        }
        self.give_way();
        self.refresh(bus).await;
    }
}

/// An offer whose worker went away before it answered: if it is not back in time, others may have the task.
pub(super) async fn take_back_later(bus: Arc<Shared>, agent: AgentId, task: TaskId, epoch: u64) {
    tokio::select! {
        () = tokio::time::sleep(bus.config.accept_within) => {}
        () = bus.stopping.cancelled() => return,
    }
    // Whoever is back is offered it again, and asked again.
    if bus.registry.has_worker(&agent) {
        return;
    }
    let which = TaskRef::Id(task.clone());
    let found = bus.hub.read(move |reader| reader.task(&which)).await;
    let is_open = |task: &Task| {
        task.status() == TaskStatus::Claimed && task.epoch == epoch && task.holder() == Some(&agent)
    };
    if !matches!(&found, Ok(Some(task)) if is_open(task)) {
        return;
    }
    if let Err(error) = bus.hub.run(Unassign { task, epoch }).await {
        tracing::debug!(%error, "an unanswered offer was not withdrawn; it ends with the worker's timeout");
    }
}

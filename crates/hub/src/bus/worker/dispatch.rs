//! Work for an idle worker: it stands in the same queue as everyone who waits for a task, and is told when one is its own.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use switchboard_core::verb::{Assign, Claim, Claimed, Filter, ReleaseTask};
use switchboard_core::{AgentId, Refusal, Task, TaskId, TaskStatus};
use switchboard_wire::agentbus::UtcTime;
use switchboard_wire::agentbus::message::TaskAssigned;
use switchboard_wire::agentbus::parts::InParts as _;
use switchboard_wire::agentbus::redact;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::super::connection::send;
use super::super::server::Shared;
use super::{Held, RETRY_AFTER, Worker};
use crate::hub::Error;
use crate::wakeups::Wakeups;

/// A worker that leaves so many offers in a row unanswered gets no more before it connects anew.
const UNANSWERED_MAX: u32 = 3;

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
            self.waiter = None;
            return;
        }
        if self.waiter.is_none() {
            let agent = (*self.agent).clone();
            let waiter = Wakeups::wait_for_task(&bus.hub.shared, agent, self.filter());
            self.waiter = Some(waiter);
        }
        let errand = self.waiter.as_ref().and_then(|waiter| waiter.errand());
        let assign = Assign {
            claim: Claim {
                agent: self.id.clone(),
                filter: self.filter(),
                task: None,
            },
            cap: bus.config.watchdog,
            stale_after: bus.config.claim_stale,
        };
        match bus.hub.run(assign).await {
            Ok(Claimed::Task(task)) => {
                let took = errand.filter(|errand| errand.lane().matches(&task));
                took.into_iter().for_each(|errand| errand.settle());
                self.waiter = None;
                self.offer(bus, &task);
            }
            Ok(Claimed::None(nothing)) => {
                // It waits without a slot: whoever finds a task it may do takes one.
                self.slot = Slot::None;
                let far = Instant::now() + RETRY_AFTER * 8;
                let passed_on = bus.hub.pass_on(errand, far).await.ok();
                let waiter = self.waiter.as_ref();
                let turn = waiter.and_then(|waiter| bus.hub.turn_after_others(waiter, &nothing));
                if let Some(at) = passed_on
                    .filter(|at| *at < far)
                    .into_iter()
                    .chain(turn)
                    .min()
                {
                    self.look_at = Some(at);
                }
            }
            Err(Error::Refused(Refusal::AgentNotRegistered { .. })) => self.sign_off(),
            Err(error) => {
                drop(errand);
                self.slot = Slot::None;
                if error.may_pass() {
                    self.look_at = Some(Instant::now() + RETRY_AFTER);
                }
            }
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

    /// Tells it of a task that is its own from now on.
    pub(super) fn offer(&mut self, bus: &Shared, task: &Task) {
        let mut held = Held::of(task);
        held.answer_by = Some(Instant::now() + bus.config.accept_within);
        self.held.push(held);
        let message = TaskAssigned {
            issue_number: task.number,
            task_id: task.id.to_string(),
            epoch: task.epoch,
            attempt: task.retries + 1,
            title: redact::tokens(&task.title).into_owned(),
            description: redact::tokens(task.description.as_deref().unwrap_or_default())
                .into_owned(),
            files: task.files.clone(),
            branch: task.branch.clone(),
            deadline: task.watch.map(|watch| UtcTime(watch.deadline_at.0)),
            corr_id: Some(task.corr_id.to_string()),
            part: 1,
            parts: 1,
        };
        for part in message.cut(bus.room("task_assigned.v1")) {
            send(&self.outbox, part);
        }
    }

    /// After a reconnect: what it was offered and never answered is offered again, under the same epoch.
    pub(super) async fn offer_again(&mut self, bus: &Shared) {
        if !self.assigns {
            return;
        }
        let open: Vec<_> = self.held.extract_if(.., |held| !held.accepted).collect();
        for held in open {
            let which = switchboard_store::TaskRef::Id(held.task.clone());
            match bus.hub.read(move |reader| reader.task(&which)).await {
                Ok(Some(task)) if task.epoch == held.epoch => self.offer(bus, &task),
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
            let release = ReleaseTask {
                task: held.task.clone(),
                agent: None,
                epoch: Some(held.epoch),
            };
            match bus.hub.run(release).await {
                Err(error) if error.may_pass() => {
                    held.answer_by = Some(now + RETRY_AFTER);
                    self.held.push(held);
                }
                _ => {
                    self.unanswered += 1;
                    self.decline(held.task.clone());
                    self.tell_revoked(&held, "not accepted in time".to_owned());
                }
            }
        }
        // It may have been given up at another door, and then nothing rings.
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
    let which = switchboard_store::TaskRef::Id(task.clone());
    let found = bus.hub.read(move |reader| reader.task(&which)).await;
    let is_open = |task: &Task| {
        task.status() == TaskStatus::Claimed && task.epoch == epoch && task.holder() == Some(&agent)
    };
    if !matches!(&found, Ok(Some(task)) if is_open(task)) {
        return;
    }
    let release = ReleaseTask {
        task,
        agent: None,
        epoch: Some(epoch),
    };
    if let Err(error) = bus.hub.run(release).await {
        tracing::debug!(%error, "an offer that nobody answered ends with its worker's time");
    }
}

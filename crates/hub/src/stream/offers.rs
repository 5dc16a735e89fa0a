//! Tasks that are pushed over a stream: an idle agent stands in the same queue as everyone who waits for a task, is told
//! when one is its own, and says whether it takes it.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use switchboard_core::query::TaskRef;
use switchboard_core::verb::{Assign, Claim, Claimed, Filter, ReleaseTask, Unassign};
use switchboard_core::{Agent, Refusal, Task, TaskId, TaskStatus, limits};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::standing::Look;
use super::{RETRY_AFTER, Stream, Voice};
use crate::hub::Error;
use crate::wakeups::Wakeups;

/// An agent that leaves so many offers in a row unanswered gets no more before it connects anew.
const UNANSWERED_MAX: u32 = 3;
/// Tasks it refused on this stream; past it the first is offered again.
const DECLINED_MAX: usize = limits::EXCLUDED_IDS_MAX;

/// How an agent comes to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    New,
    /// It accepted it on an earlier connection.
    Resumed,
}

/// A task in an agent's hands.
pub(crate) struct Held {
    pub number: u64,
    pub task: TaskId,
    pub epoch: u64,
    pub corr_id: String,
    pub accepted: bool,
    /// It was pushed to it, not claimed at another door.
    pushed: bool,
    /// An offer that is not answered by then is taken back.
    pub(super) answer_by: Option<Instant>,
}

impl Held {
    pub(super) fn of(task: &Task) -> Held {
        Held {
            number: task.number,
            task: task.id.clone(),
            epoch: task.epoch,
            corr_id: task.corr_id.to_string(),
            accepted: task.status() == TaskStatus::InProgress,
            pushed: task.watch.is_some(),
            answer_by: None,
        }
    }

    /// Accepted over a stream, and nobody asks whether it still is.
    fn is_under_way(&self) -> bool {
        self.pushed && self.accepted && self.answer_by.is_none()
    }

    fn accept(&mut self) {
        (self.accepted, self.answer_by) = (true, None);
    }

    fn unassign(&self) -> Unassign {
        Unassign {
            task: self.task.clone(),
            epoch: self.epoch,
        }
    }
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

/// What the agent says of its tasks.
impl<V: Voice> Stream<V> {
    pub fn held(&self, number: u64) -> Option<&Held> {
        self.held.iter().find(|held| held.number == number)
    }

    fn held_mut(&mut self, number: u64) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.number == number)
    }

    pub fn is_free(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether it is at something that it accepted on a stream.
    pub fn is_under_way(&self) -> bool {
        self.held.iter().any(Held::is_under_way)
    }

    /// It takes what it was offered; whether that is news, if it was.
    pub fn accepts(&mut self, number: u64, epoch: u64) -> Option<bool> {
        let held = self.held_mut(number).filter(|held| held.epoch == epoch)?;
        let is_news = !held.accepted;
        held.accept();
        self.unanswered = 0;
        Some(is_news)
    }

    /// It names a task as its own: that counts as accepted.
    pub fn names(&mut self, task: &TaskId) {
        if let Some(held) = self.held.iter_mut().find(|held| held.task == *task) {
            held.accept();
            self.unanswered = 0;
        }
    }

    /// It said something of a task: nobody asks any more whether it knows of it.
    pub fn answers(&mut self, number: u64) -> Option<&Held> {
        let held = self.held_mut(number)?;
        held.answer_by = None;
        Some(held)
    }

    /// It will not have what it was offered. False if it was not.
    pub async fn declines(&mut self, number: u64, epoch: u64) -> bool {
        let Some(held) = self.held(number).filter(|held| held.epoch == epoch) else {
            return false;
        };
        let task = held.task.clone();
        self.decline(task.clone());
        self.unanswered = 0;
        let release = ReleaseTask {
            task,
            agent: Some(self.agent.id.clone()),
            epoch: Some(epoch),
        };
        let outcome = self.insist(release).await;
        self.settle(number, outcome.map(drop)).await;
        true
    }

    /// A task that it brought along is its own.
    pub fn adopts(&mut self, task: &Task) {
        let mut held = Held::of(task);
        held.accepted = true;
        self.held.push(held);
        self.waiter = None;
    }

    /// A claim ended, or was none any more. Why not, if it still holds it.
    pub async fn settle(&mut self, number: u64, outcome: Result<(), Error>) -> Option<Refusal> {
        match outcome {
            Ok(()) => {
                self.held.retain(|held| held.number != number);
                self.give_way();
                self.seek_work().await;
                None
            }
            Err(error) => {
                // If it is lost, or nobody knows what became of it, the ledger tells.
                self.refresh().await;
                match error {
                    Error::Refused(refusal) => self.held(number).map(|_| refusal),
                    _ => None,
                }
            }
        }
    }

    /// Not to be offered to it again, as long as this connection lasts.
    fn decline(&mut self, task: TaskId) {
        self.declined.push_back(task);
        if self.declined.len() > DECLINED_MAX {
            self.declined.pop_front();
        }
    }
}

/// What it is given.
impl<V: Voice> Stream<V> {
    /// Takes the next task, if it may have one; else it stands in the queue as what the agent is now.
    pub async fn seek_work(&mut self) {
        if !self.may_work() {
            self.waiter = None;
            return;
        }
        match self.seek().await {
            Ok(Some(task)) => self.offer(&task, Offer::New),
            // It waits without a slot: whoever finds a task it may do takes one.
            Ok(None) => self.slot = Slot::None,
            Err(Error::Refused(Refusal::AgentNotRegistered { .. })) => self.sign_off(),
            Err(error) => {
                self.slot = Slot::None;
                self.looks_again_after(&error);
            }
        }
    }

    async fn seek(&mut self) -> Result<Option<Box<Task>>, Error> {
        let filter = Filter {
            excluded: self.declined.iter().cloned().collect::<HashSet<_>>(),
            ..Filter::default()
        };
        let (shared, agent) = (&self.hub.shared, &self.agent);
        let wait = || Wakeups::wait_for_task(shared, Agent::clone(agent), filter.clone());
        let waiter = self.waiter.get_or_insert_with(wait);
        // Whatever fails from here on drops it: what it was woken for goes to the next one.
        let errand = waiter.errand();
        let assign = Assign {
            claim: Claim {
                agent: self.agent.id.clone(),
                filter,
                task: None,
            },
            cap: self.terms.cap,
            stale_after: self.terms.stale_after,
        };
        match self.hub.run(assign).await? {
            Claimed::Task(task) => {
                let took = errand.filter(|errand| errand.lane().matches(&task));
                took.into_iter().for_each(|errand| errand.settle());
                self.waiter = None;
                Ok(Some(task))
            }
            Claimed::None(nothing) => {
                let far = Instant::now() + RETRY_AFTER * 8;
                let passed_on = self.hub.pass_on(errand, far).await.ok();
                let turn = self.hub.turn_after_others(waiter, &nothing);
                let sooner = passed_on.filter(|at| *at < far).into_iter().chain(turn);
                self.look_at = sooner.min().or(self.look_at);
                // What was taken back from it may be pushed to it again then, and nothing else tells it so.
                let now = self.hub.time();
                let spared = self.agent.spared(now).map(|spared| spared.until).min();
                let spared = spared.map(|until| Instant::now() + until.since(now));
                self.look_at = spared.into_iter().chain(self.look_at).min();
                Ok(None)
            }
        }
    }

    /// Idle, able, and nothing holds it back.
    fn may_work(&mut self) -> bool {
        let is_idle = self.terms.tasks
            && self.agent.is_live()
            && self.held.is_empty()
            && !self.agent.is_stopping()
            && self.unanswered < UNANSWERED_MAX
            && self.voice.outbox().ended().is_none();
        if !is_idle || !*self.terms.open.borrow_and_update() {
            if self.held.is_empty() {
                self.slot = Slot::None;
            } else if self.terms.tasks {
                // Also what it brought along from an earlier connection takes a place.
                self.has_slot();
            }
            return false;
        }
        self.has_slot()
    }

    /// Whether it may have a task as far as the bound goes; if not, it will hear when it may.
    fn has_slot(&mut self) -> bool {
        match (&self.terms.slots, &self.slot) {
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
    fn offer(&mut self, task: &Task, offer: Offer) {
        let mut held = Held::of(task);
        held.answer_by = Some(Instant::now() + self.terms.accept_within);
        self.held.push(held);
        self.voice.offer(task, offer);
    }

    /// After a hello: what it was offered and never answered is offered again, under the same epoch, and so is what it
    /// had accepted. If it does not know of it any more, others may have it.
    pub async fn offer_again(&mut self) {
        if !self.terms.tasks {
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
            match self.hub.read(move |reader| reader.task(&which)).await {
                Ok(Some(task)) if task.epoch == held.epoch => self.offer(&task, offer),
                _ => self.held.push(held),
            }
        }
    }

    /// Takes note of a task that is its own by the ledger.
    pub(super) fn know_held(&mut self, task: &Task) {
        let is_accepted = task.status() == TaskStatus::InProgress;
        let is_pushed = self.terms.tasks && task.watch.is_some();
        match self.held_mut(task.number) {
            // One that is asked whether it still knows of it has to say so itself.
            Some(held) if is_accepted && !held.accepted => held.accept(),
            Some(_) => {}
            // Pushed to it on a connection that was replaced, or in a commit of which nobody heard.
            None if is_pushed && !is_accepted => self.offer(task, Offer::New),
            None => self.held.push(Held::of(task)),
        }
    }

    /// Offers that were not answered in time go back to the queue.
    pub(super) async fn take_back_unanswered(&mut self, now: Instant) {
        let is_late = |held: &mut Held| held.answer_by.is_some_and(|by| by <= now);
        let late: Vec<_> = self.held.extract_if(.., is_late).collect();
        if late.is_empty() {
            return;
        }
        for mut held in late {
            match self.hub.run(held.unassign()).await {
                Err(error) if error.may_pass() => {
                    held.answer_by = Some(now + RETRY_AFTER);
                    self.held.push(held);
                }
                _ => {
                    self.unanswered += 1;
                    if !held.accepted {
                        self.decline(held.task.clone());
                    }
                    self.voice.revoke(&held, "not accepted in time".to_owned());
                }
            }
        }
        // It may have been given up at another door, and then nothing rings.
        self.refresh().await;
    }

    /// What it accepted and knows nothing of any more goes back to the queue.
    pub async fn take_back_forgotten(&mut self, reason: &str) {
        let forgotten = |held: &mut Held| held.is_under_way();
        let forgotten: Vec<_> = self.held.extract_if(.., forgotten).collect();
        for held in forgotten {
            match self.hub.run(held.unassign()).await {
                Ok(()) => self.voice.revoke(&held, reason.to_owned()),
                Err(error) => {
                    tracing::debug!(%error, "a task that its worker no longer mentions will be released later");
                    self.held.push(held);
                }
            }
        }
        self.give_way();
        self.refresh().await;
    }

    /// Offers that it went away from before it answered: if it is not back in time, others may have them.
    pub(super) fn take_back_later(&mut self) {
        let unanswered = |held: &mut Held| !held.accepted;
        let unanswered: Vec<_> = self.held.extract_if(.., unanswered).collect();
        if unanswered.is_empty() {
            return;
        }
        let (hub, agent, stream) = (self.hub.clone(), self.agent.id.clone(), self.name.clone());
        let (within, stopping) = (self.terms.accept_within, self.terms.stopping.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(within) => {}
                () = stopping.cancelled() => return,
            }
            let Ok(Some((agent, tasks))) = hub.run(Look { agent }).await else {
                return;
            };
            // Whoever is back is offered them again, and asked again.
            if agent.stream.name.is_some_and(|name| name != stream) {
                return;
            }
            for held in unanswered {
                let is_open = |task: &Task| {
                    let is_same = task.id == held.task && task.epoch == held.epoch;
                    is_same && task.status() == TaskStatus::Claimed
                };
                if tasks.iter().any(is_open)
                    && let Err(error) = hub.run(held.unassign()).await
                {
                    tracing::debug!(%error, "an unanswered offer was not withdrawn; it ends with the worker's timeout");
                }
            }
        });
    }
}

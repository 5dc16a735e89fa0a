//! A worker's connection: an agent of the ledger with one more door.
//!
//! What it holds is kept here beside the ledger and put right whenever the ledger says so; every change is a verb.

mod beat;
mod dispatch;
mod mail;
mod result;
mod standing;
mod sync;
mod tasks;

use std::collections::VecDeque;
use std::sync::Arc;

use switchboard_core::changes::Nonce;
use switchboard_core::verb::{CloseDoor, Deregister, Join};
use switchboard_core::{Agent, AgentId, Door, MessageId, Skills, Task, TaskId, TaskStatus, Verb};
use switchboard_wire::agentbus::envelope::Envelope;
use switchboard_wire::agentbus::message::{
    BudgetRequest, CAPABILITY_ASSIGN, CAPABILITY_MESSAGE, Hello, Inbound, TaskResult, WorkerLeaving,
};
use switchboard_wire::agentbus::session::Peer;
use switchboard_wire::agentbus::{Fault, Flag, Role, redact};
use tokio::sync::watch;
use tokio::time::Instant;

use super::board::Entry;
use super::drift::Behind;
use super::frame::Outbox;
use super::frame::send;
use super::server::Shared;
use super::{memory, operator};
use crate::call::{Guard, Outcome};
use crate::hub::Error;
use crate::stream::{Ended, Stream, insist};
use beat::LastBeat;
use dispatch::Slot;

pub(super) struct Worker {
    id: AgentId,
    agent: Box<Agent>,
    stream: Stream,
    outbox: Arc<Outbox>,
    entry: Arc<Entry>,
    assigns: bool,
    mails: bool,
    /// What it holds, oldest first.
    held: Vec<Held>,
    slot: Slot,
    open: watch::Receiver<bool>,
    /// Not to be offered again on this connection.
    declined: VecDeque<TaskId>,
    /// Offers in a row that it did not answer.
    unanswered: u32,
    beat: LastBeat,
    sync: sync::Watch,
    /// Look at the ledger again then, whatever is heard.
    look_at: Option<Instant>,
}

/// A task in its hands.
struct Held {
    number: u64,
    task: TaskId,
    epoch: u64,
    corr_id: String,
    accepted: bool,
    /// It was pushed to it, not claimed at another door.
    pushed: bool,
    /// An offer that is not answered by then is taken back.
    answer_by: Option<Instant>,
}

/// What there is to do besides reading and writing.
pub(super) enum Errand {
    /// Its row changed, or a message waits.
    Changed,
    /// A task may be there for it.
    Task,
    /// Work is handed out again, or no longer.
    Director,
    /// It may take one of the slots.
    Slot(tokio::sync::OwnedSemaphorePermit),
    /// Main has moved, or the catalog, or git has answered.
    Drift(Option<Behind>),
}

impl Worker {
    /// Signs on. The reason, if it may not.
    pub async fn join(
        bus: &Shared,
        hello: &Hello,
        peer: &Peer,
        nonce: Option<Nonce>,
        outbox: &Arc<Outbox>,
    ) -> Result<Worker, String> {
        let id = AgentId::from(&*peer.id);
        let stream = bus.hub.stream_name(&bus.ids.fresh("str"));
        let joins = Join {
            skills: Skills::new(hello.skills()),
            silent_after: Some(bus.config.heartbeat_ttl),
            stream: Some(stream.clone()),
            ..Join::by(Door::Bus, id.clone())
        };
        let joined = bus.hub.run_signed(joins, nonce);
        let joined = joined.await.map_err(|error| match error {
            Error::Refused(refusal) => format!("sender.id: {refusal}"),
            other => format!("{other}; try again"),
        })?;
        bus.registry.enter(Role::Worker, &id, outbox);
        send(outbox, operator::welcome(bus, peer));
        let mut worker = Worker {
            entry: bus.board.enter(&id),
            stream: Stream::new(&bus.hub, id.clone(), stream),
            id,
            agent: joined.agent,
            outbox: Arc::clone(outbox),
            assigns: hello.can(CAPABILITY_ASSIGN),
            mails: hello.can(CAPABILITY_MESSAGE),
            held: Vec::new(),
            slot: Slot::None,
            open: bus.director.open(),
            declined: VecDeque::new(),
            unanswered: 0,
            beat: LastBeat::default(),
            sync: sync::Watch::new(bus, hello, peer),
            look_at: None,
        };
        worker.held = joined.holds.iter().map(Held::of).collect();
        Ok(worker)
    }

    /// After the welcome: what it held before, what it has missed, what waits for it.
    pub async fn begin(&mut self, bus: &Shared) {
        self.offer_again(bus).await;
        self.check_drift(bus);
        bus.budgets.joined(&self.id);
        // Also for what has changed between the commit that signed it on and the watch.
        self.refresh(bus).await;
    }

    /// Waits for something to do.
    pub async fn next(&mut self) -> Errand {
        let Worker {
            stream,
            slot,
            open,
            sync,
            ..
        } = self;
        tokio::select! {
            () = stream.rung() => Errand::Changed,
            () = stream.woken() => Errand::Task,
            Ok(()) = open.changed() => Errand::Director,
            permit = slot.granted() => Errand::Slot(permit),
            behind = sync.moved() => Errand::Drift(behind),
        }
    }

    pub async fn on(&mut self, bus: &Shared, errand: Errand) {
        match errand {
            Errand::Changed => self.refresh(bus).await,
            Errand::Task | Errand::Director => self.seek_work(bus).await,
            Errand::Slot(permit) => {
                self.slot = Slot::Held(permit);
                self.seek_work(bus).await;
            }
            Errand::Drift(None) => self.check_drift(bus),
            Errand::Drift(behind) => self.judge_drift(bus, behind),
        }
    }

    /// When to call [`Worker::on_time`], if nothing else happens.
    pub fn due_at(&self) -> Option<Instant> {
        let offers = self.held.iter().filter_map(|held| held.answer_by);
        offers.chain(self.look_at).min()
    }

    pub async fn on_time(&mut self, bus: &Shared) {
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let offers_end = self.held.iter().any(|held| is_due(held.answer_by));
        if is_due(self.look_at) || offers_end {
            self.look_at = None;
            // It may have accepted elsewhere meanwhile.
            self.refresh(bus).await;
        }
        self.take_back_unanswered(bus, now).await;
    }

    /// Every message but heartbeats.
    pub async fn take(&mut self, bus: &Shared, envelope: &Envelope<'_>, message: Inbound<'_>) {
        match message {
            Inbound::TaskProgress(progress) => {
                super::relay::pass_on(bus, envelope.line());
                self.progressed(bus, progress).await;
            }
            Inbound::WorkerError(error) => {
                super::relay::pass_on(bus, envelope.line());
                self.failed(bus, error).await;
            }
            Inbound::TaskAccepted(accepted) => {
                super::relay::pass_on(bus, envelope.line());
                self.accepted(bus, accepted).await;
            }
            Inbound::TaskDeclined(declined) => {
                super::relay::pass_on(bus, envelope.line());
                self.declined(bus, declined).await;
            }
            Inbound::TaskResult(result) => {
                super::relay::pass_on(bus, envelope.line());
                self.finished(bus, result).await;
            }
            Inbound::WorkerLeaving(said) => {
                super::relay::pass_on(bus, envelope.line());
                self.leaves(bus, said).await;
            }
            Inbound::AgentMessage(mail) => self.send_mail(bus, mail).await,
            Inbound::AgentMessageAck(ack) => self.acknowledged(bus, ack).await,
            Inbound::MemoryEvent(event) => memory::noted(bus, &self.id, event).await,
            Inbound::CatalogRefreshRequest(request) => {
                memory::refresh(bus, &self.outbox, &request);
            }
            Inbound::EngramRequest(request) => memory::fetch(bus, &self.outbox, request).await,
            Inbound::BudgetRequest(request) => self.ask_budget(bus, request).await,
            Inbound::BudgetResult(result) => {
                let report = || bus.budgets.result(&self.id, &result);
                let _ = insist(report, || self.is_over(bus)).await;
            }
            // Heartbeats go another way; the session lets nothing else through.
            Inbound::Heartbeat(_)
            | Inbound::Hello(_)
            | Inbound::ReleasePublished(_)
            | Inbound::OperatorCommand(_) => {}
        }
    }

    async fn ask_budget(&self, bus: &Shared, request: BudgetRequest) {
        match bus.budgets.request(&self.id, &request).await {
            Ok(Some(grant)) => send(&self.outbox, grant),
            // It was told of it a moment ago.
            Ok(None) => {}
            Err(error) => {
                let message = format!("request_id {}: {error}", request.request_id);
                let fault = Fault::new(Flag::RateLimited, message);
                send(&self.outbox, fault.into_error());
            }
        }
    }

    /// It goes for good: what it holds goes back unspent. That it did is told by the end of the connection.
    async fn leaves(&mut self, bus: &Shared, said: WorkerLeaving) {
        let (agent, door) = (self.id.clone(), Door::Bus);
        if let Err(error) = self.insist(bus, CloseDoor { agent, door }).await {
            tracing::debug!(%error, "a leaving worker was not deregistered from the bus; it will time out");
        }
        let reason = said.reason.unwrap_or_default();
        tracing::info!(agent.id = %self.id, "{} left: {}", self.id, redact::text(&reason));
        self.held.clear();
        self.stream.leave_queue();
        self.slot = Slot::None;
        self.outbox.end(Ended::Left);
    }

    /// The connection is over; the worker may come back within its time.
    pub async fn leave(self, bus: &Arc<Shared>, unsent: Vec<MessageId>) {
        let is_last = bus.registry.leave(Role::Worker, &self.id, &self.outbox);
        if is_last {
            bus.board.leave(&self.id);
        }
        self.stream.end(unsent).await;
        for held in self.held.iter().filter(|held| !held.accepted) {
            let (agent, task) = (self.id.clone(), held.task.clone());
            let offer = dispatch::take_back_later(Arc::clone(bus), agent, task, held.epoch);
            tokio::spawn(offer);
        }
        // With a task in its hands it may be back in a moment, to finish it.
        let has_left = self.outbox.ended() == Some(Ended::Left);
        let is_done = self.agent.is_stopping() && self.held.is_empty() && !has_left;
        if is_last && is_done && !bus.stopping.is_cancelled() {
            let agent = self.id.clone();
            if let Err(error) = bus.hub.run(Deregister { agent }).await {
                tracing::debug!(%error, "a worker that was asked to shut down was not deregistered from the bus; it will time out");
            }
        }
    }

    fn held(&self, number: u64) -> Option<&Held> {
        self.held.iter().find(|held| held.number == number)
    }

    fn held_mut(&mut self, number: u64) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.number == number)
    }

    /// Runs a verb until it is decided: what a worker said once must not be lost because the ledger was away.
    async fn insist<V>(&self, bus: &Shared, verb: V) -> Result<V::Reply, Error>
    where
        V: Verb + Clone + Send + 'static,
        V::Reply: Send,
    {
        insist(|| bus.hub.run(verb.clone()), || self.is_over(bus)).await
    }

    /// The same for what counts once, however often it comes.
    async fn once<V>(
        &self,
        bus: &Shared,
        verb: V,
        guard: Guard,
        render: fn(&V::Reply) -> Vec<u8>,
    ) -> Result<Outcome<V::Reply>, Error>
    where
        V: Verb + Clone + Send + 'static,
        V::Reply: Send,
    {
        let call = || bus.hub.call(verb.clone(), guard.clone(), render);
        insist(call, || self.is_over(bus)).await
    }

    /// Its agent was signed off elsewhere: what comes on this connection counts for nothing, and it should know.
    fn sign_off(&self) {
        self.outbox.end(Ended::Gone);
    }

    fn is_over(&self, bus: &Shared) -> bool {
        bus.stopping.is_cancelled() || self.outbox.ended().is_some()
    }
}

impl Held {
    fn of(task: &Task) -> Held {
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

    /// Accepted over the bus, and nobody asks whether it still is.
    fn is_under_way(&self) -> bool {
        self.pushed && self.accepted && self.answer_by.is_none()
    }

    /// A claim of which a worker speaks and that is over.
    fn lost(said: &TaskResult, task: TaskId) -> Held {
        Held {
            number: said.issue_number,
            task,
            epoch: said.epoch,
            corr_id: said.corr_id.clone().unwrap_or_default(),
            accepted: false,
            pushed: false,
            answer_by: None,
        }
    }
}

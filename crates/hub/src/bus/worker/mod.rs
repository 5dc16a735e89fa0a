//! A worker's connection: an agent of the ledger with one more door.
//!
//! What goes on over any stream is [`crate::stream`]; here is what the bus says, and what is said on it.

mod beat;
mod mail;
mod result;
mod sync;
mod tasks;
mod voice;

use std::sync::Arc;

use switchboard_core::changes::Nonce;
use switchboard_core::verb::CloseDoor;
use switchboard_core::{AgentId, Door, MessageId};
use switchboard_wire::agentbus::envelope::Envelope;
use switchboard_wire::agentbus::message::{
    BudgetRequest, CAPABILITY_ASSIGN, CAPABILITY_MESSAGE, Hello, Inbound, Message as _, Outbound,
    WorkerLeaving,
};
use switchboard_wire::agentbus::session::Peer;
use switchboard_wire::agentbus::{Fault, Flag, Role, from_wire};
use switchboard_wire::redact;
use tokio::time::Instant;

use super::board::Entry;
use super::drift::Behind;
use super::frame::{Outbox, send};
use super::server::BusState;
use super::{memory, operator};
use crate::hub::Error;
use crate::stream::{self, Held, Stream, Terms};
use beat::LastBeat;
use voice::Speaker;

pub(super) struct Worker {
    stream: Stream<Speaker>,
    entry: Arc<Entry>,
    beat: LastBeat,
    sync: sync::DriftWatch,
}

/// What there is to do besides reading and writing.
pub(super) enum Errand {
    Stream(stream::Errand),
    /// Main has moved, or the catalog, or git has answered.
    Drift(Option<Behind>),
}

impl Worker {
    /// Signs on. The reason, if it may not.
    pub async fn join(
        bus: &Arc<BusState>,
        hello: &Hello,
        peer: &Peer,
        nonce: Option<Nonce>,
        outbox: &Arc<Outbox>,
    ) -> Result<Worker, String> {
        let id = AgentId::from(&*peer.id);
        let name = bus.hub.stream_name(&bus.ids.fresh("str"));
        let times = (bus.config.heartbeat_ttl, bus.config.watchdog);
        let joins = from_wire::join(id.clone(), hello, times, name.clone());
        let joined = bus.hub.run_signed(joins, nonce);
        let joined = joined.await.map_err(|error| match error {
            Error::Refused(refusal) => format!("sender.id: {refusal}"),
            other => format!("{other}; try again"),
        })?;
        bus.registry.enter(Role::Worker, &id, outbox);
        send(outbox, operator::welcome(bus, peer));
        let terms = Terms {
            door: Door::Bus,
            tasks: hello.can(CAPABILITY_ASSIGN),
            mail: hello.can(CAPABILITY_MESSAGE),
            accept_within: bus.config.accept_within,
            cap: bus.config.watchdog,
            stale_after: bus.config.claim_stale,
            slots: bus.slots.clone(),
            open: bus.director.open(),
            stopping: bus.stopping.clone(),
        };
        let speaker = Speaker::new(bus, outbox);
        Ok(Worker {
            entry: bus.board.enter(&id),
            stream: Stream::new(&bus.hub, name, joined, speaker, terms),
            beat: LastBeat::default(),
            sync: sync::DriftWatch::new(bus, hello, peer),
        })
    }

    /// After the welcome: what it held before, what it has missed, what waits for it.
    pub async fn begin(&mut self, bus: &BusState) {
        self.stream.offer_again().await;
        self.check_drift(bus);
        bus.budgets.joined(self.id());
        // Also for what has changed between the commit that signed it on and the watch.
        self.stream.refresh().await;
    }

    /// Waits for something to do.
    pub async fn next(&mut self) -> Errand {
        tokio::select! {
            errand = self.stream.next() => Errand::Stream(errand),
            behind = self.sync.moved() => Errand::Drift(behind),
        }
    }

    pub async fn on(&mut self, bus: &BusState, errand: Errand) {
        match errand {
            Errand::Stream(errand) => self.stream.on(errand).await,
            Errand::Drift(None) => self.check_drift(bus),
            Errand::Drift(behind) => self.judge_drift(bus, behind),
        }
    }

    /// When to call [`Worker::on_time`], if nothing else happens.
    pub fn due_at(&self) -> Option<Instant> {
        self.stream.due_at()
    }

    pub async fn on_time(&mut self) {
        self.stream.on_time().await;
    }

    /// They were written.
    pub async fn handed(&mut self, messages: Vec<MessageId>) {
        self.stream.handed(messages).await;
    }

    /// Every message but heartbeats.
    pub async fn take(&mut self, bus: &BusState, envelope: &Envelope<'_>, message: Inbound<'_>) {
        let to = message.message_type().usage().to;
        if to.contains(&Role::Operator) {
            super::relay::pass_on(bus, envelope.line());
        }
        match message {
            Inbound::TaskProgress(progress) => self.progressed(&progress).await,
            Inbound::WorkerError(error) => self.failed(bus, error).await,
            Inbound::TaskAccepted(accepted) => self.accepted(&accepted).await,
            Inbound::TaskDeclined(declined) => self.declined(&declined).await,
            Inbound::TaskResult(result) => self.finished(bus, result).await,
            Inbound::WorkerLeaving(said) => self.leaves(said).await,
            Inbound::AgentMessage(mail) => self.send_mail(bus, mail).await,
            Inbound::AgentMessageAck(ack) => self.acknowledged(ack).await,
            Inbound::MemoryEvent(event) => memory::noted(bus, self.id(), event).await,
            Inbound::CatalogRefreshRequest(request) => {
                memory::refresh(bus, self.outbox(), &request);
            }
            Inbound::EngramRequest(request) => memory::fetch(bus, self.outbox(), request).await,
            Inbound::BudgetRequest(request) => self.ask_budget(bus, request).await,
            Inbound::BudgetResult(result) => {
                let report = || bus.budgets.result(self.id(), &result);
                let _ = self.stream.until_decided(report).await;
            }
            // Heartbeats go another way; the session lets nothing else through.
            Inbound::Heartbeat(_)
            | Inbound::Hello(_)
            | Inbound::ReleasePublished(_)
            | Inbound::OperatorCommand(_) => {}
        }
    }

    async fn ask_budget(&self, bus: &BusState, request: BudgetRequest) {
        match bus.budgets.request(self.id(), &request).await {
            Ok(Some(grant)) => self.tell(grant),
            // It was told of it a moment ago.
            Ok(None) => {}
            Err(error) => {
                let message = format!("request_id {}: {error}", request.request_id);
                let fault = Fault::new(Flag::RateLimited, message);
                self.tell(fault.into_error());
            }
        }
    }

    /// It goes for good: what it holds goes back unspent. That it did is told by the end of the connection.
    async fn leaves(&mut self, said: WorkerLeaving) {
        let (agent, door) = (self.id().clone(), Door::Bus);
        if let Err(error) = self.stream.insist(CloseDoor { agent, door }).await {
            tracing::debug!(%error, "a leaving worker was not deregistered from the bus; it will time out");
        }
        let reason = said.reason.unwrap_or_default();
        tracing::debug!(agent.id = %self.id(), "{} left: {}", self.id(), redact::text(&reason));
        self.stream.leaves();
    }

    /// The connection is over; the worker may come back within its time.
    pub async fn leave(self, bus: &BusState, unsent: Vec<MessageId>) {
        let is_last = bus
            .registry
            .leave(Role::Worker, self.id(), &self.stream.voice.outbox);
        if is_last {
            bus.board.leave(self.id());
        }
        self.stream.end(unsent, is_last).await;
    }

    fn id(&self) -> &AgentId {
        self.stream.agent()
    }

    fn outbox(&self) -> &Outbox {
        &self.stream.voice.outbox
    }

    fn tell(&self, message: impl Into<Outbound<'static>>) {
        send(self.outbox(), message);
    }

    /// A claim of its own, by its number.
    fn claim(&self, number: u64) -> Option<from_wire::Claim<'_>> {
        self.stream.held(number).map(|held| self.by(held))
    }

    fn by<'a>(&'a self, held: &'a Held) -> from_wire::Claim<'a> {
        from_wire::Claim {
            agent: self.id(),
            task: &held.task,
            epoch: held.epoch,
        }
    }
}

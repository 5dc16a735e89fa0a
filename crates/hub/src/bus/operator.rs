//! A person's client: sees everything, gives orders, each of which is confirmed.

use std::sync::Arc;

use switchboard_core::verb::{IssueCommand, Steer};
use switchboard_core::{AgentId, CommandId, CommandKind, Refusal};
use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::from_wire::{self, Wanted};
use switchboard_wire::agentbus::message::{
    Inbound, OperatorAck, OperatorCommand, ReleasePublished, Welcome, WelcomeDirector,
    WelcomeLimits,
};
use switchboard_wire::agentbus::session::Peer;

use super::frame::Outbox;
use super::frame::send;
use super::memory;
use super::server::BusState;
use super::snapshot;
use crate::hub::Error;

pub(super) struct Operator {
    id: AgentId,
    outbox: Arc<Outbox>,
}

impl Operator {
    pub fn enter(bus: &BusState, peer: &Peer, outbox: &Arc<Outbox>) -> Operator {
        let id = AgentId::from(&*peer.id);
        bus.registry.enter(Role::Operator, &id, outbox);
        bus.board.operator_came();
        send(outbox, welcome(bus, peer));
        Operator {
            id,
            outbox: Arc::clone(outbox),
        }
    }

    pub fn leave(self, bus: &BusState) {
        bus.registry.leave(Role::Operator, &self.id, &self.outbox);
        bus.board.operator_left();
    }

    pub async fn take(&mut self, bus: &BusState, seq: u64, message: Inbound<'_>) {
        match message {
            Inbound::OperatorCommand(command) => self.obey(bus, seq, command).await,
            Inbound::ReleasePublished(release) => self.publish(bus, seq, release).await,
            Inbound::CatalogRefreshRequest(request) => {
                memory::refresh(bus, &self.outbox, &request);
            }
            Inbound::EngramRequest(request) => {
                memory::fetch(bus, &self.outbox, request).await;
            }
            // The session lets no other through.
            _ => {}
        }
    }

    async fn obey(&self, bus: &BusState, seq: u64, command: OperatorCommand) {
        let done = match from_wire::command(&self.id, command) {
            Ok(Wanted::Snapshot) => Ok(match snapshot::send(bus, &self.outbox).await {
                true => "sent".to_owned(),
                false => "it follows within a second or two".to_owned(),
            }),
            Ok(Wanted::Steer(steer)) => self.steer(bus, steer).await,
            Ok(Wanted::Agent(agent, kind)) => order(bus, agent, kind).await,
            Err(malformed) => Err(malformed.to_string()),
        };
        self.confirm(seq, done);
    }

    async fn steer(&self, bus: &BusState, steer: Steer) -> Result<String, String> {
        let told = bus.hub.run(steer).await;
        let told = told.map_err(|error| error.to_string())?;
        bus.director.heed().await;
        Ok(match (told.paused, told.cooldown_until) {
            (Some(_), _) => "work is paused until 'resume'".to_owned(),
            (None, Some(_)) => {
                "a cooldown has started; no new work is handed out until it ends".to_owned()
            }
            (None, None) => "noted".to_owned(),
        })
    }

    async fn publish(&self, bus: &BusState, seq: u64, release: ReleasePublished) {
        let branch = &bus.config.sync_main.branch;
        let steered = bus
            .hub
            .run(from_wire::published(&self.id, &release, branch));
        let done = steered.await.map_err(|error| error.to_string());
        self.confirm(seq, done.map(|_| "published".to_owned()));
    }

    fn confirm(&self, ref_seq: u64, done: Result<String, String>) {
        let ok = done.is_ok();
        let (Ok(message) | Err(message)) = done;
        send(
            &self.outbox,
            OperatorAck {
                ref_seq,
                ok,
                message,
            },
        );
    }
}

/// The worker is told on whatever stream it has, or with its next heartbeat elsewhere.
async fn order(bus: &BusState, agent: AgentId, kind: CommandKind) -> Result<String, String> {
    let done = format!("{agent} is asked to shut down");
    let stranger =
        format!("nobody is registered as {agent}; 'switchboard bus status' lists who is");
    let id = CommandId::from(bus.ids.fresh("cmd"));
    let ordered = bus.hub.run(IssueCommand { agent, id, kind });
    match ordered.await {
        Ok(_) => Ok(done),
        Err(Error::Refused(Refusal::AgentNotRegistered { .. })) => Err(stranger),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn welcome(bus: &BusState, peer: &Peer) -> Welcome {
    Welcome {
        protocol_version: peer.agreed.version.to_string(),
        director: WelcomeDirector {
            run_id: bus.run_id.clone(),
            main_sha_expected: bus.drift.main_sha(),
            catalog_hash_expected: memory::catalog_hash(bus),
        },
        limits: Some(WelcomeLimits {
            max_message_bytes: bus.config.max_message_bytes as u64,
            heartbeat_interval_seconds: bus.config.heartbeat_interval.as_secs(),
            heartbeat_ttl_seconds: bus.config.heartbeat_ttl.as_secs(),
        }),
    }
}

//! A person's client: sees everything, gives orders, each of which is confirmed.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::verb::{IssueCommand, Order, Steer};
use switchboard_core::{AgentId, CommandId, CommandKind, director};
use switchboard_wire::agentbus::message::{
    Inbound, OperatorAck, OperatorCommand, ReleasePublished, Welcome, WelcomeDirector,
    WelcomeLimits,
};
use switchboard_wire::agentbus::session::Peer;
use switchboard_wire::agentbus::{OperatorOrder, Role, redact};

use super::frame::Outbox;
use super::frame::send;
use super::memory;
use super::server::BusState;
use super::snapshot;

/// How long a cooldown lasts if nobody says.
const COOLDOWN: Duration = Duration::from_secs(60);

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

    async fn obey(&self, bus: &BusState, seq: u64, mut command: OperatorCommand) {
        redact::clean(&mut command.reason);
        if let Some(release) = &mut command.release {
            redact::clean(&mut release.release_id);
            redact::clean(&mut release.release_branch);
        }
        let done = match command.command {
            OperatorOrder::Snapshot => {
                snapshot::send(bus, &self.outbox).await;
                Ok("sent".to_owned())
            }
            OperatorOrder::Pause => self.steer(bus, &command, Order::Pause).await,
            OperatorOrder::Resume => self.steer(bus, &command, Order::Resume).await,
            OperatorOrder::Cooldown => {
                let lasts_for = command.seconds.map_or(COOLDOWN, Duration::from_secs);
                self.steer(bus, &command, Order::Cooldown { lasts_for })
                    .await
            }
            OperatorOrder::Release => match &command.release {
                None => Err("release: is missing".to_owned()),
                Some(named) => {
                    let release = director::Release {
                        id: named.release_id.clone(),
                        branch: named.release_branch.clone(),
                        pr_number: named.release_pr_number,
                        main_sha: None,
                        image_tag: None,
                    };
                    self.steer(bus, &command, Order::Release(release)).await
                }
            },
            OperatorOrder::ShutdownWorker => shut_down(bus, &command).await,
        };
        self.confirm(seq, done);
    }

    async fn steer(
        &self,
        bus: &BusState,
        command: &OperatorCommand,
        order: Order,
    ) -> Result<String, String> {
        let steered = bus.hub.run(Steer {
            by: self.id.to_string(),
            reason: command.reason.clone(),
            order,
        });
        let told = steered.await.map_err(|error| error.to_string())?;
        bus.director.heed().await;
        Ok(match (told.paused, told.cooldown_until) {
            (Some(_), _) => "work is paused until 'resume'".to_owned(),
            (None, Some(_)) => {
                "a cooldown has started; no new work is handed out until it ends".to_owned()
            }
            (None, None) => "noted".to_owned(),
        })
    }

    async fn publish(&self, bus: &BusState, seq: u64, mut release: ReleasePublished) {
        for text in [
            &mut release.tag,
            &mut release.main_sha,
            &mut release.image_tag,
        ] {
            redact::clean(text);
        }
        let steered = bus.hub.run(Steer {
            by: self.id.to_string(),
            reason: String::new(),
            order: Order::Release(director::Release {
                id: release.tag,
                branch: bus.config.sync_main.branch.clone(),
                pr_number: None,
                main_sha: Some(release.main_sha),
                image_tag: Some(release.image_tag),
            }),
        });
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
async fn shut_down(bus: &BusState, command: &OperatorCommand) -> Result<String, String> {
    let target = command.target.as_deref().unwrap_or_default();
    let ordered = bus.hub.run(IssueCommand {
        agent: target.into(),
        id: CommandId::from(bus.ids.fresh("cmd")),
        kind: CommandKind::Shutdown {
            reason: command.reason.clone(),
        },
    });
    ordered.await.map_err(|error| error.to_string())?;
    Ok(format!("{target} is asked to shut down"))
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

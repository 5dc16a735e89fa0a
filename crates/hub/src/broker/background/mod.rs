//! Background agents: programs of Builder's that the hub runs in terminals of their own, one in each slot.
//!
//! A slot has a desk like a role, with one socket at it that is no connection: what comes to it is typed into the
//! terminal ([`agent`]). What a program prints is kept here and told to Builder alone.

mod agent;
mod marker;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use switchboard_child::{END_WITHIN, Program, RUN_ID, Size, orphans};
use switchboard_core::doors::SLOTS;
use switchboard_core::run::Run;
use switchboard_core::verb::{BeginRun, EndRun, FailDelivery, Hand};
use switchboard_core::{AgentId, Door, MessageId, Priority, To};
use switchboard_wire::squidrun::Status;
use switchboard_wire::squidrun::background::{self as words, Action, Answer, Named};
use switchboard_wire::squidrun::frame::BackgroundAgent;
use tokio::time::timeout;

use super::news::own_words;
use super::socket::Socket;
use super::state::Broker;
use crate::config::{self, Config};
use crate::hub::Error;
use agent::{Agent, Reason};

/// Wide enough for programs that draw boxes.
const SIZE: Size = Size {
    rows: 40,
    columns: 120,
};
/// What waits for a slot fails in turns of so many.
const FAILED_AT_ONCE: usize = 64;
const HOLD_FOR: Duration = Duration::from_secs(30);
/// An answer waits so long for a program to end.
const ENDED_WITHIN: Duration = Duration::from_secs(4);

pub(super) struct Background {
    settings: config::Background,
    /// Where processes of this hub are.
    place: String,
    port: AtomicU16,
    running: Mutex<HashMap<AgentId, Arc<Agent>>>,
    /// One begins at a time.
    beginning: tokio::sync::Mutex<()>,
}

impl Background {
    pub fn new(config: &Config) -> Background {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        Background {
            settings: config.broker.background.clone(),
            place: format!("{host}:{}", config.data_dir.display()),
            port: AtomicU16::new(0),
            running: Mutex::default(),
            beginning: tokio::sync::Mutex::default(),
        }
    }

    /// Where scripts of the original are to send to.
    pub fn set_port(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    fn get(&self, slot: &AgentId) -> Option<Arc<Agent>> {
        self.running.lock().get(slot).cloned()
    }

    /// In the order of their slots.
    fn all(&self) -> Vec<Arc<Agent>> {
        let slots = SLOTS.map(AgentId::from);
        slots.iter().filter_map(|slot| self.get(slot)).collect()
    }
}

impl Broker {
    pub(super) async fn background_agent(
        self: Arc<Self>,
        by: &AgentId,
        asked: BackgroundAgent,
        socket: &Socket,
    ) {
        let answer = match words::read(&asked, self.roles()) {
            _ if !words::is_owner(by) => words::not_owner(&asked, by, self.roles()),
            Ok(action) => self.act(action).await,
            Err(answer) => answer,
        };
        if let Some(id) = asked.request_id {
            socket.tell(&words::response(id, answer, self.hub.wall()));
        }
    }

    async fn act(self: &Arc<Self>, action: Action) -> Answer {
        let roles = self.roles();
        let running = |named: Named| match named {
            Named::Slot(slot) => self
                .background
                .get(&slot)
                .ok_or_else(|| words::refused("not_running", None)),
            Named::Nobody | Named::Wrong => Err(words::refused("invalid_target", None)),
        };
        match action {
            Action::Spawn {
                slot,
                session_scope_id,
            } => self.spawn(slot, session_scope_id).await,
            Action::List => {
                let views = self.background.all();
                let views: Vec<_> = views.iter().map(|agent| agent.view(roles)).collect();
                words::listed(&views, roles)
            }
            Action::Kill(named) => match running(named) {
                Ok(agent) => self.kill(&agent).await,
                Err(answer) => answer,
            },
            Action::KillAll => {
                let all = self.background.all();
                words::all_killed(join_all(all.iter().map(|agent| self.kill(agent))).await)
            }
            Action::TargetMap => words::target_map(roles),
            Action::Show(named) => match running(named) {
                Ok(agent) => words::shown(&agent.view(roles), &agent.output()),
                Err(answer) => answer,
            },
        }
    }

    async fn kill(&self, agent: &Agent) -> Answer {
        agent.stop(Reason::Killed);
        // What takes longer ends all the same.
        let _ = timeout(ENDED_WITHIN, agent.over.cancelled()).await;
        words::killed(&agent.slot, Reason::Killed.as_str(), self.roles())
    }

    async fn spawn(self: &Arc<Self>, named: Named, scope: Option<String>) -> Answer {
        let _turn = self.background.beginning.lock().await;
        let is_free = |slot: &AgentId| self.background.get(slot).is_none();
        let mut free = SLOTS
            .iter()
            .map(|slot| AgentId::from(*slot))
            .filter(is_free);
        let slot = match (named, free.next()) {
            (_, None) => return words::refused("capacity_reached", None),
            (Named::Nobody, Some(first)) => first,
            (Named::Slot(slot), Some(_)) if is_free(&slot) => slot,
            (Named::Slot(_) | Named::Wrong, Some(_)) => {
                return words::refused("slot_unavailable", None);
            }
        };
        let own = self.background.settings.command.as_ref();
        let command = own.or(words::owner(self.roles()).and_then(|role| role.command.as_ref()));
        let Some((program, command)) =
            command.and_then(|line| Some((Program::parse(line)?, line.clone())))
        else {
            let how = "set command in [squidrun.background] of switchboard.toml";
            return words::refused("no_command", Some(how));
        };
        if self.stopping.is_cancelled() {
            return words::refused("spawn_failed", Some("the hub stops"));
        }
        let run = self.ids.fresh("run");
        let begin = BeginRun {
            id: run.clone(),
            agent: slot.clone(),
            place: self.background.place.clone(),
            by: self.hub.shared.name.clone(),
        };
        match self.hub.run(begin).await {
            Ok(()) => {}
            Err(error @ Error::Refused(_)) => {
                return words::refused("slot_unavailable", Some(&error.to_string()));
            }
            Err(error) => return words::refused("spawn_failed", Some(&error.to_string())),
        }
        self.fail_what_waits(&slot).await;
        match self.start(&slot, &run, program, command, scope).await {
            Ok(agent) => words::spawned(&agent.view(self.roles())),
            Err(why) => {
                self.end_run(run, None).await;
                words::refused("spawn_failed", Some(&why))
            }
        }
    }

    async fn start(
        self: &Arc<Self>,
        slot: &AgentId,
        run: &str,
        mut program: Program,
        command: String,
        scope: Option<String>,
    ) -> Result<Arc<Agent>, String> {
        program.dir = Some(self.root.clone().into());
        for (name, value) in words::environment(slot, self.roles()) {
            program = program.env(name, value);
        }
        let port = self.background.port.load(Ordering::Relaxed);
        program = program
            .env("HM_SEND_PORT", port.to_string())
            .env(RUN_ID, run);
        let started = tokio::task::spawn_blocking(move || program.in_terminal(SIZE));
        let started = started.await.map_err(|error| error.to_string())?;
        let (pty, output) = started.map_err(|error| error.to_string())?;
        let socket = Arc::new(Socket::resident(self.next_client(), self.hub.wall().0));
        let desk = self.enter(slot, &socket).await?;
        let agent = Arc::new(Agent::new(
            slot.clone(),
            run.to_owned(),
            command,
            scope,
            socket,
        ));
        self.come(slot, &agent.socket);
        self.background
            .running
            .lock()
            .insert(slot.clone(), Arc::clone(&agent));
        desk.seat(&agent.socket, None);
        let broker = Arc::clone(self);
        self.tasks
            .spawn(agent::run(broker, Arc::clone(&agent), desk, pty, output));
        tracing::info!(agent.id = %slot, "background agent {slot} started");
        Ok(agent)
    }

    /// What is said to a slot in which nothing runs fails at once.
    pub(super) async fn nobody_runs(&self, waiting: &[AgentId]) {
        for slot in waiting.iter().filter(|id| id.is_slot()) {
            if self.background.get(slot).is_none() && !self.runs_elsewhere(slot).await {
                self.fail_what_waits(slot).await;
            }
        }
    }

    async fn runs_elsewhere(&self, slot: &AgentId) -> bool {
        let runs = self.hub.read(|ledger| ledger.privates::<Run>(&Run::all()));
        let is_others = |run: &Run| run.agent == *slot && run.by != self.hub.shared.name;
        self.hub.is_shared() && runs.await.is_ok_and(|runs| runs.iter().any(is_others))
    }

    /// Empties the mailbox of a slot; says how many messages were in it.
    async fn fail_what_waits(&self, slot: &AgentId) -> usize {
        let hand = Hand {
            agent: slot.clone(),
            via: Door::Squidrun,
            stream: self.hub.stream_name(&self.ids.fresh("str")),
            limit: FAILED_AT_ONCE,
            hold_for: HOLD_FOR,
        };
        let mut count = 0;
        loop {
            // Without a mailbox nothing waits.
            let taken = self.hub.run(hand.clone()).await.unwrap_or_default();
            let messages: Vec<MessageId> = taken.into_iter().map(|it| it.message.id).collect();
            if messages.is_empty() {
                return count;
            }
            let fail = FailDelivery {
                agent: slot.clone(),
                via: Door::Squidrun,
                stream: Some(hand.stream.clone()),
                messages,
                reason: Status::AgentNotRunning.to_string(),
            };
            match self.hub.run(fail).await {
                Ok(failed) => count += failed,
                Err(error) => {
                    tracing::debug!(%error, "messages to a background agent that is gone did not fail; they do when the next one starts");
                    return count;
                }
            }
        }
    }

    async fn end_run(&self, id: String, crash: Option<String>) {
        if let Err(error) = self.hub.run(EndRun { id, crash }).await {
            tracing::warn!(%error, "the end of a background agent is not on record; the next start looks for its processes");
        }
    }

    /// Builder hears that one ended, once.
    async fn tell_end(&self, slot: &AgentId, run: &str, reason: Reason, how: &str, failed: usize) {
        let (tag, priority) = match reason.is_expected() {
            true => ("FYI", Priority::Low),
            false => ("URGENT", Priority::Critical),
        };
        let lost = match failed {
            0 => String::new(),
            count => format!("; {count} messages did not reach it"),
        };
        let text = format!("[{tag}] background agent {slot} ended: {reason}{how}{lost}");
        let Some(builder) = words::owner(self.roles()) else {
            return;
        };
        let to = To::One(AgentId::from(builder.id.as_str()));
        let id = MessageId::from(format!("bg-ended-{run}"));
        self.run_say(own_words(id, to, &text, priority)).await;
    }

    /// Ends what a hub before this one ran here and could not end. Comes before anything else is run.
    pub(super) async fn end_orphans(&self) -> Result<(), Error> {
        let runs = self
            .hub
            .read(|ledger| ledger.privates::<Run>(&Run::all()))
            .await?;
        let is_ours = |run: &Run| !self.hub.is_shared() || run.place == self.background.place;
        let ours: Vec<Run> = runs.into_iter().filter(is_ours).collect();
        let ids: Vec<&str> = ours.iter().map(|run| run.id.as_str()).collect();
        let (found, left) = orphans::end(&ids, END_WITHIN).await;
        if found > 0 {
            tracing::warn!(
                "ended {found} processes of background agents that a hub before this one left running"
            );
        }
        if left > 0 {
            tracing::error!(
                "{left} processes of background agents could not be ended; the next start tries again"
            );
            return Ok(());
        }
        for run in ours {
            let failed = self.fail_what_waits(&run.agent).await;
            self.tell_end(&run.agent, &run.id, Reason::HubKilled, "", failed)
                .await;
            self.end_run(run.id, None).await;
        }
        Ok(())
    }
}

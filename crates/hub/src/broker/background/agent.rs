//! One background agent: its program at work in its terminal, from its start to what its end leaves to do.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use switchboard_child::typing::{PasteMode, Typed};
use switchboard_child::{Output, Pty, Tail, orphans};
use switchboard_core::{AgentId, MessageId};
use switchboard_wire::squidrun::Roles;
use switchboard_wire::squidrun::background::{self as words, View};
use switchboard_wire::squidrun::frame;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::marker::Marker;
use crate::broker::desk::Desk;
use crate::broker::socket::Socket;
use crate::broker::state::Broker;
use crate::stream::Ended;

/// So much of the end of the output is kept.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// To end politely; the hub itself has no more time when it stops.
const GRACE: Duration = Duration::from_millis(1500);
/// What a program that ended had printed comes within this.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);

pub(in crate::broker) struct Agent {
    pub slot: AgentId,
    run: String,
    command: String,
    scope: Option<String>,
    pub socket: Arc<Socket>,
    created_ms: i64,
    /// Why it is to end.
    stop: watch::Sender<Option<Reason>>,
    seen: Mutex<Seen>,
    /// It has ended, and so has all that follows from that.
    pub over: CancellationToken,
}

struct Seen {
    output: Tail,
    has_printed: bool,
}

/// Why one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Reason {
    Done,
    Exited,
    Crashed,
    Idle,
    Killed,
    HubStops,
    HubKilled,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Done => "done",
            Reason::Exited => "exited",
            Reason::Crashed => "crashed",
            Reason::Idle => "idle_timeout",
            Reason::Killed => "killed",
            Reason::HubStops => "hub_shutdown",
            Reason::HubKilled => "hub_killed",
        }
    }

    pub fn is_expected(self) -> bool {
        !matches!(self, Reason::Crashed | Reason::HubKilled)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Agent {
    pub fn new(
        slot: AgentId,
        run: String,
        command: String,
        scope: Option<String>,
        socket: Arc<Socket>,
    ) -> Agent {
        Agent {
            slot,
            run,
            command,
            scope,
            created_ms: socket.seen_ms(),
            socket,
            stop: watch::Sender::new(None),
            seen: Mutex::new(Seen {
                output: Tail::new(OUTPUT_BYTES_MAX),
                has_printed: false,
            }),
            over: CancellationToken::new(),
        }
    }

    /// The first reason counts.
    pub fn stop(&self, reason: Reason) {
        self.stop
            .send_if_modified(|known| known.is_none() && known.replace(reason).is_none());
    }

    pub fn output(&self) -> String {
        self.seen.lock().output.text().unwrap_or_default()
    }

    pub fn view(&self, roles: &Roles) -> View {
        let pane = |id: &str| words::role(roles, id).map(|role| role.pane.clone());
        let reason = *self.stop.borrow();
        let program = self.command.split_whitespace().next().map(Path::new);
        let runtime = program.and_then(Path::file_name).unwrap_or_default();
        View {
            alias: self.slot.to_string(),
            pane_id: pane(self.slot.as_str()).unwrap_or_default(),
            owner_pane_id: words::owner(roles)
                .map(|role| role.pane.clone())
                .unwrap_or_default(),
            runtime: runtime.to_string_lossy().into_owned(),
            command: self.command.clone(),
            status: match reason {
                Some(_) => "stopping",
                None if self.seen.lock().has_printed => "running",
                None => "starting",
            },
            created_at_ms: self.created_ms,
            last_activity_at_ms: self.socket.seen_ms(),
            session_scope_id: self.scope.clone(),
            completion_reason: reason.map(Reason::as_str),
        }
    }
}

/// Until it has ended and everybody knows.
pub(super) async fn run(
    broker: Arc<Broker>,
    agent: Arc<Agent>,
    desk: Arc<Desk>,
    pty: Pty,
    output: Output,
) {
    let mut work = Work {
        broker: &broker,
        agent: &agent,
        desk: &desk,
        pty: &pty,
        output: Some(output),
        paste: PasteMode::default(),
        marker: Marker::default(),
        typed: Typed::default(),
        active_at: Instant::now(),
    };
    let reason = work.go().await;
    agent.stop(reason);
    agent.socket.outbox.end(Ended::Left);
    let status = pty.end(GRACE).await;
    orphans::end(&[&agent.run], GRACE).await;
    broker.go(&agent.slot, &agent.socket);
    desk.left(&agent.socket);
    // What it had in hand waits again, and fails with the rest.
    let _ = timeout(GRACE, desk.over.cancelled()).await;
    broker.background.running.lock().remove(&agent.slot);
    let failed = broker.fail_what_waits(&agent.slot).await;
    let how = match reason {
        Reason::Crashed => format!(" ({status})"),
        _ => String::new(),
    };
    broker
        .tell_end(&agent.slot, &agent.run, reason, &how, failed)
        .await;
    let crash = (reason == Reason::Crashed).then(|| format!("{} crashed{how}", agent.slot));
    broker.end_run(agent.run.clone(), crash).await;
    tracing::info!(agent.id = %agent.slot, "background agent {} ended: {reason}", agent.slot);
    agent.over.cancel();
}

struct Work<'a> {
    broker: &'a Broker,
    agent: &'a Agent,
    desk: &'a Desk,
    pty: &'a Pty,
    /// Absent once it closed its terminal.
    output: Option<Output>,
    paste: PasteMode,
    marker: Marker,
    /// What was typed is not typed again.
    typed: Typed,
    active_at: Instant,
}

/// A message that is being typed.
type Typing<'a> = BoxFuture<'a, (MessageId, io::Result<()>)>;

impl<'a> Work<'a> {
    async fn go(&mut self) -> Reason {
        let mut stop = self.agent.stop.subscribe();
        let mut typing: Option<Typing<'a>> = None;
        loop {
            if typing.is_none() {
                typing = self.next_message();
            }
            let idle_at = self.active_at + self.broker.background.settings.idle_for;
            let (output, is_typing) = (self.output.as_mut(), typing.is_some());
            let printed = async {
                match output {
                    Some(output) => output.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                piece = printed => match piece {
                    Some(piece) if self.printed(&piece) => return Reason::Done,
                    Some(_) => {}
                    None => self.output = None,
                },
                typed = async { typing.as_mut().expect("it is looked at only then").await }, if is_typing => {
                    typing = None;
                    self.was_typed(typed);
                }
                () = self.agent.socket.outbox.rung(), if !is_typing => {}
                status = self.pty.wait() => return self.ended(status).await,
                reason = told(&mut stop) => return reason,
                () = self.broker.stopping.cancelled() => return Reason::HubStops,
                () = sleep_until(idle_at) => return Reason::Idle,
            }
        }
    }

    /// Whether it said that it is done.
    fn printed(&mut self, piece: &[u8]) -> bool {
        self.is_active();
        self.paste.watch(piece);
        let mut seen = self.agent.seen.lock();
        seen.has_printed = true;
        seen.output.push(piece);
        self.marker.is_in(piece)
    }

    fn is_active(&mut self) {
        self.active_at = Instant::now();
        self.agent.socket.seen(self.broker.hub.wall().0);
    }

    /// Takes the next message in hand; one that was typed before is settled as it is.
    fn next_message(&mut self) -> Option<Typing<'a>> {
        loop {
            let frame = self.agent.socket.outbox.next()?;
            let Some(id) = frame.mail else { continue };
            let (pty, paste) = (self.pty, self.paste.is_on());
            let text = frame::content(&frame.text).unwrap_or_default();
            if self.typed.is_new(id.as_str()) {
                let typing = async move { (id, pty.type_in(&text, paste).await) };
                return Some(typing.boxed());
            }
            self.wrote(id);
        }
    }

    fn was_typed(&mut self, (id, typed): (MessageId, io::Result<()>)) {
        self.is_active();
        match typed {
            Ok(()) => self.wrote(id),
            // Its terminal is closed; its end is noticed in a moment.
            Err(error) => tracing::debug!(%error, "a message could not be typed"),
        }
    }

    fn wrote(&self, id: MessageId) {
        self.desk.wrote(&self.agent.socket, &[id]);
    }

    /// The program is gone; what it printed last may say more.
    async fn ended(&mut self, status: ExitStatus) -> Reason {
        let mut is_done = false;
        if let Some(mut output) = self.output.take() {
            let rest = async {
                while let Some(piece) = output.recv().await {
                    is_done |= self.printed(&piece);
                }
            };
            // Others may keep the terminal open.
            let _ = timeout(DRAIN_WITHIN, rest).await;
        }
        match status.success() {
            _ if is_done || self.marker.is_last() => Reason::Done,
            true => Reason::Exited,
            false => Reason::Crashed,
        }
    }
}

async fn told(stop: &mut watch::Receiver<Option<Reason>>) -> Reason {
    let told = stop.wait_for(Option::is_some).await;
    told.ok()
        .and_then(|reason| *reason)
        .unwrap_or(Reason::Killed)
}

//! The broker as a whole: what all its connections share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use axum::http::Request;
use parking_lot::Mutex;
use switchboard_core::query::{AgentFilter, Page};
use switchboard_core::talk::Session;
use switchboard_core::verb::CloseDoor;
use switchboard_core::{AgentId, Door};
use switchboard_wire::squidrun::{Role, Roles};
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;

use super::acks::Acks;
use super::background::Background;
use super::desk::Desk;
use super::socket::Socket;
use crate::call::Calls;
use crate::config::{self, Config};
use crate::http::Gate;
use crate::hub::Error;
use crate::squidrun::Told;

/// Events of clients that wait for the journal; then the oldest are left out.
const TOLD_MAX: usize = 256;

pub(crate) struct Broker {
    calls: Arc<Calls>,
    pub(super) config: config::Broker,
    gate: Gate,
    /// Whether what is said to `telegram` is sent.
    pub(super) has_bot: bool,
    /// Whether frames are counted.
    pub(super) is_limited: bool,
    /// One for each role that is connected here.
    pub(super) desks: Mutex<HashMap<AgentId, Arc<Desk>>>,
    /// Every connection that registered, by its role.
    present: Mutex<HashMap<AgentId, Vec<Arc<Socket>>>>,
    pub(super) acks: Acks,
    pub(super) background: Background,
    /// The session as it was last heard of.
    session: AtomicU32,
    clients: AtomicU64,
    pub(super) connections: Arc<AtomicUsize>,
    pub(super) tally: Tally,
    /// What clients did by themselves, for whoever keeps the journal.
    pub(super) told: broadcast::Sender<Told>,
    /// Desks at work.
    pub(super) tasks: TaskTracker,
}

/// What is counted.
#[derive(Default)]
pub(super) struct Tally {
    pub frames: AtomicU64,
    pub refused: AtomicU64,
    pub slow: AtomicU64,
}

impl Deref for Broker {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}

impl Broker {
    pub fn new(config: &Config, calls: &Arc<Calls>) -> Broker {
        Broker {
            calls: Arc::clone(calls),
            config: config.broker.clone(),
            gate: Gate::new(&config.http),
            has_bot: config.telegram.account().is_ok_and(|bot| bot.is_some()),
            is_limited: config.limits.enabled,
            desks: Mutex::default(),
            present: Mutex::default(),
            acks: Acks::default(),
            background: Background::new(config),
            session: AtomicU32::new(0),
            clients: AtomicU64::new(0),
            connections: Arc::default(),
            tally: Tally::default(),
            told: broadcast::Sender::new(TOLD_MAX),
            tasks: TaskTracker::new(),
        }
    }

    pub fn roles(&self) -> &Roles {
        &self.config.roles
    }

    /// A role or a slot by its canonical name.
    pub(super) fn role(&self, id: &AgentId) -> Option<&Role> {
        self.roles().iter().find(|role| role.id == id.as_str())
    }

    /// Whether a handshake calls the hub by a name of its own, and comes from no page of others.
    pub(super) fn check(&self, request: &Request<()>, local: SocketAddr) -> Result<(), String> {
        let checked = self.gate.check(request, local);
        checked.map_err(|failure| failure.answer().0.message)
    }

    pub(super) fn next_client(&self) -> u64 {
        self.clients.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of the session that runs.
    pub fn session(&self) -> u32 {
        self.session.load(Ordering::Relaxed)
    }

    pub(super) fn heard_session(&self, number: u32) {
        self.session.fetch_max(number, Ordering::Relaxed);
    }

    pub(super) async fn look_at_session(&self) -> Result<(), Error> {
        let read = self.hub.read(|ledger| ledger.private::<Session>(""));
        if let Some(session) = read.await? {
            self.heard_session(session.number);
        }
        Ok(())
    }

    pub(super) fn come(&self, role: &AgentId, socket: &Arc<Socket>) {
        let mut present = self.present.lock();
        let theirs = present.entry(role.clone()).or_default();
        theirs.push(Arc::clone(socket));
    }

    pub(super) fn go(&self, role: &AgentId, socket: &Arc<Socket>) {
        let mut present = self.present.lock();
        if let Some(theirs) = present.get_mut(role) {
            theirs.retain(|known| known.id != socket.id);
            if theirs.is_empty() {
                present.remove(role);
            }
        }
    }

    /// When a connection of this role last sent something, if there is one here.
    pub(super) fn seen_ms(&self, role: &AgentId) -> Option<i64> {
        let present = self.present.lock();
        let theirs = present.get(role)?.iter();
        theirs.map(|socket| socket.seen_ms()).max()
    }

    pub(super) fn roles_present(&self) -> usize {
        self.present.lock().len()
    }

    /// Nobody is connected yet: doors that a process before left open are closed. Where others serve the ledger too,
    /// they may be theirs.
    pub(super) async fn close_left_over(&self) -> Result<(), Error> {
        if self.hub.is_shared() {
            return Ok(());
        }
        let mut page = Page::first();
        loop {
            let now = page.clone();
            let filter = AgentFilter::default();
            let found = self.hub.read(move |ledger| ledger.agents(&filter, &now));
            let found = found.await?;
            let door = Door::Squidrun;
            let left = found.rows.into_iter();
            for agent in left.filter(|agent| agent.doors.contains(&door)) {
                let agent = agent.id;
                self.hub.run(CloseDoor { agent, door }).await?;
            }
            page.after = found.next;
            if page.after.is_none() {
                return Ok(());
            }
        }
    }
}

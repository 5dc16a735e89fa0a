//! The bus as a whole: what all its connections share, and how it is opened and closed.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use switchboard_core::Timestamp;
use switchboard_core::verb::{Backoff, BackoffMode};
use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::Text;
use switchboard_wire::agentbus::UtcTime;
use switchboard_wire::agentbus::envelope::Sender;
use switchboard_wire::agentbus::session;
use switchboard_wire::agentbus::{Flag, Flags};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::authority::{Authority, Watcher};
use super::board::Board;
use super::budgets::Budgets;
use super::descriptors::Descriptors;
use super::director::Director;
use super::drift::{Drift, Policy};
use super::interfaces::{Surroundings, choose};
use super::registry::Registry;
use super::{listen, relay};
use crate::call::Calls;
use crate::config::{self, Config, Security};
use crate::hub::Hub;
use crate::memory::{Memory, Settings};
use crate::serve::ServeError;

/// What all connections of the bus share.
pub(crate) struct BusState {
    calls: Arc<Calls>,
    pub config: config::Bus,
    pub limits: Arc<session::Limits>,
    /// One for each start of a hub.
    pub run_id: String,
    pub(super) registry: Registry,
    pub(super) board: Board,
    pub director: Director,
    pub drift: Drift,
    pub drift_policy: Policy,
    pub authority: Option<Authority>,
    pub memory: Option<Memory>,
    pub budgets: Budgets,
    /// At most so many workers have a task at a time, if there is a bound.
    pub slots: Option<Arc<Semaphore>>,
    pub connections: Arc<AtomicUsize>,
    pub tally: Tally,
    started: Instant,
}

/// What is counted about frames.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub frames: AtomicU64,
    pub(super) flags: Mutex<Vec<(Flag, u64)>>,
    pub slow: AtomicU64,
}

/// An open bus.
pub(crate) struct Bus {
    pub shared: Arc<BusState>,
    pub addrs: Vec<SocketAddr>,
    tasks: JoinSet<()>,
    /// Sees what becomes of certificates while the bus is open.
    _watcher: Option<Watcher>,
}

/// How often the memory looks at the log.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long connections get to hear that the hub stops.
const GRACE: Duration = Duration::from_secs(1);

impl Bus {
    /// Listens where the settings say; the sockets are bound before anybody is served.
    pub async fn open(calls: &Arc<Calls>, config: &Config) -> Result<Bus, ServeError> {
        let (hub, settings) = (&calls.hub, config.bus.clone());
        let authority = match settings.security {
            Security::MutualTls => Some(Authority::open(&config.data_dir)?),
            Security::DockerNetworkOnly => None,
        };
        let chosen = choose(&settings, &Surroundings::look())?;
        for left_out in &chosen.left_out {
            tracing::info!(
                "the bus does not listen on {} ({}), because other machines may be able to reach it",
                left_out.address,
                left_out.name
            );
        }
        if let Some(warning) = chosen.unknown {
            tracing::warn!("{warning}");
        }
        let descriptors = Descriptors::raise();
        if let Some(warning) = descriptors.warning(settings.connections_max.into()) {
            tracing::warn!("{warning}");
        }
        let listeners = listen_on(&chosen.listen, settings.port_is_asked)?;
        let addrs: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
        let addrs = addrs.map_err(|source| ServeError::Listen {
            listen: chosen.listen[0],
            source,
        })?;
        let watcher = authority.as_ref().map(Authority::watch);
        let drift = Drift::start(&settings.sync_main).await;
        let run_id = run_id(hub.time());
        let memory = match settings.memory.enabled {
            true => Some(remember(hub, config, &run_id).await),
            false => None,
        };
        let shared = Arc::new(BusState {
            memory,
            budgets: Budgets::new(hub.clone(), &settings),
            director: Director::new(hub, settings.director.interval),
            limits: Arc::new(limits(&settings)),
            run_id,
            registry: Registry::default(),
            board: Board::default(),
            drift_policy: Policy::new(&settings.sync_main),
            drift,
            authority,
            slots: settings
                .director
                .max_workers
                .map(|max| Arc::new(Semaphore::new(max as usize))),
            connections: Arc::default(),
            tally: Tally::default(),
            started: Instant::now(),
            calls: Arc::clone(calls),
            config: settings,
        });
        let mut tasks = JoinSet::new();
        for listener in listeners {
            tasks.spawn(listen::accept(Arc::clone(&shared), listener));
        }
        tasks.spawn(relay::heartbeats(Arc::clone(&shared)));
        tasks.spawn(relay::snapshots(Arc::clone(&shared)));
        let told = relay::Told::upto(*hub.latest().borrow());
        let news = hub.shared.wakeups().news();
        tasks.spawn(relay::log_news(Arc::clone(&shared), told, news));
        let duty = Arc::clone(&shared.director.duty);
        tasks.spawn(duty.keep(shared.stopping.clone()));
        tasks.spawn(super::director::run(Arc::clone(&shared)));
        tasks.spawn(super::memory::announce(Arc::clone(&shared)));
        tasks.spawn(grant(Arc::clone(&shared)));
        Ok(Bus {
            shared,
            addrs,
            tasks,
            _watcher: watcher,
        })
    }

    /// After the token was canceled: waits until everybody is gone, not for long.
    pub async fn close(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE * 2, all).await;
        self.tasks.abort_all();
        if let Some(memory) = &self.shared.memory {
            memory.stop().await;
        }
    }
}

impl Deref for BusState {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}

impl BusState {
    /// Milliseconds since the bus was opened, for the sessions.
    pub fn millis(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub fn utc(&self) -> UtcTime {
        UtcTime(self.hub.time().0)
    }

    /// Who the director is on every connection.
    pub fn sender(&self) -> Sender<'static> {
        Sender {
            role: Role::Director,
            id: Text::from("director"),
            run_id: Some(Text::from(self.run_id.clone())),
        }
    }

    /// Bytes of payload that fit into one line of this type.
    pub fn room(&self, message_type: &str) -> usize {
        let max = self.config.max_message_bytes;
        switchboard_wire::agentbus::envelope::room(max, message_type, &self.sender())
    }

    pub fn backoff(&self) -> Backoff {
        let retry = &self.config.retry;
        Backoff {
            mode: match retry.mode {
                config::Backoff::Exponential => BackoffMode::Exponential,
                config::Backoff::Linear => BackoffMode::Linear,
            },
            initial: retry.initial,
            max: retry.max,
            jitter: draw(1001),
            at_least: Duration::ZERO,
        }
    }
}

/// A number below this, different for everyone who asks at the same moment.
pub(super) fn draw(below: u16) -> u16 {
    use std::hash::{BuildHasher as _, RandomState};
    let drawn = RandomState::new().hash_one(0_u8) % u64::from(below.max(1));
    u16::try_from(drawn).unwrap_or(0)
}

impl Tally {
    pub fn count(&self, flags: Flags) {
        if flags.is_empty() {
            return;
        }
        let mut counted = self.flags.lock();
        for flag in flags.iter() {
            match counted.iter_mut().find(|(known, _)| *known == flag) {
                Some((_, count)) => *count += 1,
                None => counted.push((flag, 1)),
            }
        }
    }

    pub fn frame(&self) {
        self.frames.fetch_add(1, Ordering::Relaxed);
    }
}

fn limits(settings: &config::Bus) -> session::Limits {
    session::Limits {
        silent_after: settings.heartbeat_ttl,
        heartbeat_every: settings.heartbeat_interval,
        rate: settings.rate(),
        ..session::Limits::default()
    }
}

/// Grants reach workers as they come.
async fn grant(bus: Arc<BusState>) {
    let told = bus
        .budgets
        .run(|worker, message| bus.registry.send(worker, message));
    tokio::select! {
        () = told => {}
        () = bus.stopping.cancelled() => {}
    }
}

async fn remember(hub: &Hub, config: &Config, run_id: &str) -> Memory {
    let settings = Settings {
        config: config.bus.memory.clone(),
        record: config.data_dir.join("memory.written.json"),
        before: config.bus.memory.before(&config.project),
        run_id: run_id.to_owned(),
        look_every: LOOK_EVERY,
    };
    if let Some(before) = &settings.before
        && before.join(config::CATALOG).is_file()
    {
        tracing::info!(
            "engrams are now stored in {}, no longer in {}; to keep the old place set [memory] engram_root_dir = \"{}\"",
            settings.config.root_dir.display(),
            before.display(),
            config::MEMORY_DIR
        );
    }
    Memory::start(hub.clone(), settings).await
}

fn run_id(now: Timestamp) -> String {
    let batch = switchboard_wire::agentbus::engram::batch_id(UtcTime(now.0));
    format!("run_{batch}-{:04x}", draw(u16::MAX))
}

/// A port that nobody asked for gives way to any that is free.
fn listen_on(addrs: &[SocketAddr], port_is_asked: bool) -> Result<Vec<TcpListener>, ServeError> {
    match bind(addrs) {
        Err(ServeError::Taken { listen, owner, .. }) if !port_is_asked => {
            tracing::warn!(
                "{listen} is already in use{owner}, so the bus listens on another port; choose one with --bus"
            );
            let free = addrs.iter().map(|addr| SocketAddr::new(addr.ip(), 0));
            bind(&free.collect::<Vec<_>>())
        }
        bound => bound,
    }
}

fn bind(addrs: &[SocketAddr]) -> Result<Vec<TcpListener>, ServeError> {
    let mut port = None;
    let mut bound = Vec::new();
    for addr in addrs {
        let mut addr = *addr;
        // Any port will do for the first; the others are where the first one is.
        if let (0, Some(port)) = (addr.port(), port) {
            addr.set_port(port);
        }
        let listener = crate::serve::listen(addr, "--bus")?;
        port = listener.local_addr().ok().map(|addr| addr.port());
        bound.push(listener);
    }
    Ok(bound)
}

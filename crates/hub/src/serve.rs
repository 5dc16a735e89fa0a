//! From settings to a serving hub, and back to nothing in good order.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use switchboard_store::copy::{self, Place};
use switchboard_store::moved;
use switchboard_store::postgres::{PostgresEngine, Steps};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Engine, SystemClock, Wall};
use switchboard_wire::IsoTime;
use switchboard_wire::signature::MasterKey;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::auth::{self, Auth};
use crate::bus::authority::AuthorityError;
use crate::call::Calls;
use crate::config::{AddressSafety, AuthMode, Config, ConfigError, StoreAt, Tls};
use crate::data_dir::{Card, DataDir, DataDirError, HubFile, Key, Keys, private};
use crate::http::{App, url};
use crate::hub::{self, Hub, HubConfig};
use crate::jobs::Jobs;
use crate::listener;
use crate::projection::folder;
use crate::raw_sql;
use crate::sql::Sql;
use crate::surface::{Open, Surface};
use crate::swarm_db::{self, SwarmDb};
use crate::tls::{self, TlsError};
use crate::{broker, bus, files, greeting, http, jobs, runtime, squidrun, telegram, unserved};

/// The doors, in the order in which they open: whoever gets an answer over HTTP finds the others open too.
pub(crate) const SURFACES: &[Surface] = &[
    files::SURFACE,
    squidrun::SURFACE,
    bus::SURFACE,
    broker::SURFACE,
    telegram::SURFACE,
    runtime::SURFACE,
    jobs::SURFACE,
    http::SURFACE,
];

/// What was accepted gets this long to finish; one second of the five is the ledger's.
pub(crate) const GRACE: Duration = Duration::from_secs(4);
/// Connections that the system may hold until they are accepted.
const BACKLOG: u32 = 1024;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("cannot open the ledger: {0}")]
    Store(#[from] switchboard_store::Error),
    #[error(transparent)]
    SwarmDb(#[from] swarm_db::Refused),
    #[error("the hub cannot start: {0}")]
    Hub(#[from] hub::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(
        "{listen} is already in use{owner}; stop that process, or choose another address with {flag}"
    )]
    Taken {
        listen: SocketAddr,
        owner: String,
        flag: &'static str,
    },
    #[error("cannot listen on {listen}")]
    Listen {
        listen: SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot wait for signals")]
    Signals(#[source] std::io::Error),
}

/// Serves until it is told to stop by SIGTERM or SIGINT. `command` is how a person begins one that talks to this hub.
pub async fn serve(config: Config, command: &str) -> Result<(), ServeError> {
    let mut told = Signals::new().map_err(ServeError::Signals)?;
    let running = Running::start(config).await?;
    let doors = running
        .doors
        .iter()
        .filter_map(|(_, door)| door.line.clone());
    let said: Vec<String> = running.imported.clone().into_iter().chain(doors).collect();
    if io::stdout().is_terminal() {
        let has_bus = running.bus_addr().is_some();
        print!(
            "{}",
            greeting::text(&said, running.data_dir(), has_bus, command)
        );
        tokio::spawn(greeting::follow(running.hub.clone()));
        tokio::spawn(broker::terminal::show(Arc::clone(&running.app.broker)));
    } else {
        said.iter().for_each(|line| println!("{line}"));
    }
    let why = told.next().await;
    tracing::info!("{why}; the hub stops");
    running.shutdown().await;
    Ok(())
}

/// A hub that serves.
pub struct Running {
    pub addr: SocketAddr,
    pub hub: Hub,
    /// What was imported on this start, in one line.
    pub imported: Option<String>,
    app: Arc<App>,
    doors: Vec<(&'static str, Open)>,
    announced: HubFile,
    data_dir: DataDir,
    tls: bool,
}

impl Running {
    pub async fn start(config: Config) -> Result<Running, ServeError> {
        let store = match config.store {
            StoreAt::Sqlite(_) => "sqlite",
            StoreAt::Postgres(_) => "postgres",
        };
        Self::start_on(config, open, store).await
    }

    /// The same on an engine that is open already.
    pub async fn start_with(
        config: Config,
        engine: Box<dyn Engine>,
        store: &'static str,
    ) -> Result<Running, ServeError> {
        let opened = Opened {
            engine,
            imported: None,
            is_rewound: false,
        };
        Self::start_on(config, |_| Ok(opened), store).await
    }

    async fn start_on(
        mut config: Config,
        open: impl FnOnce(&Config) -> Result<Opened, ServeError> + Send + 'static,
        store: &'static str,
    ) -> Result<Running, ServeError> {
        let safety = config.check_address()?;
        let data_dir = DataDir::open_within(&config.data_dir, config.store_mode, config.lock_wait)?;
        warn_of(&config, safety);
        tls::add_names(&mut config.http)?;
        let mut openers = Vec::new();
        for surface in SURFACES {
            let opener = (surface.bind)(&config, &data_dir)?;
            openers.extend(opener.map(|open| (surface.name, open)));
        }
        // An engine may have to wait for a connection, and may do so on a runtime of its own.
        let opened = tokio::task::spawn_blocking(move || {
            let Opened {
                mut engine,
                imported,
                is_rewound,
            } = open(&config)?;
            engine.start_clock(match config.clock_is_right {
                true => Wall::Trusted,
                false => Wall::Checked,
            })?;
            if is_rewound {
                copy::begin_epoch(engine.as_mut(), (0, 0))?;
            }
            let master = master_key(engine.as_mut(), &data_dir)?;
            Ok::<_, ServeError>((config, data_dir, engine, imported, master))
        });
        let (config, data_dir, engine, imported, master) =
            opened.await.map_err(|_| hub::Error::Broken)??;
        let hub_config = HubConfig {
            keep: config.retention,
            stale_after: config.tasks.stale_after,
            policy: Arc::new(config.quality.clone()),
            root: config.project.to_string_lossy().into_owned(),
            runtime: config.runtime.clone(),
            ..HubConfig::default()
        };
        let sql = engine.door().map(|door| Sql::start(raw_sql::Door(door)));
        let hub = Hub::start(engine, hub_config).await?;
        let started_at = wall();
        let auth = Auth::new(config.auth, MasterKey::new(master));
        let calls = Arc::new(Calls::new(&config, hub.clone(), auth));
        let app = App::new(&config, Arc::clone(&calls), started_at, store, sql);
        let app = Arc::new(app);
        tokio::spawn(auth::follow(calls, data_dir.keys(), master));
        let mut doors = Vec::new();
        for (name, open) in openers {
            doors.push((name, open(&app, &config).await?));
        }
        private::ignore_in_jetpack(&config);
        let figures = doors.iter().filter_map(|(_, door)| door.figures.clone());
        let _ = app.metrics.doors.set(figures.collect());
        let place = config.store.place()?.settled().to_string();
        let said = doors.iter().flat_map(|(_, door)| door.card.clone());
        let announced = data_dir.announce(&Card::new(said.collect(), place, started_at))?;
        app.is_announced.store(true, Ordering::Release);
        Ok(Running {
            addr: addr_of(&doors, http::SURFACE.name).expect("HTTP is never closed"),
            hub,
            imported,
            app,
            doors,
            announced,
            data_dir,
            tls: config.http.tls != Tls::Off,
        })
    }

    /// Where it can be reached from this machine.
    pub fn url(&self) -> String {
        url(self.addr, self.tls)
    }

    pub fn data_dir(&self) -> &Path {
        self.data_dir.path()
    }

    /// The jobs of its ledger.
    pub fn jobs(&self) -> &Arc<Jobs> {
        &self.app.jobs
    }

    /// Where the bus listens, if it does; the first of its addresses.
    pub fn bus_addr(&self) -> Option<SocketAddr> {
        addr_of(&self.doors, bus::SURFACE.name)
    }

    /// Where the broker listens, if it does.
    pub fn broker_addr(&self) -> Option<SocketAddr> {
        addr_of(&self.doors, broker::SURFACE.name)
    }

    /// Accepts nothing more, finishes what was accepted, closes streams, and puts the ledger away.
    pub async fn shutdown(self) {
        self.app.is_announced.store(false, Ordering::Release);
        drop(self.announced);
        self.app.stopping.cancel();
        join_all(self.doors.into_iter().map(|(_, door)| (door.close)())).await;
        self.hub.stop().await;
        drop(self.data_dir);
    }
}

fn addr_of(doors: &[(&'static str, Open)], name: &str) -> Option<SocketAddr> {
    let (_, door) = doors.iter().find(|(known, _)| *known == name)?;
    door.addr
}

/// For tests of a rolling upgrade: `next` makes this build behave like one with another schema step.
const NEXT_SCHEMA: &str = "SWITCHBOARD_TEST_SCHEMA";

/// A ledger, what was imported into it, and whether others were told of events that it does not have.
struct Opened {
    engine: Box<dyn Engine>,
    imported: Option<String>,
    is_rewound: bool,
}

fn open(config: &Config) -> Result<Opened, ServeError> {
    let place = config.store.place()?;
    let is_rewound = config.abandon_move && abandon_move(&place)?;
    let (engine, imported) = open_store(config)?;
    unserved::mark(config, &place.settled());
    Ok(Opened {
        engine,
        imported,
        is_rewound,
    })
}

/// False if it was not moved.
fn abandon_move(place: &Place) -> Result<bool, ServeError> {
    let mark = moved::abandon(place)?;
    match &mark {
        Some(mark) => tracing::warn!(
            "{place} is served again as it was at {}; what was written to {} since then is not copied back",
            mark.at,
            mark.place
        ),
        None => tracing::info!("{place} was not moved; --abandon-move changes nothing"),
    }
    Ok(mark.is_some())
}

fn open_store(config: &Config) -> Result<(Box<dyn Engine>, Option<String>), ServeError> {
    match &config.store {
        StoreAt::Postgres(url) => {
            let steps = match std::env::var(NEXT_SCHEMA) {
                Ok(word) if word == "next" => Steps::and_the_next(),
                Ok(_) | Err(_) => Steps::all(),
            };
            if let Some(hint) = swarm_db::hint(&config.project).filter(|_| config.swarm_db) {
                tracing::info!("{hint}");
            }
            let engine = PostgresEngine::open_with(url.address()?, None, steps)?;
            Ok((Box::new(engine), None))
        }
        StoreAt::Sqlite(path) => {
            if let Some(above) = path.parent() {
                folder::make(above, 0o777).map_err(|source| DataDirError::Unusable {
                    path: above.to_owned(),
                    source,
                })?;
            }
            let swarm = SwarmDb::new(&config.project, path);
            // Refused before there is a ledger.
            let plan = config.swarm_db.then(|| swarm.plan()).transpose()?;
            private::set_ledger(path, config.store_mode);
            let engine = SqliteEngine::open(path, Box::new(SystemClock::new()))?;
            let carry_out = match engine.is_writable() {
                true => swarm_db::Plan::carry_out,
                false => swarm_db::Plan::carry_out_without_import,
            };
            let told = plan.map(carry_out).transpose()?;
            Ok((Box::new(engine), told.and_then(swarm_db::Told::log)))
        }
    }
}

/// The key that everyone who serves this ledger signs with: the ledger's own if it keeps one, else the data directory's.
fn master_key(engine: &mut dyn Engine, data_dir: &DataDir) -> Result<Key, ServeError> {
    let keys = data_dir.keys();
    let own = keys.own()?;
    let offered = match own.map_or_else(|| keys.shared(), |own| Ok(Some(own)))? {
        Some(key) => key,
        None => Keys::fresh()?,
    };
    let key = engine.shared_key(&offered)?.unwrap_or(offered);
    if own.is_none() {
        keys.keep_own(&key)?;
    } else if key != offered {
        tracing::info!(
            "the key in {} belongs to another ledger and is kept; this ledger's key is in {} beside it",
            data_dir.path().join(Keys::OWN).display(),
            Keys::SHARED
        );
    }
    keys.keep_served(&key)?;
    Ok(key)
}

fn warn_of(config: &Config, safety: AddressSafety) {
    match safety {
        AddressSafety::Safe => {}
        AddressSafety::Insecure { missing } => tracing::warn!(
            "{} can be reached from other machines without {missing}; anyone who can reach it can do everything",
            config.http.listen
        ),
    }
    if config.auth == AuthMode::None && !config.http.trusted_proxies.is_empty() {
        tracing::warn!(
            "trusted proxies are set, but no authentication; anyone who can reach a proxy can do everything"
        );
    }
}

pub(crate) fn listen(listen: SocketAddr, flag: &'static str) -> Result<TcpListener, ServeError> {
    let bound = || {
        let socket = if listen.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        socket.bind(listen)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            let owner =
                listener::listener_of(listen.port()).map(|pid| format!(" by process {pid}"));
            ServeError::Taken {
                listen,
                owner: owner.unwrap_or_default(),
                flag,
            }
        }
        _ => ServeError::Listen { listen, source },
    })
}

fn wall() -> IsoTime {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    IsoTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// SIGXFSZ, on Linux and macOS.
const FILE_TOO_LARGE: i32 = 25;

/// Heard from before the hub is there, so that none is lost while it starts.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        // Whoever does not listen is ended when a file reaches a size limit, instead of being told that the write failed.
        drop(signal(SignalKind::from_raw(FILE_TOO_LARGE))?);
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

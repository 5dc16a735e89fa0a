//! What a hub is told before it starts: the settings, their defaults, and the one rule about safe addresses.
//!
//! Where a setting comes from (flags, environment, file) is the business of `load`; what it does, of whoever reads it.

mod broker;
mod bus;
mod file;
mod load;
mod logist;
mod net;
mod read;
mod runtime;
mod settings;
mod telegram;
mod worker;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use switchboard_core::verb::Retention;
use switchboard_core::{GatePolicy, limits};
use switchboard_store::copy::Place;
use switchboard_store::postgres::Address;

pub(crate) use broker::BROKER_SETTINGS;
pub use broker::{BROKER_PORT, Background, Broker};
pub use bus::{
    BUS_PORT, Backoff, Bus, CATALOG, DEV_FILE, Director, GithubLimits, MEMORY_DIR, Memory,
    ModelLimits, Retry, Security, SyncAction, SyncMain,
};
pub(crate) use bus::{DEV_SETTINGS, OWN_SETTINGS};
pub use load::{ConfigError, Loaded, Overrides};
pub use logist::{Agent, Logist, PromptKey};
pub(crate) use logist::{LOGIST_JOBS_DIR, LOGIST_KEY, LOGIST_SETTINGS, MOCK};
pub use net::Network;
pub(crate) use read::read;
pub(crate) use runtime::RUNTIME_SETTINGS;
pub use runtime::Runtime;
pub(crate) use settings::{Entry, count};
pub use telegram::{BotToken, Telegram};
pub(crate) use telegram::{TELEGRAM_CHAT, TELEGRAM_SETTINGS, TELEGRAM_TOKEN};
pub use worker::{GateSetting, Worker};

use crate::serve::SURFACES;

/// The port that a hub listens on unless told otherwise.
pub const PORT: u16 = 7373;
/// The directory that a hub keeps its state in, below the project.
pub const DATA_DIR: &str = ".switchboard";
/// The ledger's file in a data directory, unless the settings name another.
pub const DATABASE: &str = "switchboard.db";
/// The directory that requests are put into as files, below the project.
pub const FILES_DIR: &str = ".jetpack/protocol";
/// The directory of SquidRun, below the project.
pub const SQUIDRUN_DIR: &str = ".squidrun";
/// The file that settings are read from, in the project.
pub const CONFIG_FILE: &str = "switchboard.toml";

/// Every setting, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Lease paths are relative to this directory.
    pub project: PathBuf,
    pub data_dir: PathBuf,
    pub http: Http,
    pub store: StoreAt,
    /// Who may read the data directory and the ledger's files.
    pub store_mode: StoreMode,
    /// Whether the SQLite file also opens as `.jetpack/swarm.db`.
    pub swarm_db: bool,
    /// Serve a ledger that was moved elsewhere, as a person's own decision. Only `up` can say so.
    pub abandon_move: bool,
    pub files: Files,
    pub squidrun: Squidrun,
    pub bus: Bus,
    pub broker: Broker,
    pub telegram: Telegram,
    pub logist: Logist,
    pub runtime: Runtime,
    pub auth: AuthMode,
    /// Whether `/metrics` and the details of `/readyz` take no token where authentication is on.
    pub metrics_are_public: bool,
    pub limits: Limits,
    pub quality: GatePolicy,
    pub retention: Retention,
    pub tasks: Tasks,
    /// What workers of this project read.
    pub worker: Worker,
    pub gates: Vec<GateSetting>,
    pub log: Log,
    /// For this start only: another hub that has the data directory is waited for.
    pub lock_wait: Duration,
    /// For this start only: the clock's word is taken, however long nobody served.
    pub clock_is_right: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// A claim that its agent has left behind and not named for this long goes back.
    pub stale_after: Duration,
}

impl Default for Tasks {
    fn default() -> Self {
        Tasks {
            stale_after: limits::STALE_AFTER,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    pub listen: SocketAddr,
    /// Names beside the loopback ones that a `Host` or `Origin` header may carry.
    pub allowed_hosts: Vec<String>,
    /// Who may say in `X-Forwarded-For` whom it speaks for.
    pub trusted_proxies: Vec<Network>,
    pub tls: Tls,
    /// Listen beyond loopback without authentication or TLS, as the operator's own decision.
    pub insecure_bind: bool,
    pub connections_max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    Off,
    Files {
        cert: PathBuf,
        key: PathBuf,
    },
    /// A certificate made at the start, for trials.
    SelfSigned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAt {
    Sqlite(PathBuf),
    Postgres(PostgresUrl),
}

/// Requests and answers as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub enabled: bool,
    /// Holds `requests`, `responses` and the rest.
    pub dir: PathBuf,
    /// How often the directory is looked through, whatever was or was not heard of it.
    pub rescan_every: Duration,
    /// How long answers, and requests that were answered, are left lying.
    pub keep_for: Duration,
}

/// The directory of SquidRun: trigger files, the journal, the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Squidrun {
    pub enabled: bool,
    pub dir: PathBuf,
    /// Whether trigger files, which prove nothing, are served where callers must prove who they are.
    pub triggers: bool,
    /// How long the journal keeps what was said.
    pub journal_for: Duration,
}

/// An address that was understood. It may hold a password and is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl PostgresUrl {
    pub fn parse(url: &str) -> Result<PostgresUrl, switchboard_store::Error> {
        Address::parse(url).map(|_| PostgresUrl(url.to_owned()))
    }

    /// The address itself; files that it names are read anew.
    pub fn address(&self) -> Result<Address, switchboard_store::Error> {
        Address::parse(&self.0)
    }
}

impl StoreAt {
    /// The place as the store knows it.
    pub fn place(&self) -> Result<Place, switchboard_store::Error> {
        Ok(match self {
            StoreAt::Sqlite(file) => Place::Sqlite(file.clone()),
            StoreAt::Postgres(url) => Place::Postgres(url.address()?),
        })
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Ok(address) => write!(f, "{address}"),
            Err(_) => f.write_str("postgres://…"),
        }
    }
}

/// Who else than its owner may open a ledger that is a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    Private,
    GroupReads,
    GroupWrites,
}

impl StoreMode {
    pub fn of_file(self) -> u32 {
        match self {
            StoreMode::Private => 0o600,
            StoreMode::GroupReads => 0o640,
            StoreMode::GroupWrites => 0o660,
        }
    }

    /// Nobody else makes or replaces files there: the key is among them.
    pub fn of_directory(self) -> u32 {
        match self {
            StoreMode::Private => 0o700,
            StoreMode::GroupReads | StoreMode::GroupWrites => 0o750,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// Whoever reaches the socket is the steward.
    None,
    /// Agents sign, people bring tokens.
    Hmac,
}

/// Calls per minute, by class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub enabled: bool,
    /// Per address, and not for loopback, where all agents share one.
    pub register_per_minute: u32,
    pub heartbeat_per_minute: u32,
    pub claim_per_minute: u32,
    /// Events for agents of any node.
    pub publish_per_minute: u32,
    pub other_per_minute: u32,
    /// Exchanges and tickets of nodes, per address.
    pub node_auth_per_minute: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// A filter such as `info` or `warn,switchboard_hub=debug`.
    pub filter: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl Config {
    /// The defaults, for a project in this directory.
    pub fn for_project(project: PathBuf) -> Config {
        let data_dir = project.join(DATA_DIR);
        let store = StoreAt::Sqlite(data_dir.join(DATABASE));
        Config {
            files: Files::of_project(&project),
            squidrun: Squidrun::of_project(&project),
            bus: Bus::of_project(&project, &data_dir),
            logist: Logist::below(&data_dir),
            broker: Broker::default(),
            telegram: Telegram::default(),
            runtime: Runtime::default(),
            project,
            data_dir,
            http: Http::default(),
            store,
            store_mode: StoreMode::Private,
            swarm_db: true,
            abandon_move: false,
            auth: AuthMode::None,
            metrics_are_public: false,
            limits: Limits::default(),
            quality: GatePolicy::default(),
            retention: Retention::default(),
            tasks: Tasks::default(),
            worker: Worker::default(),
            gates: Vec::new(),
            log: Log::default(),
            lock_wait: Duration::ZERO,
            clock_is_right: false,
        }
    }

    /// Beyond loopback only with authentication and TLS, or by an explicit word.
    pub fn check_address(&self) -> Result<AddressSafety, ConfigError> {
        let listen = self.http.listen;
        let Some(missing) = self.missing_for(listen) else {
            return Ok(AddressSafety::Safe);
        };
        if self.http.insecure_bind {
            return Ok(AddressSafety::Insecure { missing });
        }
        Err(ConfigError::UnsafeAddress { listen, missing })
    }

    /// The same for the broker, without the explicit word: whoever connects there says which role it is.
    pub fn check_broker_address(&self) -> Result<(), ConfigError> {
        let listen = self.broker.listen;
        let unsafe_at = |listen| Some((listen, self.missing_for(listen)?));
        match listen.and_then(unsafe_at) {
            Some((listen, missing)) => Err(ConfigError::UnsafeBrokerAddress { listen, missing }),
            None => Ok(()),
        }
    }

    /// What an address lacks to be safe; loopback lacks nothing.
    fn missing_for(&self, listen: SocketAddr) -> Option<&'static str> {
        if listen.ip().is_loopback() {
            return None;
        }
        match (self.auth, &self.http.tls) {
            (AuthMode::Hmac, Tls::Files { .. } | Tls::SelfSigned) => None,
            (AuthMode::Hmac, Tls::Off) => Some(
                "TLS (--tls-cert and --tls-key, or --tls-self-signed for a trial; in [http]: tls_cert, tls_key, tls_self_signed)",
            ),
            (AuthMode::None, Tls::Files { .. } | Tls::SelfSigned) => {
                Some("authentication (--auth hmac, or [auth] mode = \"hmac\")")
            }
            (AuthMode::None, Tls::Off) => Some(
                "authentication (--auth hmac, or [auth] mode = \"hmac\") and TLS (--tls-cert and --tls-key, or --tls-self-signed for a trial; in [http]: tls_cert, tls_key, tls_self_signed)",
            ),
        }
    }

    /// Why doors would not open as these settings say.
    pub fn refused(&self) -> Vec<ConfigError> {
        let checks = SURFACES.iter().map(|surface| (surface.check)(self));
        checks.filter_map(Result::err).collect()
    }

    /// What doors leave in the project that is not meant to be committed.
    pub fn leaves(&self) -> Vec<PathBuf> {
        let left = SURFACES.iter().flat_map(|surface| (surface.leaves)(self));
        left.collect()
    }

    /// A commented `switchboard.toml` that says what holds anyway.
    pub fn commented_default() -> &'static str {
        include_str!("default.toml")
    }
}

/// Whether an address may be listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSafety {
    Safe,
    /// The operator asked for it; what is missing is worth a warning.
    Insecure {
        missing: &'static str,
    },
}

impl Default for Http {
    fn default() -> Self {
        Http {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
            allowed_hosts: Vec::new(),
            trusted_proxies: Vec::new(),
            tls: Tls::Off,
            insecure_bind: false,
            connections_max: 4096,
        }
    }
}

impl Files {
    fn of_project(project: &Path) -> Self {
        Files {
            enabled: true,
            dir: project.join(FILES_DIR),
            rescan_every: Duration::from_millis(500),
            keep_for: Duration::from_secs(24 * 3600),
        }
    }
}

impl Squidrun {
    fn of_project(project: &Path) -> Self {
        Squidrun {
            enabled: true,
            dir: project.join(SQUIDRUN_DIR),
            triggers: false,
            journal_for: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        // jetpack, Rate Limiting.
        Limits {
            enabled: true,
            register_per_minute: 10,
            heartbeat_per_minute: 12,
            claim_per_minute: 30,
            publish_per_minute: limits::PUBLISHED_PER_MINUTE,
            other_per_minute: 60,
            node_auth_per_minute: 30,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Log {
            filter: "info".to_owned(),
            format: LogFormat::Text,
        }
    }
}

impl AuthMode {
    pub fn as_str(self) -> &'static str {
        match self {
            AuthMode::None => "none",
            AuthMode::Hmac => "hmac",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(listen: &str, auth: AuthMode, tls: Tls) -> Config {
        let mut config = Config::for_project("/project".into());
        config.http.listen = listen.parse().unwrap();
        config.auth = auth;
        config.http.tls = tls;
        config
    }

    #[test]
    fn loopback_needs_nothing() {
        for listen in ["127.0.0.1:7373", "127.8.9.1:0", "[::1]:7373"] {
            assert_eq!(
                at(listen, AuthMode::None, Tls::Off)
                    .check_address()
                    .unwrap(),
                AddressSafety::Safe
            );
        }
    }

    #[test]
    fn another_address_needs_authentication_and_tls_and_is_told_which() {
        let cases = [
            (
                AuthMode::None,
                Tls::Off,
                Some(["mode = \"hmac\"", "tls_cert"].as_slice()),
            ),
            (AuthMode::Hmac, Tls::Off, Some(&["tls_cert"])),
            (AuthMode::None, Tls::SelfSigned, Some(&["mode = \"hmac\""])),
            (AuthMode::Hmac, Tls::SelfSigned, None),
        ];
        for (auth, tls, told) in cases {
            let config = at("0.0.0.0:7373", auth, tls);
            let Some(told) = told else {
                assert_eq!(config.check_address().unwrap(), AddressSafety::Safe);
                continue;
            };
            let said = config.check_address().unwrap_err().to_string();
            for word in told {
                assert!(said.contains(word), "{said}");
            }
            assert!(said.contains("insecure_bind"), "{said}");
        }
    }

    #[test]
    fn the_opt_out_is_granted_with_a_warning() {
        let mut config = at("[::]:7373", AuthMode::None, Tls::Off);
        config.http.insecure_bind = true;
        assert!(matches!(
            config.check_address().unwrap(),
            AddressSafety::Insecure { .. }
        ));
    }
}

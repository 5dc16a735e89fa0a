//! Settings of the bus: the socket that workers and operators stream over, and the policies around it.
//!
//! Their names are those of `config/dev.toml`, which a project may have already; the same keys may stand in
//! `switchboard.toml`. Which addresses are listened on in the end is decided by `bus::interfaces`.

mod settings;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use settings::{DEV_SETTINGS, DevFile, OWN_SETTINGS};
use switchboard_core::engram::{Budget, Budgets};
use switchboard_wire::agentbus::session::{FRAMES_BURST, FRAMES_PER_SECOND, Rate};

/// The port that the bus listens on unless told otherwise.
pub const BUS_PORT: u16 = 8731;
/// The file that a project may have from before, below the project.
pub const DEV_FILE: &str = "config/dev.toml";
/// Where engrams are, below the data directory.
pub const MEMORY_DIR: &str = "memory";
/// Their list, beside them.
pub const CATALOG: &str = "catalog.json";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bus {
    pub enabled: bool,
    /// What was asked for; an unspecified address is resolved by `security`.
    pub listen: Vec<SocketAddr>,
    /// Whether the port was asked for, too; else any other will do where it is taken.
    pub port_is_asked: bool,
    pub security: Security,
    /// Interfaces that count as container networks because the operator says so.
    pub interfaces: Vec<String>,
    /// Where keys of `dev.toml` are read from; none leaves it aside.
    pub dev_file: Option<PathBuf>,
    /// The longest line that is received, without its newline.
    pub max_message_bytes: usize,
    pub heartbeat_interval: Duration,
    pub connections_max: u32,
    /// Frames a second that one connection may send on and on; none for as many as come.
    pub frames_per_second: Option<u32>,
    /// A worker that is quiet for longer is taken for disconnected.
    pub heartbeat_ttl: Duration,
    /// The hard cap of one task cycle.
    pub watchdog: Duration,
    /// A claim without progress for longer is given back.
    pub claim_stale: Duration,
    /// How long a worker may think about a task that was handed to it.
    pub accept_within: Duration,
    /// Whether numbers that nobody knows become tasks.
    pub adopt_issues: bool,
    /// What an operator may leave unread before it is dropped.
    pub operator_buffer_bytes: usize,
    pub director: Director,
    pub retry: Retry,
    pub sync_main: SyncMain,
    pub memory: Memory,
    pub github: GithubLimits,
    pub model: ModelLimits,
}

/// How connections are kept to those who may make them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Loopback and container networks, without credentials.
    DockerNetworkOnly,
    /// Anywhere, with certificates on both sides.
    MutualTls,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Director {
    pub interval: Duration,
    /// How many workers are given work at a time.
    pub max_workers: Option<u32>,
    pub max_retries: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    pub mode: Backoff,
    pub initial: Duration,
    pub max: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    Exponential,
    Linear,
}

/// When a worker has drifted, and what it is told then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncMain {
    pub max_commits_behind: u32,
    pub max_seconds_behind: u32,
    pub require_catalog_hash_match: bool,
    pub required_action: SyncAction,
    /// The repository whose main branch counts.
    pub repository: PathBuf,
    pub branch: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncAction {
    MergeMain,
    RebaseMain,
}

/// The event buffer, the engrams made of it, and their budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    pub enabled: bool,
    pub root_dir: PathBuf,
    /// The directory in the project that was asked for; else it is the data directory's.
    pub root_name: Option<String>,
    pub catalog: PathBuf,
    /// The file in the project that was asked for; else it is beside the engrams.
    pub catalog_name: Option<String>,
    pub buffer_max_bytes: usize,
    pub compact_when_over_bytes: usize,
    pub engram_max_bytes: usize,
    pub budgets: Budgets,
    pub memory_md_max_bytes: usize,
    pub memory_md_max_items: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GithubLimits {
    pub max_concurrent_requests: u32,
    pub min_between_writes: Duration,
    pub cooldown_on_rate_limit: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    pub max_concurrent_requests: u32,
    pub min_between_requests: Duration,
    pub cooldown_on_error: Duration,
}

impl Bus {
    pub(super) fn of_project(project: &Path, data_dir: &Path) -> Self {
        Bus {
            enabled: true,
            listen: vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), BUS_PORT)],
            port_is_asked: false,
            security: Security::DockerNetworkOnly,
            interfaces: Vec::new(),
            dev_file: Some(project.join(DEV_FILE)),
            max_message_bytes: 65_536,
            heartbeat_interval: Duration::from_secs(15),
            connections_max: 12_000,
            frames_per_second: Some(FRAMES_PER_SECOND),
            heartbeat_ttl: Duration::from_secs(90),
            watchdog: Duration::from_secs(3600),
            claim_stale: Duration::from_secs(21_600),
            accept_within: Duration::from_secs(20),
            adopt_issues: false,
            operator_buffer_bytes: 1024 * 1024,
            director: Director::default(),
            retry: Retry::default(),
            sync_main: SyncMain::of_project(project),
            memory: Memory::below(data_dir),
            github: GithubLimits::default(),
            model: ModelLimits::default(),
        }
    }

    /// What the sessions hold every connection to.
    pub fn rate(&self) -> Option<Rate> {
        self.frames_per_second.map(|per_second| Rate {
            per_second,
            burst: per_second.saturating_mul(FRAMES_BURST / FRAMES_PER_SECOND),
        })
    }

    /// Relative paths are meant from the project.
    pub(crate) fn resolve(&mut self, project: &Path, data_dir: &Path) {
        self.dev_file = self.dev_file.take().map(|file| project.join(file));
        self.sync_main.repository = project.join(&self.sync_main.repository);
        let memory = &mut self.memory;
        memory.root_dir = match &memory.root_name {
            Some(name) => project.join(name),
            None => data_dir.join(MEMORY_DIR),
        };
        memory.catalog = match &memory.catalog_name {
            Some(name) => project.join(name),
            None => memory.root_dir.join(CATALOG),
        };
    }

    /// Settings that are each allowed but do not go together.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let cases = [
            (
                self.heartbeat_ttl <= self.heartbeat_interval,
                "timeouts.worker_heartbeat_ttl_seconds is not longer than agent_bus.heartbeat_interval_seconds; workers will time out between two heartbeats",
            ),
            (
                self.retry.initial > self.retry.max,
                "retry.backoff_initial_seconds is longer than retry.backoff_max_seconds; the maximum applies",
            ),
            (
                self.memory.compact_when_over_bytes > self.memory.buffer_max_bytes,
                "memory.compact_when_over_bytes is larger than memory.buffer_max_bytes; the latter applies",
            ),
        ];
        let doubtful = cases.into_iter().filter(|(doubtful, _)| *doubtful);
        doubtful.map(|(_, said)| said.to_owned()).collect()
    }
}

impl Security {
    pub fn as_str(self) -> &'static str {
        match self {
            Security::DockerNetworkOnly => "docker_network_only",
            Security::MutualTls => "mTLS",
        }
    }
}

impl SyncAction {
    /// The word of `sync_required.v1`.
    pub fn as_str(self) -> &'static str {
        match self {
            SyncAction::MergeMain => "merge_main",
            SyncAction::RebaseMain => "rebase_main",
        }
    }
}

impl Default for Director {
    fn default() -> Self {
        Director {
            interval: Duration::from_secs(60),
            max_workers: None,
            max_retries: 3,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            mode: Backoff::Exponential,
            initial: Duration::from_secs(1),
            max: Duration::from_secs(30),
        }
    }
}

impl SyncMain {
    fn of_project(project: &Path) -> Self {
        SyncMain {
            max_commits_behind: 20,
            max_seconds_behind: 86_400,
            require_catalog_hash_match: true,
            required_action: SyncAction::MergeMain,
            repository: project.to_owned(),
            branch: "main".to_owned(),
        }
    }
}

impl Memory {
    /// Where engrams were before they were kept in the data directory; a setting that names a directory keeps them there.
    pub fn before(&self, project: &Path) -> Option<PathBuf> {
        self.root_name.is_none().then(|| project.join(MEMORY_DIR))
    }

    /// Past this the oldest of what was noted becomes an engram.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_max_bytes.min(self.compact_when_over_bytes)
    }

    fn below(data_dir: &Path) -> Self {
        let root_dir = data_dir.join(MEMORY_DIR);
        Memory {
            enabled: true,
            catalog: root_dir.join(CATALOG),
            root_dir,
            root_name: None,
            catalog_name: None,
            buffer_max_bytes: 20_000,
            compact_when_over_bytes: 20_000,
            engram_max_bytes: 12_000,
            budgets: Budgets {
                short_term: Budget {
                    bytes_max: 400_000,
                    files_max: 64,
                },
                long_term: Budget {
                    bytes_max: 2_000_000,
                    files_max: 512,
                },
            },
            memory_md_max_bytes: 16_000,
            memory_md_max_items: 48,
        }
    }
}

impl Default for GithubLimits {
    fn default() -> Self {
        GithubLimits {
            max_concurrent_requests: 2,
            min_between_writes: Duration::from_secs(2),
            cooldown_on_rate_limit: Duration::from_secs(60),
        }
    }
}

impl Default for ModelLimits {
    fn default() -> Self {
        ModelLimits {
            max_concurrent_requests: 1,
            min_between_requests: Duration::from_secs(1),
            cooldown_on_error: Duration::from_secs(10),
        }
    }
}

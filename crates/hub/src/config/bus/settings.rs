//! The bus's part of the table of settings, and the types that only it has.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::{Backoff, Bus, Security, SyncAction};
use crate::config::read::{Given, Setting, Unless, read};
use crate::config::settings::{Draft, Entry};

/// A message must at least hold a hello, and the hub must be able to hold many messages.
const MESSAGE_BYTES: RangeInclusive<u32> = 1024..=16 * 1024 * 1024;
const OPERATOR_BYTES: RangeInclusive<u32> = 64 * 1024..=256 * 1024 * 1024;
/// Ten years: longer is a slip of the pen.
const SECONDS_MAX: u32 = 10 * 366 * 24 * 3600;
const SECONDS: RangeInclusive<u32> = 1..=SECONDS_MAX;
/// Pauses that may be left out.
const PAUSE: RangeInclusive<u32> = 0..=SECONDS_MAX;
const COUNT: RangeInclusive<u32> = 1..=1_000_000;
const COUNT_OR_NONE: RangeInclusive<u32> = 0..=1_000_000;
const RETRIES: RangeInclusive<u32> = 0..=switchboard_core::limits::RETRIES_MAX;
/// An engram smaller than this holds nothing but its own fields.
const ENGRAM_BYTES: RangeInclusive<u32> = 4096..=1024 * 1024;
const DIGEST_BYTES: RangeInclusive<u32> = 1024..=1024 * 1024;
const BUFFER_BYTES: RangeInclusive<u32> = 1024..=256 * 1024 * 1024;
const TIER_BYTES: RangeInclusive<u32> = 1024..=u32::MAX;
pub(super) const ADDRESSES_MAX: usize = 16;
const INTERFACES_MAX: usize = 64;
/// The kernel's own bound.
const INTERFACE_BYTES_MAX: usize = 15;
const BRANCH_BYTES_MAX: usize = 255;

fn within(given: &Given, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number: u32 = read(given)?;
    if range.contains(&number) {
        return Ok(number);
    }
    let (low, high) = range.into_inner();
    Err(format!(
        "expected a whole number from {low} to {high}, found {number}"
    ))
}

fn bytes(given: &Given, range: RangeInclusive<u32>) -> Result<usize, String> {
    within(given, range).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
}

fn time(given: &Given, range: RangeInclusive<u32>) -> Result<Duration, String> {
    within(given, range).map(|seconds| Duration::from_secs(seconds.into()))
}

fn max_workers(given: &Given) -> Result<Option<u32>, String> {
    let Unless(number) = read::<Unless<u32>>(given)?;
    number.map(|_| within(given, COUNT)).transpose()
}

/// Keys that a project's `config/dev.toml` may set, as `switchboard.toml` may.
#[rustfmt::skip]
pub const DEV_SETTINGS: &[Entry] = &[
    ("director.interval_seconds", |d, g| time(g, SECONDS).map(|v| bus(d).director.interval = v)),
    ("director.max_workers", |d, g| max_workers(g).map(|v| bus(d).director.max_workers = v)),
    ("director.max_retries", |d, g| within(g, RETRIES).map(|v| bus(d).director.max_retries = v)),
    ("timeouts.worker_heartbeat_ttl_seconds", |d, g| time(g, SECONDS).map(|v| bus(d).heartbeat_ttl = v)),
    ("timeouts.worker_watchdog_seconds", |d, g| time(g, SECONDS).map(|v| bus(d).watchdog = v)),
    ("timeouts.issue_claim_stale_seconds", |d, g| time(g, SECONDS).map(|v| bus(d).claim_stale = v)),
    ("retry.backoff_mode", |d, g| read::<Backoff>(g).map(|v| bus(d).retry.mode = v)),
    ("retry.backoff_initial_seconds", |d, g| time(g, PAUSE).map(|v| bus(d).retry.initial = v)),
    ("retry.backoff_max_seconds", |d, g| time(g, PAUSE).map(|v| bus(d).retry.max = v)),
    ("agent_bus.mode", |_, g| read::<DirectorBroker>(g).map(drop)),
    ("agent_bus.listen_addr", |d, g| read::<IpAddr>(g).map(|v| set_address(bus(d), v))),
    ("agent_bus.listen_port", |d, g| within(g, 0..=65_535).map(|v| set_port(bus(d), v))),
    ("agent_bus.security", |d, g| read::<Security>(g).map(|v| bus(d).security = v)),
    ("agent_bus.interfaces", |d, g| read::<Interfaces>(g).map(|v| bus(d).interfaces = v.0)),
    ("agent_bus.max_message_bytes", |d, g| bytes(g, MESSAGE_BYTES).map(|v| bus(d).max_message_bytes = v)),
    ("agent_bus.heartbeat_interval_seconds", |d, g| time(g, SECONDS).map(|v| bus(d).heartbeat_interval = v)),
    ("agentbus.adopt_issues", |d, g| read(g).map(|v| bus(d).adopt_issues = v)),
    ("policy.sync_main.max_commits_behind", |d, g| within(g, COUNT_OR_NONE).map(|v| bus(d).sync_main.max_commits_behind = v)),
    ("policy.sync_main.max_seconds_behind", |d, g| within(g, PAUSE).map(|v| bus(d).sync_main.max_seconds_behind = v)),
    ("policy.sync_main.require_catalog_hash_match", |d, g| read(g).map(|v| bus(d).sync_main.require_catalog_hash_match = v)),
    ("policy.sync_main.required_action", |d, g| read::<SyncAction>(g).map(|v| bus(d).sync_main.required_action = v)),
    ("memory.catalog_path", |d, g| read::<Place>(g).map(|v| bus(d).memory.catalog_name = Some(v.0))),
    ("memory.engram_root_dir", |d, g| read::<Place>(g).map(|v| bus(d).memory.root_name = Some(v.0))),
    ("memory.buffer_max_bytes", |d, g| bytes(g, BUFFER_BYTES).map(|v| bus(d).memory.buffer_max_bytes = v)),
    ("memory.compact_when_over_bytes", |d, g| bytes(g, BUFFER_BYTES).map(|v| bus(d).memory.compact_when_over_bytes = v)),
    ("memory.engram_max_bytes", |d, g| bytes(g, ENGRAM_BYTES).map(|v| bus(d).memory.engram_max_bytes = v)),
    ("memory.st_max_total_bytes", |d, g| within(g, TIER_BYTES).map(|v| bus(d).memory.budgets.short_term.bytes_max = v.into())),
    ("memory.st_max_files", |d, g| bytes(g, COUNT).map(|v| bus(d).memory.budgets.short_term.files_max = v)),
    ("memory.lt_max_total_bytes", |d, g| within(g, TIER_BYTES).map(|v| bus(d).memory.budgets.long_term.bytes_max = v.into())),
    ("memory.lt_max_files", |d, g| bytes(g, COUNT).map(|v| bus(d).memory.budgets.long_term.files_max = v)),
    ("memory.memory_md_max_bytes", |d, g| bytes(g, DIGEST_BYTES).map(|v| bus(d).memory.memory_md_max_bytes = v)),
    ("memory.memory_md_max_items", |d, g| bytes(g, COUNT).map(|v| bus(d).memory.memory_md_max_items = v)),
    ("rate_limits.github.max_concurrent_requests", |d, g| within(g, COUNT).map(|v| bus(d).github.max_concurrent_requests = v)),
    ("rate_limits.github.min_seconds_between_writes", |d, g| time(g, PAUSE).map(|v| bus(d).github.min_between_writes = v)),
    ("rate_limits.github.cooldown_on_rate_limit_seconds", |d, g| time(g, PAUSE).map(|v| bus(d).github.cooldown_on_rate_limit = v)),
    ("rate_limits.model.max_concurrent_requests", |d, g| within(g, COUNT).map(|v| bus(d).model.max_concurrent_requests = v)),
    ("rate_limits.model.min_seconds_between_requests", |d, g| time(g, PAUSE).map(|v| bus(d).model.min_between_requests = v)),
    ("rate_limits.model.cooldown_on_error_seconds", |d, g| time(g, PAUSE).map(|v| bus(d).model.cooldown_on_error = v)),
];

/// Keys that only our own sources set; they come after those above, so that `bus.listen` has the last word of its source.
#[rustfmt::skip]
pub const OWN_SETTINGS: &[Entry] = &[
    ("bus.listen", |d, g| read::<Listen>(g).map(|v| set_listen(bus(d), v))),
    ("bus.dev_file", |d, g| read::<DevFile>(g).map(|v| bus(d).dev_file = v.0)),
    ("bus.connections_max", |d, g| within(g, COUNT).map(|v| bus(d).connections_max = v)),
    ("bus.frames_per_second", |d, g| within(g, COUNT_OR_NONE).map(|v| bus(d).frames_per_second = (v > 0).then_some(v))),
    ("bus.accept_within_seconds", |d, g| time(g, SECONDS).map(|v| bus(d).accept_within = v)),
    ("bus.operator_buffer_bytes", |d, g| bytes(g, OPERATOR_BYTES).map(|v| bus(d).operator_buffer_bytes = v)),
    ("policy.sync_main.repository", |d, g| read::<PathBuf>(g).map(|v| bus(d).sync_main.repository = v)),
    ("policy.sync_main.branch", |d, g| read::<Branch>(g).map(|v| bus(d).sync_main.branch = v.0)),
    ("memory.enabled", |d, g| read(g).map(|v| bus(d).memory.enabled = v)),
];

fn bus(draft: &mut Draft) -> &mut Bus {
    &mut draft.config.bus
}

fn set_listen(bus: &mut Bus, Listen(listen): Listen) {
    bus.enabled = listen.is_some();
    if let Some(listen) = listen {
        bus.listen = listen;
        bus.port_is_asked = true;
    }
}

fn set_address(bus: &mut Bus, address: IpAddr) {
    let port = bus.listen.first().map_or(super::BUS_PORT, SocketAddr::port);
    bus.listen = vec![SocketAddr::new(address, port)];
}

fn set_port(bus: &mut Bus, port: u32) {
    let port = u16::try_from(port).expect("the caller has checked the range");
    for listen in &mut bus.listen {
        listen.set_port(port);
    }
    bus.port_is_asked = true;
}

/// Where to listen, or that the bus is off.
struct Listen(Option<Vec<SocketAddr>>);

impl Setting for Listen {
    const WANTED: &'static str =
        "an address with a port, such as 127.0.0.1:8731, a list of at most 16, or \"off\"";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        match value {
            toml::Value::Array(_) => Self::from_parts(&Vec::<String>::from_toml(value)?),
            value => value.as_str().and_then(Self::from_text),
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Listen(None)),
            text => Self::from_parts(&Vec::<String>::from_text(text)?),
        }
    }
}

impl Listen {
    fn from_parts(parts: &[String]) -> Option<Self> {
        let parsed: Vec<SocketAddr> = parts
            .iter()
            .map(|part| SocketAddr::from_text(part))
            .collect::<Option<_>>()?;
        (1..=ADDRESSES_MAX)
            .contains(&parsed.len())
            .then_some(Listen(Some(parsed)))
    }
}

impl Setting for IpAddr {
    const WANTED: &'static str = "an address such as 0.0.0.0 or 127.0.0.1";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            text => text.parse().ok(),
        }
    }
}

/// A file, or that none is to be read.
pub struct DevFile(pub Option<PathBuf>);

impl Setting for DevFile {
    const WANTED: &'static str = "a path, or \"off\"";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "off" => Some(DevFile(None)),
            text => PathBuf::from_text(text).map(|path| DevFile(Some(path))),
        }
    }
}

/// A path that is also announced as it was written.
struct Place(String);

impl Setting for Place {
    const WANTED: &'static str = "a path";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('/');
        let clean = !text.is_empty() && !text.chars().any(char::is_control);
        clean.then(|| Place(text.to_owned()))
    }
}

struct Interfaces(Vec<String>);

impl Setting for Interfaces {
    const WANTED: &'static str = "a list of names of network interfaces, such as [\"docker0\"]";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        Vec::<String>::from_toml(value).and_then(Self::checked)
    }

    fn from_text(text: &str) -> Option<Self> {
        Vec::<String>::from_text(text).and_then(Self::checked)
    }
}

impl Interfaces {
    fn checked(names: Vec<String>) -> Option<Self> {
        let named = |name: &String| {
            (1..=INTERFACE_BYTES_MAX).contains(&name.len())
                && !name.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
        };
        (names.len() <= INTERFACES_MAX && names.iter().all(named)).then_some(Interfaces(names))
    }
}

/// A branch that git itself would accept: it becomes part of `refs/heads/…`.
struct Branch(String);

impl Setting for Branch {
    const WANTED: &'static str = "the name of a branch, such as main";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        let strange = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
        let whole = |part: &str| {
            !part.is_empty()
                && !part.starts_with(['.', '-'])
                && !part.ends_with('.')
                && !part.ends_with(".lock")
        };
        let fine = text.len() <= BRANCH_BYTES_MAX
            && !text.contains(strange)
            && !text.contains("..")
            && !text.contains("@{")
            && text.split('/').all(whole);
        fine.then(|| Branch(text.to_owned()))
    }
}

/// The only topology there is.
struct DirectorBroker;

/// A setting that is one of a few words.
macro_rules! words {
    ($type:ty, $wanted:literal, $($word:literal => $value:expr),+) => {
        impl Setting for $type {
            const WANTED: &'static str = $wanted;

            fn from_toml(value: &toml::Value) -> Option<Self> {
                value.as_str().and_then(Self::from_text)
            }

            fn from_text(text: &str) -> Option<Self> {
                match text {
                    $($word => Some($value),)+
                    _ => None,
                }
            }
        }
    };
}

words!(DirectorBroker, "\"director_broker\"", "director_broker" => DirectorBroker);
words!(
    Security,
    "\"docker_network_only\" or \"mTLS\"",
    "docker_network_only" => Security::DockerNetworkOnly,
    "mTLS" => Security::MutualTls,
    "mtls" => Security::MutualTls
);
words!(
    Backoff,
    "\"exponential\" or \"linear\"",
    "exponential" => Backoff::Exponential,
    "linear" => Backoff::Linear
);
words!(
    SyncAction,
    "\"merge_main\" or \"rebase_main\"",
    "merge_main" => SyncAction::MergeMain,
    "rebase_main" => SyncAction::RebaseMain
);

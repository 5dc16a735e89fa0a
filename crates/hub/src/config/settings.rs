//! The table of settings: every key, and where its value goes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::read::{AtLeastOne, Given, Percent, Unless, read};
use super::worker::WORKER_SETTINGS;
use super::{AuthMode, Config, LogFormat, Network, StoreMode};
use crate::serve::SURFACES;

/// A configuration in the making: what defaults depend on other settings is decided at the end.
pub struct Draft {
    pub config: Config,
    pub data_dir: Option<PathBuf>,
    pub store_path: Option<PathBuf>,
    pub store_url: Option<String>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_self_signed: bool,
}

pub type Apply = fn(&mut Draft, &Given) -> Result<(), String>;
/// A key, and where its value goes.
pub type Entry = (&'static str, Apply);

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn days(given: &Given) -> Result<Duration, String> {
    read(given).map(|AtLeastOne(count)| DAY * count)
}

pub fn count(given: &Given) -> Result<u32, String> {
    read(given).map(|AtLeastOne(count)| count)
}

fn bound(given: &Given) -> Result<Option<u32>, String> {
    read(given).map(|Unless(bound)| bound)
}

/// Of the hub itself and of HTTP; `project` is not here: it must be known before the file can be found.
#[rustfmt::skip]
const SETTINGS: &[Entry] = &[
    ("data_dir", |d, g| read(g).map(|v| d.data_dir = Some(v))),
    ("http.listen", |d, g| read::<SocketAddr>(g).map(|v| d.config.http.listen = v)),
    ("http.allowed_hosts", |d, g| read::<Vec<String>>(g).map(|v| d.config.http.allowed_hosts = v)),
    ("http.trusted_proxies", |d, g| read::<Vec<Network>>(g).map(|v| d.config.http.trusted_proxies = v)),
    ("http.tls_cert", |d, g| read(g).map(|v| d.tls_cert = Some(v))),
    ("http.tls_key", |d, g| read(g).map(|v| d.tls_key = Some(v))),
    ("http.tls_self_signed", |d, g| read(g).map(|v| d.tls_self_signed = v)),
    ("http.insecure_bind", |d, g| read(g).map(|v| d.config.http.insecure_bind = v)),
    ("http.connections_max", |d, g| count(g).map(|v| d.config.http.connections_max = v)),
    // Two spellings of one thing: whichever comes last holds.
    ("store.path", |d, g| read(g).map(|v| (d.store_path, d.store_url) = (Some(v), None))),
    ("store.url", |d, g| read(g).map(|v| (d.store_path, d.store_url) = (None, Some(v)))),
    ("store.mode", |d, g| read::<StoreMode>(g).map(|v| d.config.store_mode = v)),
    ("store.swarm_db", |d, g| read(g).map(|v| d.config.swarm_db = v)),
    ("auth.mode", |d, g| read::<AuthMode>(g).map(|v| d.config.auth = v)),
    ("metrics.public", |d, g| read(g).map(|v| d.config.metrics_are_public = v)),
    ("limits.enabled", |d, g| read(g).map(|v| d.config.limits.enabled = v)),
    ("limits.register_per_minute", |d, g| count(g).map(|v| d.config.limits.register_per_minute = v)),
    ("limits.heartbeat_per_minute", |d, g| count(g).map(|v| d.config.limits.heartbeat_per_minute = v)),
    ("limits.claim_per_minute", |d, g| count(g).map(|v| d.config.limits.claim_per_minute = v)),
    ("limits.publish_per_minute", |d, g| count(g).map(|v| d.config.limits.publish_per_minute = v)),
    ("limits.other_per_minute", |d, g| count(g).map(|v| d.config.limits.other_per_minute = v)),
    ("limits.node_auth_per_minute", |d, g| count(g).map(|v| d.config.limits.node_auth_per_minute = v)),
    ("quality.block_on_error", |d, g| read(g).map(|v| d.config.quality.block_on_error = v)),
    ("quality.block_on_warning", |d, g| read(g).map(|v| d.config.quality.block_on_warning = v)),
    ("quality.require_metrics", |d, g| read(g).map(|v| d.config.quality.require_metrics = v)),
    ("quality.require_build", |d, g| read(g).map(|v| d.config.quality.require_build = v)),
    ("quality.type_errors_max", |d, g| bound(g).map(|v| d.config.quality.type_errors_max = v)),
    ("quality.lint_errors_max", |d, g| bound(g).map(|v| d.config.quality.lint_errors_max = v)),
    ("quality.tests_failing_max", |d, g| bound(g).map(|v| d.config.quality.tests_failing_max = v)),
    ("quality.coverage_min", |d, g| read::<Unless<Percent>>(g).map(|v| d.config.quality.coverage_min = v.0.map(|p| p.0))),
    ("quality.move_baseline", |d, g| read(g).map(|v| d.config.quality.move_baseline = v)),
    ("retention.tasks_days", |d, g| days(g).map(|v| d.config.retention.tasks = v)),
    ("retention.events_days", |d, g| days(g).map(|v| d.config.retention.events = v)),
    ("retention.messages_days", |d, g| days(g).map(|v| d.config.retention.messages = v)),
    ("retention.agents_days", |d, g| days(g).map(|v| d.config.retention.agents = v)),
    ("tasks.stale_minutes", |d, g| count(g).map(|v| d.config.tasks.stale_after = MINUTE * v)),
    ("log.filter", |d, g| read(g).map(|v| d.config.log.filter = v)),
    ("log.format", |d, g| read::<LogFormat>(g).map(|v| d.config.log.format = v)),
];

/// Every setting, in the order in which those of one source are applied.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    let doors = SURFACES.iter().flat_map(|surface| surface.settings);
    let own = SETTINGS.iter().chain(WORKER_SETTINGS);
    own.chain(doors.copied().flatten())
}

pub fn find(key: &str) -> Option<Apply> {
    all()
        .find(|(known, _)| *known == key)
        .map(|(_, apply)| *apply)
}

/// The variable that sets a key: `http.listen` is `SWITCHBOARD_HTTP_LISTEN`.
pub fn variable(key: &str) -> String {
    format!("SWITCHBOARD_{}", key.replace('.', "_").to_uppercase())
}

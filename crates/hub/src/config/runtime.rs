//! Settings of the Runtime: which node this hub's ledger is, and where others reach it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use switchboard_core::cursor::GapPolicy;
use switchboard_core::external::Lifetimes;
use switchboard_core::node::{Tier, Timings};
use switchboard_core::verb::Gap;
use switchboard_core::{NodeId, limits};
use switchboard_wire::runtime::from_wire;
use switchboard_wire::signature::from_hex;

use super::read::{AtLeastOne, Given, Setting, Unless, read};
use super::settings::Entry;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Made with the ledger, unless it is named before.
    pub node_id: Option<NodeId>,
    /// Where other nodes reach this one; without it, it brings its events to them.
    pub endpoint: Option<String>,
    pub tier: Tier,
    /// How long a missing event of another node is waited for, and what then.
    pub gap: Gap,
    /// What a node has not read is kept for it for so long after it last asked.
    pub cursor_lease: Duration,
    /// Events are kept for so long, whoever has not read them.
    pub keep: Duration,
    /// How long the tokens of external agents last.
    pub lifetimes: Lifetimes,
    /// Where skills and schemas are, from the project's directory.
    pub skills_dir: PathBuf,
    /// Whether a manifest must be signed.
    pub require_signature: bool,
    /// Whose signatures count, and their Ed25519 keys in hexadecimal.
    pub publishers: BTreeMap<String, String>,
    pub timings: Timings,
    /// Payloads that are published here are no longer than this.
    pub event_bytes_max: usize,
}

impl Default for Runtime {
    fn default() -> Self {
        Runtime {
            node_id: None,
            endpoint: None,
            tier: Tier::Edge,
            gap: Gap::default(),
            cursor_lease: limits::CURSOR_LEASE_FOR,
            keep: Duration::from_secs(168 * 3600),
            lifetimes: Lifetimes::default(),
            skills_dir: PathBuf::from(".switchboard/skills"),
            require_signature: false,
            publishers: BTreeMap::new(),
            timings: Timings::default(),
            event_bytes_max: limits::PAYLOAD_BYTES_MAX,
        }
    }
}

#[rustfmt::skip]
pub const RUNTIME_SETTINGS: &[Entry] = &[
    ("runtime.node_id", |d, g| read::<Unless<Id>>(g).map(|v| d.config.runtime.node_id = v.0.map(|id| id.0))),
    ("runtime.endpoint", |d, g| read::<Unless<Endpoint>>(g).map(|v| d.config.runtime.endpoint = v.0.map(|at| at.0))),
    ("runtime.tier", |d, g| read::<Tier>(g).map(|v| d.config.runtime.tier = v)),
    ("runtime.gap_policy", |d, g| read::<GapPolicy>(g).map(|v| d.config.runtime.gap.policy = v)),
    ("runtime.gap_timeout_seconds", |d, g| read::<AtLeastOne>(g).map(|v| d.config.runtime.gap.within = Duration::from_secs(v.0.into()))),
    ("runtime.cursor_lease_seconds", |d, g| read::<AtLeastOne>(g).map(|v| d.config.runtime.cursor_lease = Duration::from_secs(v.0.into()))),
    ("runtime.agent_access_seconds", |d, g| read::<Access>(g).map(|v| d.config.runtime.lifetimes.access = v.0)),
    ("runtime.agent_refresh_hours", |d, g| read::<Refresh>(g).map(|v| d.config.runtime.lifetimes.refresh = v.0)),
    ("runtime.retention_hours", |d, g| read::<AtLeastOne>(g).map(|v| d.config.runtime.keep = Duration::from_secs(u64::from(v.0) * 3600))),
    ("runtime.skills_dir", |d, g| read(g).map(|v| d.config.runtime.skills_dir = v)),
    ("runtime.require_signature", |d, g| read(g).map(|v| d.config.runtime.require_signature = v)),
    ("runtime.publishers", |d, g| publishers(g).map(|v| d.config.runtime.publishers = v)),
    ("runtime.accepted_ack_timeout_seconds", |d, g| read::<AtLeastOne>(g).map(|v| d.config.runtime.timings.answered_within_seconds = v.0)),
    ("runtime.processed_sla_grace_seconds", |d, g| read::<AtLeastOne>(g).map(|v| d.config.runtime.timings.grace_seconds = v.0)),
    ("runtime.event_bytes_max", |d, g| read::<EventBytes>(g).map(|v| d.config.runtime.event_bytes_max = v.0)),
];

/// `[runtime.publishers]`: names, each with a key.
fn publishers(given: &Given) -> Result<BTreeMap<String, String>, String> {
    let wanted = "expected names, each with an Ed25519 public key of 64 hexadecimal digits";
    let Given::Toml(value) = given else {
        return Err(format!("{wanted}, in switchboard.toml only"));
    };
    let keys: BTreeMap<String, String> = value.clone().try_into().map_err(|_| wanted)?;
    let is_key = |key: &String| from_hex(key).is_some_and(|bytes| bytes.len() == 32);
    match keys.iter().find(|(_, key)| !is_key(key)) {
        None => Ok(keys),
        Some((name, _)) => Err(format!("{wanted}; {name} has none")),
    }
}

struct EventBytes(usize);

impl Setting for EventBytes {
    const WANTED: &'static str = "1 to 262144";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        let given = usize::try_from(value.as_integer()?).ok()?;
        (1..=limits::PAYLOAD_BYTES_MAX)
            .contains(&given)
            .then_some(EventBytes(given))
    }

    fn from_text(text: &str) -> Option<Self> {
        Self::from_toml(&toml::Value::Integer(text.parse().ok()?))
    }
}

struct Id(NodeId);

impl Setting for Id {
    const WANTED: &'static str = "1 to 128 characters without spaces";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        from_wire::node_id("node_id", text).ok().map(Id)
    }
}

struct Endpoint(String);

impl Setting for Endpoint {
    const WANTED: &'static str = "an address without a path, such as https://hub.example:7373";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        from_wire::endpoint("endpoint", text).ok().map(Endpoint)
    }
}

impl Setting for Tier {
    const WANTED: &'static str = "\"backbone\" or \"edge\"";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        Tier::parse(text)
    }
}

impl Setting for GapPolicy {
    const WANTED: &'static str = "\"halt\", \"skip\" or \"tombstone\"";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        GapPolicy::parse(text)
    }
}

/// Of an external agent's access token.
struct Access(Duration);

impl Setting for Access {
    const WANTED: &'static str = "300 to 900 seconds";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        let seconds = u64::try_from(value.as_integer()?).ok()?;
        within(seconds, 1, limits::ACCESS_FOR_MIN, limits::ACCESS_FOR_MAX).map(Access)
    }

    fn from_text(text: &str) -> Option<Self> {
        let seconds = text.parse().ok()?;
        within(seconds, 1, limits::ACCESS_FOR_MIN, limits::ACCESS_FOR_MAX).map(Access)
    }
}

/// Of its refresh tokens.
struct Refresh(Duration);

impl Setting for Refresh {
    const WANTED: &'static str = "24 to 168 hours";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        let hours = u64::try_from(value.as_integer()?).ok()?;
        within(
            hours,
            3600,
            limits::REFRESH_FOR_MIN,
            limits::REFRESH_FOR_MAX,
        )
        .map(Refresh)
    }

    fn from_text(text: &str) -> Option<Self> {
        let hours = text.parse().ok()?;
        within(
            hours,
            3600,
            limits::REFRESH_FOR_MIN,
            limits::REFRESH_FOR_MAX,
        )
        .map(Refresh)
    }
}

fn within(number: u64, unit: u64, least: Duration, most: Duration) -> Option<Duration> {
    let span = Duration::from_secs(number.checked_mul(unit)?);
    (least..=most).contains(&span).then_some(span)
}

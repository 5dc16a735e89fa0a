//! What every connection of a director is held to.

use std::time::Duration;

use super::Rate;
use crate::agentbus::version::{PROTOCOL_VERSION, Version};

/// A hello has to come within this time.
pub const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// So many faults within [`FAULTS_WITHIN`] end the connection.
pub const FAULTS_MAX: usize = 16;
pub const FAULTS_WITHIN: Duration = Duration::from_secs(60);
pub const HEARTBEAT_TTL: Duration = Duration::from_secs(90);
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// A look that comes later than this after it was due: the hub was frozen, or too busy to look.
pub const LATE_AFTER: Duration = Duration::from_secs(1);

/// What every connection of a director is held to.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The version that the director speaks.
    pub version: Version,
    pub hello_within: Duration,
    /// A worker that is not heard for longer is given up.
    pub silent_after: Duration,
    pub heartbeat_every: Duration,
    pub faults_max: usize,
    pub faults_within: Duration,
    /// Frames per connection; `None` for as many as come.
    pub rate: Option<Rate>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            version: PROTOCOL_VERSION,
            hello_within: HELLO_WITHIN,
            silent_after: HEARTBEAT_TTL,
            heartbeat_every: HEARTBEAT_EVERY,
            faults_max: FAULTS_MAX,
            faults_within: FAULTS_WITHIN,
            rate: Some(Rate::default()),
        }
    }
}

impl Limits {
    /// How long a worker may be quiet before it is asked, once.
    pub fn probe_after(&self) -> Duration {
        let before_ttl = self.silent_after.saturating_sub(self.heartbeat_every);
        before_ttl.max(self.silent_after / 2)
    }
}

//! What a call can end in besides its answer.

use std::time::Duration;

use thiserror::Error;

/// Why a call did not succeed.
#[derive(Debug, Error)]
pub enum Error {
    /// The hub understood the call and said no. Trying again unchanged will not help, unless `retry_after` says so.
    #[error("{message}")]
    Refused {
        status: u16,
        /// The stable code of the refusal: `task_not_found`, `rate_limited`, …
        code: String,
        message: String,
        field: Option<String>,
        reason: Option<String>,
        retry_after: Option<Duration>,
    },
    /// Nobody answered, as often as the retry policy allows.
    #[error("no hub answers at {address}")]
    Unreachable {
        address: String,
        #[source]
        source: reqwest::Error,
    },
    /// The hub answered, and the answer is not what it should be.
    #[error("the answer from {address} cannot be read: {reason}")]
    Unreadable { address: String, reason: String },
    /// The caller asked for something that cannot be sent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// The stable code, if the hub refused.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Refused { code, .. } => Some(code),
            Error::Unreachable { .. } | Error::Unreadable { .. } | Error::Invalid(_) => None,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Refused { status, .. } => transient_status(*status),
            Error::Unreachable { .. } => true,
            Error::Unreadable { .. } | Error::Invalid(_) => false,
        }
    }
}

/// Statuses that say "not now" and not "no": the hub's own, and those of a proxy in front of it.
pub(crate) fn transient_status(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

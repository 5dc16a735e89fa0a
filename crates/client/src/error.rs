//! What a call can end in besides its answer.

use std::time::Duration;

use rustls::{CertificateError, OtherError};
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
    /// Somebody answered, with a certificate that this client has no reason to trust.
    #[error("the certificate of {address} is not trusted ({reason})")]
    Untrusted { address: String, reason: String },
    /// Somebody answered who did not show that it has the hub's master key. Nothing else was sent there.
    #[error("the server at {address} did not prove that it is the hub")]
    Unproven { address: String },
    /// Somebody answered in something else than HTTP.
    #[error("the server at {address} does not speak plain HTTP")]
    NotHttp { address: String },
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
            Error::Unreachable { .. }
            | Error::Untrusted { .. }
            | Error::Unproven { .. }
            | Error::NotHttp { .. }
            | Error::Unreadable { .. }
            | Error::Invalid(_) => None,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Refused { status, .. } => transient_status(*status),
            Error::Unreachable { .. } => true,
            Error::Untrusted { .. }
            | Error::Unproven { .. }
            | Error::NotHttp { .. }
            | Error::Unreadable { .. }
            | Error::Invalid(_) => false,
        }
    }
}

/// Why the other side's certificate was refused, if that is why a call failed.
pub(crate) fn distrust(error: &reqwest::Error) -> Option<String> {
    causes(error).find_map(|cause| match cause.downcast_ref() {
        Some(rustls::Error::InvalidCertificate(why)) => Some(in_words(why)),
        _ => None,
    })
}

/// Whether somebody answered in something else than HTTP, as a port with TLS does.
pub(crate) fn is_not_http(error: &reqwest::Error) -> bool {
    let mut causes = causes(error).filter_map(|cause| cause.downcast_ref());
    causes.any(hyper::Error::is_parse)
}

/// The innermost cause, which says what actually went wrong.
pub(crate) fn root(error: &(dyn std::error::Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

/// An error and what it wraps, outermost first.
fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |cause| {
        // An I/O error hides what it wraps from `source`.
        let io = cause.downcast_ref::<std::io::Error>();
        match io.and_then(std::io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => cause.source(),
        }
    })
}

fn in_words(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "no authority that is trusted here signed it".to_owned(),
        CertificateError::Other(OtherError(why)) => match why.to_string() {
            why if why.contains("CaUsedAsEndEntity") => {
                "it is self-signed, as 'openssl req -x509' creates it".to_owned()
            }
            why => why,
        },
        why => why.to_string(),
    }
}

/// Statuses that say "not now" and not "no": the hub's own, and those of a proxy in front of it.
pub(crate) fn transient_status(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

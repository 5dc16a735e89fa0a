//! Why a peer is not let in, or not let stay.

use super::index::Serial;
use super::name::Name;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("it sent no certificate")]
    NoCertificate,
    #[error("its certificate was not issued by this hub's authority")]
    Unreadable,
    #[error("its certificate {0} is not in the list of issued certificates")]
    Unknown(Serial),
    #[error("the certificate of {} was revoked", .0.as_str().escape_debug())]
    Revoked(Name),
    #[error("the certificate of {} has expired", .0.as_str().escape_debug())]
    Expired(Name),
    #[error("the certificate of {} was signed by an authority that is no longer trusted", .0.as_str().escape_debug())]
    Orphaned(Name),
    #[error("it did not finish the TLS handshake in time")]
    TooSlow,
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
}

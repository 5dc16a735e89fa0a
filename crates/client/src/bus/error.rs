//! What can go wrong on the bus, told apart where a program has to.

use std::io;
use std::sync::Arc;

use switchboard_wire::Malformed;
use switchboard_wire::agentbus::message::{ProtocolError, ProtocolIncompatibility};

use super::tls::TlsError;

/// The reason of a connection that ended without one.
pub(super) const CLOSED: &str = "the director closed the connection";

/// Why something was not sent, or why a connection is not there.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BusError {
    /// Nobody listens there, or the way is cut.
    #[error("no director answers at {addr}")]
    Unreachable {
        addr: String,
        #[source]
        source: Arc<io::Error>,
    },
    /// The director's certificate is none of the authority's.
    #[error("the certificate of the director at {addr} is not trusted")]
    Untrusted {
        addr: String,
        #[source]
        source: Arc<io::Error>,
    },
    /// Whoever listens there does not speak TLS.
    #[error("the server at {addr} does not use TLS")]
    NotTls { addr: String },
    /// The director does not take this client's certificate.
    #[error("the director at {addr} refused the certificate: {reason}")]
    CertificateRefused { addr: String, reason: String },
    /// The files for TLS do not serve.
    #[error("{0}")]
    Tls(Arc<TlsError>),
    /// Connected, and no answer to the hello came in time, or none at all.
    #[error("the hello to {addr} was not answered")]
    NoWelcome { addr: String },
    /// The director said no, and why.
    #[error("the director refused: {}", .0.message)]
    Refused(ProtocolError),
    /// The two speak versions that do not go together; only another program helps.
    #[error("the director speaks another version of the protocol: {}", .0.reason)]
    Incompatible(ProtocolIncompatibility),
    /// Another connection came with the same id; coming back would only take turns with it.
    #[error("another connection has the same id")]
    Replaced,
    /// An open connection ended.
    #[error("the connection was lost: {reason}")]
    Lost { reason: String },
    /// What was to be sent is no such message.
    #[error("{0}")]
    Invalid(#[from] Malformed),
    /// What was to be sent is longer than the director takes.
    #[error("the message has {bytes} bytes; the director accepts at most {max}")]
    TooLarge { bytes: usize, max: usize },
    /// A command was not answered in time.
    #[error("the director did not answer in time")]
    NoAnswer,
    /// The client has ended.
    #[error("the client has ended")]
    Over,
}

impl BusError {
    /// Whether connecting again is of no use.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Incompatible(_) | Self::Replaced)
    }

    /// What an error of the socket means before anything was said.
    pub(super) fn of_dialing(addr: &str, error: io::Error) -> Self {
        match cause(&error) {
            Cause::Untrusted => Self::Untrusted {
                addr: addr.to_owned(),
                source: Arc::new(error),
            },
            Cause::NotTls => Self::NotTls {
                addr: addr.to_owned(),
            },
            Cause::Refused(reason) => Self::CertificateRefused {
                addr: addr.to_owned(),
                reason,
            },
            Cause::Other => Self::Unreachable {
                addr: addr.to_owned(),
                source: Arc::new(error),
            },
        }
    }

    /// What it means later. A certificate is refused only after the handshake.
    pub(super) fn of_talking(addr: &str, error: &io::Error) -> Self {
        match cause(error) {
            Cause::Refused(reason) => Self::CertificateRefused {
                addr: addr.to_owned(),
                reason,
            },
            // A process that dies says no farewell.
            _ if error.kind() == io::ErrorKind::UnexpectedEof => Self::Lost {
                reason: CLOSED.to_owned(),
            },
            Cause::Untrusted | Cause::NotTls | Cause::Other => Self::Lost {
                reason: error.to_string(),
            },
        }
    }
}

enum Cause {
    Untrusted,
    NotTls,
    Refused(String),
    Other,
}

fn cause(error: &io::Error) -> Cause {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(_)) => Cause::Untrusted,
        Some(rustls::Error::InvalidMessage(_)) => Cause::NotTls,
        Some(rustls::Error::AlertReceived(alert)) => Cause::Refused(format!("{alert:?}")),
        Some(_) | None => Cause::Other,
    }
}

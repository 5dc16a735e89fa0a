//! The private authority behind mutual TLS: who is let onto the bus, under which name and in which role.
//!
//! Everything lies in `<data_dir>/bus`; the files are the truth, and there is nothing to restart. [`Registrar`] changes
//! them (the commands `switchboard cert …`), [`Authority`] reads them in a hub that serves. What the bus speaks is not
//! known here. `docs/certificates.md` tells the whole story.

mod clock;
mod error;
mod folder;
mod index;
mod mint;
mod name;
mod overview;
mod refused;
mod registrar;
mod seen;
mod stored;
mod trust;
mod watcher;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use folder::Folder;
use watcher::Watched;

pub use clock::Clock;
pub use error::AuthorityError;
pub use index::{Record, Revoked, Serial};
pub use mint::DIRECTOR_NAME;
pub use name::{Name, NotAName, NotARole, Role};
pub use overview::{Card, Overview, State};
pub use refused::Refused;
pub use registrar::{
    AUTHORITIES_MAX, AUTHORITY_FOR, Begun, DIRECTOR_FOR, Existing, Found, HOSTS_MAX, Issued, Old,
    Order, REASON_BYTES_MAX, Registrar, SOON,
};
pub use trust::Identity;
pub use watcher::{Generation, Watcher};

/// What a hub asks about certificates. Cheap to clone.
#[derive(Clone)]
pub struct Authority {
    watched: Arc<Watched>,
}

/// Whoever connects has to finish the handshake in this time.
pub const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

impl Authority {
    /// Reads the authority of a data directory, which must have one.
    pub fn open(data_dir: &Path) -> Result<Authority, AuthorityError> {
        Self::open_at(data_dir, Clock::system())
    }

    /// The same by another clock.
    pub fn open_at(data_dir: &Path, clock: Clock) -> Result<Authority, AuthorityError> {
        let watched = Watched::open(Folder::of(data_dir), clock)?;
        Ok(Authority {
            watched: Arc::new(watched),
        })
    }

    /// Begins to look for changes; ends when the watcher is dropped.
    pub fn watch(&self) -> Watcher {
        self.watched.watch()
    }

    /// How TLS is spoken now; to be asked for anew with each connection.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        self.watched.trust().config.clone()
    }

    /// Speaks TLS on a new connection and finds out who is at its other end.
    pub async fn admit<S>(&self, socket: S) -> Result<(TlsStream<S>, Identity), Refused>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.admit_within(socket, HANDSHAKE_WITHIN).await
    }

    async fn admit_within<S>(
        &self,
        socket: S,
        limit: Duration,
    ) -> Result<(TlsStream<S>, Identity), Refused>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let accept = TlsAcceptor::from(self.server_config()).accept(socket);
        let stream = match timeout(limit, accept).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Refused::Handshake(error.to_string())),
            Err(_) => return Err(Refused::TooSlow),
        };
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let identity = self.identity(shown)?;
        Ok((stream, identity))
    }

    /// Who showed these certificates, in a handshake that succeeded.
    pub fn identity(&self, shown: &[CertificateDer<'_>]) -> Result<Identity, Refused> {
        let leaf = shown.first().ok_or(Refused::NoCertificate)?;
        let now = self.watched.clock.now();
        self.watched.trust().known.identify(leaf, now)
    }

    /// Whether someone who was let in may stay.
    pub fn standing(&self, identity: &Identity) -> Result<(), Refused> {
        let now = self.watched.clock.now();
        self.watched.trust().known.standing(identity, now)
    }

    /// Counts up whenever a certificate was issued, revoked or replaced, or has ended.
    pub fn generations(&self) -> watch::Receiver<Generation> {
        self.watched.generations()
    }

    /// Waits until someone may not stay any longer, and says why. Needs a [`Watcher`].
    pub async fn ended(&self, identity: &Identity) -> Refused {
        let mut generations = self.generations();
        loop {
            if let Err(refused) = self.standing(identity) {
                return refused;
            }
            let changed = generations.changed().await;
            changed.expect("the sender lives as long as this authority");
        }
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

#[cfg(test)]
mod tests;

//! The way to a PostgreSQL server: names looked up, time limits, and libpq's `sslmode` on rustls.
//!
//! Knows nothing of how addresses are written; `address` says which servers there are and what is wished.

use std::error::Error as _;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::net::lookup_host;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Connection;
use super::errors::describe;

pub(super) const PORT: u16 = 5432;
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Of one name; further ones are not tried.
const ADDRESSES_MAX: usize = 8;

/// What an address says about TLS.
#[derive(Default)]
pub(super) struct Wishes {
    pub mode: Option<Mode>,
    /// A file, or `system`.
    pub root: Option<String>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// TLS from the first byte (PostgreSQL 17), without asking the server whether it speaks it.
    pub direct: bool,
}

/// libpq's modes; `allow` is taken as `prefer`, which is never weaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    pub(super) const WORDS: [(&str, Mode); 6] = [
        ("disable", Mode::Disable),
        ("allow", Mode::Prefer),
        ("prefer", Mode::Prefer),
        ("require", Mode::Require),
        ("verify-ca", Mode::VerifyCa),
        ("verify-full", Mode::VerifyFull),
    ];
}

/// Everything needed for TLS, read once.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) ssl_mode: SslMode,
    connector: MakeRustlsConnect,
}

impl Tls {
    /// `home` is where libpq's own `.postgresql/root.crt` may be.
    pub(super) fn new(wishes: &Wishes, home: Option<&Path>) -> Result<Tls, String> {
        let (mode, trust) = trust(wishes, home);
        let ssl_mode = match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        };
        if wishes.direct && ssl_mode != SslMode::Require {
            return Err("sslnegotiation=direct requires sslmode=require or stronger".to_owned());
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Verifier::new(trust, provider.signature_verification_algorithms)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for the default versions of TLS")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match (mode, &wishes.cert, &wishes.key) {
            (Mode::Disable, _, _) | (_, None, None) => builder.with_no_client_auth(),
            (_, Some(cert), Some(key)) => builder
                .with_client_auth_cert(certificates(cert)?, private_key(key)?)
                .map_err(|error| {
                    let (cert, key) = (cert.display(), key.display());
                    format!("certificate {cert} and key {key} cannot be used for TLS: {error}")
                })?,
            (_, Some(_), None) => return Err("sslcert requires sslkey".to_owned()),
            (_, None, Some(_)) => return Err("sslkey requires sslcert".to_owned()),
        };
        if wishes.direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(Tls {
            ssl_mode,
            connector: MakeRustlsConnect::new(config),
        })
    }

    /// A connection to the first of the servers that will have us.
    pub(super) async fn reach_one(
        &self,
        servers: &[Config],
    ) -> Result<(Client, Connection), Failure> {
        let mut servers: Vec<&Config> = servers.iter().collect();
        let random = RandomState::new();
        servers.sort_by_cached_key(|server| match server.get_load_balance_hosts() {
            LoadBalanceHosts::Random => random.hash_one(place(server)),
            _ => 0,
        });
        let mut lasting = true;
        let mut reasons = Vec::new();
        for server in servers {
            match self.reach(server).await {
                Ok(reached) => return Ok(reached),
                Err(failure) => {
                    lasting &= failure.lasting;
                    reasons.push(format!("{}: {}", place(server), failure.reason));
                }
            }
        }
        let reason = reasons.join("; ");
        Err(Failure { reason, lasting })
    }

    /// The limit holds for the whole conversation with each address: a server may accept and then say nothing.
    async fn reach(&self, server: &Config) -> Result<(Client, Connection), Failure> {
        let limit = server
            .get_connect_timeout()
            .copied()
            .unwrap_or(CONNECT_WITHIN);
        let late = |_| Failure::passing(format!("no answer within {} s", limit.as_secs()));
        let mut failure = Failure::passing("its host name has no address".to_owned());
        for config in timeout(limit, resolve(server)).await.map_err(late)?? {
            failure = match timeout(limit, self.connect(&config)).await {
                Ok(Ok(reached)) => return Ok(reached),
                Ok(Err(error)) => Failure::of(&error),
                Err(elapsed) => late(elapsed),
            };
            if failure.lasting {
                break;
            }
        }
        Err(failure)
    }

    /// One connection to the one address that `config` names.
    ///
    /// With `prefer`, a server that offers TLS but fails at it, or refuses this user because of it, is tried without.
    async fn connect(
        &self,
        config: &Config,
    ) -> Result<(Client, Connection), tokio_postgres::Error> {
        let first = match config.connect(self.connector.clone()).await {
            Err(error) if config.get_ssl_mode() == SslMode::Prefer && plain_may_do(&error) => error,
            done => return done,
        };
        let mut plain = config.clone();
        plain.ssl_mode(SslMode::Disable);
        match plain.connect(self.connector.clone()).await {
            // The server wants TLS, so why TLS failed is what has to be known.
            Err(error) if turned_away(&error) => Err(first),
            done => done,
        }
    }
}

/// Why one server was not reached, and whether only a person can mend it.
pub(super) struct Failure {
    pub reason: String,
    pub lasting: bool,
}

impl Failure {
    fn passing(reason: String) -> Failure {
        Failure {
            reason,
            lasting: false,
        }
    }

    fn of(error: &tokio_postgres::Error) -> Failure {
        let lasting = match error.code() {
            Some(code) => [
                SqlState::INVALID_PASSWORD,
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                SqlState::INVALID_CATALOG_NAME,
                SqlState::INSUFFICIENT_PRIVILEGE,
            ]
            .contains(code),
            // The latter is how the library says that a password is wanted and there is none.
            None => disagrees(error) || error.to_string() == "invalid configuration",
        };
        Failure {
            reason: describe(error),
            lasting,
        }
    }
}

/// One configuration for each address that the server's name stands for.
async fn resolve(server: &Config) -> Result<Vec<Config>, Failure> {
    let name = match (server.get_hosts(), server.get_hostaddrs()) {
        ([Host::Tcp(name)], []) => name.as_str(),
        _ => return Ok(vec![server.clone()]),
    };
    let found = lookup_host((name, port(server))).await;
    let found = found
        .map_err(|error| Failure::passing(format!("its host name cannot be resolved: {error}")))?;
    let at = |address: SocketAddr| server.clone().hostaddr(address.ip()).to_owned();
    Ok(found.take(ADDRESSES_MAX).map(at).collect())
}

pub(super) fn port(server: &Config) -> u16 {
    server.get_ports().first().copied().unwrap_or(PORT)
}

pub(super) fn host(server: &Config) -> String {
    match server.get_hosts() {
        [Host::Unix(folder), ..] => folder.display().to_string(),
        [Host::Tcp(name), ..] => name.clone(),
        [] => String::new(),
    }
}

fn place(server: &Config) -> String {
    format!("{}:{}", host(server), port(server))
}

fn plain_may_do(error: &tokio_postgres::Error) -> bool {
    turned_away(error) || handshake_failed(error)
}

fn turned_away(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// The library does not show its kind of error otherwise.
fn handshake_failed(error: &tokio_postgres::Error) -> bool {
    error.to_string() == "error performing TLS handshake"
}

/// Whether the two sides do not agree about TLS, which time does not mend; a connection that broke is something else.
pub(super) fn disagrees(error: &tokio_postgres::Error) -> bool {
    let broke = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|io| {
            !matches!(
                io.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
            )
        });
    handshake_failed(error) && !broke
}

/// Whom to believe.
#[derive(Debug, PartialEq, Eq)]
enum Trust {
    Anyone,
    Chain(Roots),
    ChainAndName(Roots),
}

#[derive(Debug, PartialEq, Eq)]
enum Roots {
    File(PathBuf),
    System,
}

/// The mode that is meant, and whom it believes, as libpq documents it.
fn trust(wishes: &Wishes, home: Option<&Path>) -> (Mode, Trust) {
    let given = wishes.root.as_deref().map(|root| match root {
        "system" => Roots::System,
        file => Roots::File(PathBuf::from(file)),
    });
    let mode = match (wishes.mode, &given) {
        (Some(mode), _) => mode,
        // Anyone has a certificate of some public authority, so only the name tells them apart.
        (None, Some(Roots::System)) => Mode::VerifyFull,
        (None, Some(Roots::File(_)) | None) => Mode::Prefer,
    };
    let usual = || {
        home.map(|home| home.join(".postgresql/root.crt"))
            .filter(|file| file.is_file())
            .map_or(Roots::System, Roots::File)
    };
    let trust = match (mode, given) {
        (Mode::Disable, _) | (Mode::Prefer | Mode::Require, None) => Trust::Anyone,
        (Mode::Prefer | Mode::Require, Some(roots)) => Trust::Chain(roots),
        (Mode::VerifyCa, roots) => Trust::Chain(roots.unwrap_or_else(usual)),
        (Mode::VerifyFull, roots) => Trust::ChainAndName(roots.unwrap_or_else(usual)),
    };
    if trust == Trust::Chain(Roots::System) {
        tracing::warn!(
            "any certificate of a public CA is accepted as the database's; \
             use sslmode=verify-full, or set the database's own CA with sslrootcert"
        );
    }
    (mode, trust)
}

/// Checks as much of a server's certificate as the mode asks for. That the server holds its key is always checked.
#[derive(Debug)]
struct Verifier {
    algorithms: WebPkiSupportedAlgorithms,
    /// `None`: any certificate will do.
    roots: Option<RootCertStore>,
    /// The certificates named in a file, one of which may be the server's own.
    named: Vec<CertificateDer<'static>>,
    names_matter: bool,
}

impl Verifier {
    fn new(trust: Trust, algorithms: WebPkiSupportedAlgorithms) -> Result<Verifier, String> {
        let (names_matter, roots) = match trust {
            Trust::Anyone => (false, None),
            Trust::Chain(roots) => (false, Some(roots)),
            Trust::ChainAndName(roots) => (true, Some(roots)),
        };
        let (roots, named) = match roots {
            None => (None, Vec::new()),
            Some(Roots::System) => (Some(system_roots()?), Vec::new()),
            Some(Roots::File(file)) => {
                let named = certificates(&file)?;
                let mut roots = RootCertStore::empty();
                for certificate in &named {
                    let added = roots.add(certificate.clone());
                    added.map_err(|error| unreadable("certificate", &file, error))?;
                }
                (Some(roots), named)
            }
        };
        Ok(Verifier {
            algorithms,
            roots,
            named,
            names_matter,
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(roots) = &self.roots else {
            return Ok(ServerCertVerified::assertion());
        };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            roots,
            intermediates,
            now,
            algorithms,
        )
        .or_else(|error| {
            if is_authority(&error) && self.named.contains(end_entity) {
                Ok(())
            } else {
                Err(error)
            }
        })?;
        if self.names_matter {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// A server that signed its own certificate, as PostgreSQL's manual shows it, presents an authority's.
///
/// Its dates were checked before this error is raised.
fn is_authority(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(why))
        if why.to_string().contains("CaUsedAsEndEntity"))
}

fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reasons: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!(
            "this system has no certificates of public CAs ({}); \
             set the database's own CA with sslrootcert",
            reasons.join("; ")
        ));
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = std::fs::read(file).map_err(|error| unreadable("certificate", file, error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(unreadable(
            "certificate",
            file,
            "the file has no section BEGIN CERTIFICATE",
        )),
        Ok(found) => Ok(found),
        Err(error) => Err(unreadable("certificate", file, error)),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = std::fs::read(file).map_err(|error| unreadable("key", file, error))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        rustls_pki_types::pem::Error::NoItemsFound => {
            unreadable("key", file, "the file has no unencrypted key in PEM")
        }
        error => unreadable("key", file, error),
    })
}

fn unreadable(what: &str, file: &Path, reason: impl std::fmt::Display) -> String {
    format!("cannot read the {what} {}: {reason}", file.display())
}

#[cfg(test)]
mod tests;

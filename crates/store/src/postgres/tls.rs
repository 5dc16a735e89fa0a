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
            return Err("sslnegotiation=direct needs sslmode=require or stronger".to_owned());
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
                    format!("certificate {cert} and key {key} do not serve for TLS: {error}")
                })?,
            (_, Some(_), None) => return Err("sslcert needs sslkey".to_owned()),
            (_, None, Some(_)) => return Err("sslkey needs sslcert".to_owned()),
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
        let mut failure = Failure::passing("its name has no address".to_owned());
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
        .map_err(|error| Failure::passing(format!("its name cannot be looked up: {error}")))?;
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
            "any certificate of a public authority will be believed to be the database's; \
             use sslmode=verify-full, or name the database's own authority with sslrootcert"
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
            "this system has no certificates of public authorities ({}); \
             name the database's own with sslrootcert",
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
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::Error;
    use crate::postgres::Address;

    /// Signed `LEAF`, which is for db.example; `OWN` signed itself, as PostgreSQL's manual shows it, for db.example.
    const CA: &str = "-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIULIuhQU0UgeszXV3fuPq3bZ+ikJkwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTE1MTMxMjQ5WhgPMjEyNjEwMjIxMzEyNDla
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHBcl82ti
jdJ0V3mJIn/8LrB3EIUKNvqXuKMfKohCLlZOwVaLlx2gS2G7xaJxZd8VJx4d+Ldo
mSIj5cUkRmrmpaNTMFEwHQYDVR0OBBYEFDMIfHXvK03NNOigsjneXundlvRVMB8G
A1UdIwQYMBaAFDMIfHXvK03NNOigsjneXundlvRVMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSAAwRQIhALDRyFUpaQ6MyLnkIpOjUbgOUPxhHe+RRrgwYA7m
8WM/AiBO7F9z1QRyPHK7RuVzqoKbS13TYLP2MtCXlNmzdQSmpQ==
-----END CERTIFICATE-----";
    const LEAF: &str = "-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIBAjAKBggqhkjOPQQDAjANMQswCQYDVQQDDAJjYTAgFw0y
NjExMTUxMzEyNDlaGA8yMTI2MTAyMjEzMTI0OVowDzENMAsGA1UEAwwEbGVhZjBZ
MBMGByqGSM49AgEGCCqGSM49AwEHA0IABDPA7qA9Db6b5OYclHo9KOl9JH8ZBbkw
GoyzrI+KtsvHOWlP0nZm8VPiFoBMffwxWn9OUccY8l/d5gkMbHqGNFmjZDBiMBUG
A1UdEQQOMAyCCmRiLmV4YW1wbGUwCQYDVR0TBAIwADAdBgNVHQ4EFgQU32oAHey4
qNzpEAc0SAbZY/3DkKgwHwYDVR0jBBgwFoAUMwh8de8rTc006KCyOd5e6d2W9FUw
CgYIKoZIzj0EAwIDSAAwRQIhALJ99zl20SLTM7nHE2hZK/N9HpPzCzKereQnThck
WAcYAiAg4wlMZScnYhGY1M/z5S6fAMUqwjXOFjlBqYsHIroXFA==
-----END CERTIFICATE-----";
    const OWN: &str = "-----BEGIN CERTIFICATE-----
MIIBjTCCATKgAwIBAgIUBo17QLqSgM7ixfj0zICAujlGtKswCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEc2VsZjAgFw0yNjExMTUxMzEyNDlaGA8yMTI2MTAyMjEzMTI0
OVowDzENMAsGA1UEAwwEc2VsZjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHVK
+5ess2IYH7z3oqL9UuGHe9wkAdWMbkgwwERRpk4AV6WcazF/1nU2fdt6fKDStj1Z
pY9CIaWmkPSRA8Q2q8mjajBoMB0GA1UdDgQWBBStUdOk+2j3o+k0yvZz2y3rvewl
EzAfBgNVHSMEGDAWgBStUdOk+2j3o+k0yvZz2y3rvewlEzAPBgNVHRMBAf8EBTAD
AQH/MBUGA1UdEQQOMAyCCmRiLmV4YW1wbGUwCgYIKoZIzj0EAwIDSQAwRgIhAP3l
2f1EUk05heFoWzQumRSG+BmFv9cttMie40LjE+NPAiEAsgfN9GLFz2xkLPaMyKiG
NqYVquEibb+cREqtaif+Msc=
-----END CERTIFICATE-----";
    /// The day after they were made.
    const THEN: u64 = 1_794_834_769;

    fn wishes(mode: Option<Mode>, root: Option<&str>) -> Wishes {
        Wishes {
            mode,
            root: root.map(str::to_owned),
            ..Wishes::default()
        }
    }

    #[test]
    fn each_mode_believes_whom_libpq_believes() {
        let home = tempfile::tempdir().unwrap();
        let file = || Roots::File(PathBuf::from("/ca"));
        let usual = home.path().join(".postgresql/root.crt");
        let trust_in = |mode, root| trust(&wishes(mode, root), Some(home.path()));
        use Mode::{Disable, Prefer, Require, VerifyCa, VerifyFull};
        #[rustfmt::skip]
        let cases = [
            (None, None, Prefer, Trust::Anyone),
            (None, Some("/ca"), Prefer, Trust::Chain(file())),
            (None, Some("system"), VerifyFull, Trust::ChainAndName(Roots::System)),
            (Some(Disable), Some("/ca"), Disable, Trust::Anyone),
            (Some(Require), None, Require, Trust::Anyone),
            (Some(Require), Some("/ca"), Require, Trust::Chain(file())),
            (Some(VerifyCa), Some("/ca"), VerifyCa, Trust::Chain(file())),
            (Some(VerifyCa), None, VerifyCa, Trust::Chain(Roots::System)),
            (Some(VerifyFull), Some("/ca"), VerifyFull, Trust::ChainAndName(file())),
            (Some(VerifyFull), None, VerifyFull, Trust::ChainAndName(Roots::System)),
        ];
        for (mode, root, means, expected) in cases {
            assert_eq!(trust_in(mode, root), (means, expected));
        }
        std::fs::create_dir(usual.parent().unwrap()).unwrap();
        std::fs::write(&usual, CA).unwrap();
        let theirs = || Roots::File(usual.clone());
        assert_eq!(trust_in(Some(VerifyCa), None).1, Trust::Chain(theirs()));
        assert_eq!(
            trust_in(Some(VerifyFull), None).1,
            Trust::ChainAndName(theirs())
        );
        assert_eq!(trust_in(Some(Require), None).1, Trust::Anyone);
    }

    #[test]
    fn a_certificate_is_checked_as_far_as_the_mode_says() {
        let folder = tempfile::tempdir().unwrap();
        let check = |trust: fn(Roots) -> Trust, root: &str, server: &str, name: &str, at: u64| {
            let file = folder.path().join("root.crt");
            std::fs::write(&file, root).unwrap();
            let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
            let verifier = Verifier::new(trust(Roots::File(file)), algorithms).unwrap();
            let server = CertificateDer::from_pem_slice(server.as_bytes()).unwrap();
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
            verifier
                .verify_server_cert(&server, &[], &name, &[], at)
                .is_ok()
        };
        let too_late = THEN + 200 * 365 * 86_400;
        #[rustfmt::skip]
        let cases = [
            (CA, LEAF, "db.example", THEN, true, true),
            (CA, LEAF, "other.example", THEN, true, false),
            (CA, LEAF, "db.example", too_late, false, false),
            (OWN, LEAF, "db.example", THEN, false, false),
            (CA, OWN, "db.example", THEN, false, false),
            (OWN, OWN, "db.example", THEN, true, true),
            (OWN, OWN, "other.example", THEN, true, false),
            (OWN, OWN, "db.example", too_late, false, false),
        ];
        for (root, server, name, at, by_chain, by_name) in cases {
            assert_eq!(
                check(Trust::Chain, root, server, name, at),
                by_chain,
                "{server} {name}"
            );
            assert_eq!(
                check(Trust::ChainAndName, root, server, name, at),
                by_name,
                "{server} {name}"
            );
            assert!(check(|_| Trust::Anyone, root, server, name, at));
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (empty, cert) = (folder.path().join("empty"), folder.path().join("cert"));
        std::fs::write(&empty, "").unwrap();
        std::fs::write(&cert, LEAF).unwrap();
        let (empty, cert) = (empty.display(), cert.display());
        #[rustfmt::skip]
        let cases = [
            ("sslrootcert=/no/ca".to_owned(), "cannot read the certificate /no/ca: No such file".to_owned()),
            (format!("sslrootcert={empty}"), format!("cannot read the certificate {empty}: the file has no section")),
            (format!("sslcert={cert}&sslkey={empty}"), format!("cannot read the key {empty}: the file has no unencrypted key")),
            (format!("sslcert={cert}&sslkey=/no/key"), "cannot read the key /no/key: No such file".to_owned()),
        ];
        for (parameters, sentence) in cases {
            let error = Address::parse(&format!("postgres://a?{parameters}")).unwrap_err();
            assert!(error.to_string().contains(&sentence), "{error}");
            assert!(Address::parse(&format!("postgres://a?sslmode=disable&{parameters}")).is_ok());
        }
    }

    async fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().to_string();
        (listener, at)
    }

    /// Answers the question for TLS.
    async fn asked_for_tls(listener: &TcpListener, answer: &[u8]) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut question = [0; 8];
        stream.read_exact(&mut question).await.unwrap();
        assert_eq!(question, [0, 0, 0, 8, 4, 210, 22, 47]);
        stream.write_all(answer).await.unwrap();
        stream
    }

    /// Lets the client in, without a password, and answers its question whether the server is read-only.
    async fn let_in(mut stream: TcpStream, read_only: &[u8]) {
        let length = stream.read_u32().await.unwrap();
        let mut startup = vec![0; length as usize - 4];
        stream.read_exact(&mut startup).await.unwrap();
        assert_eq!(startup[..4], [0, 3, 0, 0]);
        stream
            .write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")
            .await
            .unwrap();
        let mut query = [0; 5];
        if stream.read_exact(&mut query).await.is_ok() && query[0] == b'Q' {
            let mut row =
                b"T\0\0\0\x1a\0\x01r\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0D\0\0\0"
                    .to_vec();
            row.push(10 + read_only.len() as u8);
            row.extend([0, 1, 0, 0, 0, read_only.len() as u8]);
            row.extend(read_only);
            row.extend(b"C\0\0\0\x09SHOW\0Z\0\0\0\x05I");
            stream.write_all(&row).await.unwrap();
        }
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }

    fn refuse(sqlstate: &str) -> Vec<u8> {
        let fields = format!("SFATAL\0C{sqlstate}\0Mno\0\0");
        let length = 4 + fields.len() as u32;
        [&b"E"[..], &length.to_be_bytes(), fields.as_bytes()].concat()
    }

    async fn connect(url: String) -> Result<(), Error> {
        Address::parse(&url).unwrap().connect().await.map(drop)
    }

    #[tokio::test]
    async fn tls_that_fails_is_done_without_only_if_it_was_a_preference() {
        for mode in ["prefer", "allow", "require", "verify-full"] {
            let falls_back = matches!(mode, "prefer" | "allow");
            let (listener, at) = listen().await;
            let server = async {
                drop(asked_for_tls(&listener, b"Snonsense, no TLS at all").await);
                if falls_back {
                    let_in(listener.accept().await.unwrap().0, b"off").await;
                }
            };
            let root = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(root.path(), CA).unwrap();
            let url = format!(
                "postgres://u@{at}/l?sslmode={mode}&sslrootcert={}",
                root.path().display()
            );
            let (connected, ()) = tokio::join!(connect(url), server);
            assert_eq!(connected.is_ok(), falls_back, "{mode}: {connected:?}");
        }
    }

    #[tokio::test]
    async fn a_server_without_tls_is_refused_where_tls_is_required() {
        let (listener, at) = listen().await;
        let url = format!("postgres://u@{at}/l?sslmode=require");
        let (connected, _) = tokio::join!(connect(url), asked_for_tls(&listener, b"N"));
        let error = connected.unwrap_err();
        assert!(
            matches!(&error, Error::Open(why) if why.contains("does not support TLS")),
            "{error}"
        );
    }

    #[tokio::test]
    async fn only_what_waiting_does_not_mend_is_final() {
        for sqlstate in ["28P01", "3D000", "57P03", "53300"] {
            let lasting = matches!(sqlstate, "28P01" | "3D000");
            let (listener, at) = listen().await;
            let server = async {
                let mut stream = asked_for_tls(&listener, b"N").await;
                stream.write_all(&refuse(sqlstate)).await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            };
            let (connected, ()) = tokio::join!(connect(format!("postgres://u:p@{at}/l")), server);
            match connected.unwrap_err() {
                Error::Open(_) => assert!(lasting, "{sqlstate}"),
                Error::Unavailable(_) => assert!(!lasting, "{sqlstate}"),
                other => panic!("{other}"),
            }
        }
    }

    #[tokio::test]
    async fn of_several_servers_the_one_that_takes_writes_is_found() {
        let (silent, standby, primary) = (listen().await, listen().await, listen().await);
        let hosts = ["127.0.0.1:1", &silent.1, &standby.1, &primary.1].join(",");
        let at_standby = async { let_in(standby.0.accept().await.unwrap().0, b"on").await };
        let at_primary = async { let_in(primary.0.accept().await.unwrap().0, b"off").await };
        let url = format!("postgres://u@{hosts}/l?sslmode=disable");
        let (connected, (), ()) = tokio::join!(connect(url), at_standby, at_primary);
        connected.unwrap();
    }

    #[tokio::test]
    async fn when_no_server_is_reached_the_reason_of_each_is_told() {
        let url = "postgres://u:s3cr@127.0.0.1:1,127.0.0.1:2/l";
        let Err(Error::Unavailable(why)) = connect(url.to_owned()).await else {
            panic!("nothing listens there")
        };
        let start = "cannot reach postgres://u@127.0.0.1:1,127.0.0.1:2/l: 127.0.0.1:1: ";
        assert!(
            why.starts_with(start) && why.contains("; 127.0.0.1:2: "),
            "{why}"
        );
    }
}

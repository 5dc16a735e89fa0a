//! The authority as a whole: real files, real sockets, both ends of TLS.

mod files;
mod handshake;
mod property;
mod rotation;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use switchboard_core::Timestamp;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Nothing here takes nearly as long, unless it never happens.
const PATIENCE: Duration = Duration::from_secs(60);

/// A data directory with an authority.
struct Home {
    dir: TempDir,
    now: Timestamp,
}

/// The files that someone was given.
#[derive(Clone)]
struct Wallet {
    cert: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
    ca: Vec<CertificateDer<'static>>,
    serial: Serial,
}

impl Home {
    fn new() -> Home {
        let home = Home {
            dir: tempfile::tempdir().unwrap(),
            now: Clock::system().now(),
        };
        Registrar::init(home.path(), &[], home.now).unwrap();
        home
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.path().join("bus").join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    fn registrar(&self) -> Registrar {
        Registrar::open(self.path(), self.now).unwrap()
    }

    fn issue(&self, name: &str, role: Role, lasts: Duration) -> Wallet {
        let name: Name = name.parse().unwrap();
        let out = tempfile::tempdir().unwrap();
        let order = Order {
            name: &name,
            role,
            lasts,
            out: Some(out.path()),
            existing: Existing::Refuse,
        };
        Wallet::of(&self.registrar().issue(&order).unwrap())
    }

    fn worker(&self, name: &str) -> Wallet {
        self.issue(name, Role::Worker, 90 * DAY)
    }
}

impl Wallet {
    fn of(issued: &Issued) -> Wallet {
        Wallet {
            cert: certificates(&issued.cert),
            key: std::fs::read(&issued.key).unwrap(),
            ca: certificates(&issued.ca),
            serial: issued.record.serial.clone(),
        }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.ca.clone());
        roots
    }

    fn config(&self) -> ClientConfig {
        let key = PrivateKeyDer::from_pem_slice(&self.key).unwrap();
        client()
            .with_root_certificates(self.roots())
            .with_client_auth_cert(self.cert.clone(), key)
            .unwrap()
    }

    fn config_without_certificate(&self) -> ClientConfig {
        client()
            .with_root_certificates(self.roots())
            .with_no_client_auth()
    }
}

fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    let found = CertificateDer::pem_file_iter(path).unwrap();
    found.collect::<Result<_, _>>().unwrap()
}

fn client() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
}

/// A clock that a test moves.
#[derive(Clone)]
struct Hand(Arc<AtomicI64>);

impl Hand {
    fn at(now: Timestamp) -> Hand {
        Hand(Arc::new(AtomicI64::new(now.0)))
    }

    fn clock(&self) -> Clock {
        let now = self.0.clone();
        Clock::new(move || Timestamp(now.load(Ordering::SeqCst)))
    }

    fn pass(&self, span: Duration) {
        let millis = i64::try_from(span.as_millis()).unwrap();
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

/// Both ends of one connection: what the director found out, and the first byte that the client read.
async fn connect(
    authority: &Authority,
    config: ClientConfig,
    host: &str,
) -> (Result<Identity, Refused>, std::io::Result<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let server = async {
        let (socket, _) = listener.accept().await.unwrap();
        let (mut stream, identity) = authority.admit(socket).await?;
        // A client may hang up first; that is its own affair.
        let _ = stream.write_all(b"!").await;
        let _ = stream.shutdown().await;
        Ok(identity)
    };
    let host = ServerName::try_from(host.to_owned()).unwrap();
    let client = async {
        let socket = TcpStream::connect(addr).await?;
        let connector = TlsConnector::from(Arc::new(config));
        // The client learns only by reading whether it was let in.
        connector.connect(host, socket).await?.read_u8().await
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(server, client) })
        .await
        .expect("both ends come to an end")
}

#[track_caller]
fn name_of(found: (Result<Identity, Refused>, std::io::Result<u8>)) -> String {
    let (identity, read) = found;
    assert_eq!(read.expect("the client was let in"), b'!');
    identity.expect("it is known").name.to_string()
}

/// What the director said, and what reached the client.
#[track_caller]
fn refusals(found: (Result<Identity, Refused>, std::io::Result<u8>)) -> (String, String) {
    let (identity, read) = found;
    let told = read.expect_err("the client was not let in").to_string();
    (identity.expect_err("nobody was let in").to_string(), told)
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, what).await;
    waited.expect("it happens")
}

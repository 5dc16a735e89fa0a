//! Files of the authority, and certificates that somebody shows: nobody is let in but by the one that was issued, byte
//! for byte, while the list says so.
//!
//! The bytes are taken as files of their own, and as edits of a certificate and of a list that are sound.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};
use serde_json::Value;
use switchboard_core::Timestamp;
use switchboard_hub::bus::authority::{
    Authority, Clock, DIRECTOR_NAME, Existing, Identity, Order, Record, Refused, Registrar, Role,
};
use switchboard_wire::IsoTime;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// What the hub reads.
const FILES: [&str; 4] = ["ca.pem", "chain.pem", "director.pem", "index.json"];

/// An authority with one certificate.
pub struct Stage {
    home: TempDir,
    runtime: Runtime,
    authority: Authority,
    now: Timestamp,
    record: Record,
    shown: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    index: String,
}

impl Default for Stage {
    fn default() -> Self {
        let home = tempfile::tempdir().unwrap();
        let now = Clock::system().now();
        let (mut registrar, _) = Registrar::init(home.path(), &[], now).unwrap();
        let order = Order {
            name: &"w1".parse().unwrap(),
            role: Role::Worker,
            lasts: 90 * DAY,
            out: Some(&home.path().join("w1")),
            existing: Existing::Refuse,
        };
        let issued = registrar.issue(&order).unwrap();
        drop(registrar);
        Self {
            authority: Authority::open(home.path()).unwrap(),
            now,
            record: issued.record,
            shown: CertificateDer::from_pem_file(issued.cert).unwrap(),
            key: PrivateKeyDer::from_pem_file(issued.key).unwrap(),
            index: std::fs::read_to_string(file(home.path(), "index.json")).unwrap(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            home,
        }
    }
}

fn file(home: &Path, name: &str) -> PathBuf {
    home.join("bus").join(name)
}

pub fn check(bytes: &[u8]) {
    static STAGE: LazyLock<Stage> = LazyLock::new(Stage::default);
    STAGE.check(bytes);
}

impl Stage {
    pub fn check(&self, bytes: &[u8]) {
        for name in FILES {
            self.with_file(name, bytes, |_| {});
        }
        let named = String::from_utf8_lossy(bytes)
            .replace("@serial@", self.record.serial.as_str())
            .replace("@issuer@", self.record.issuer.as_str());
        self.list(named.as_bytes());
        self.list(&edited(self.index.as_bytes(), bytes));
        self.show(edited(&self.shown, bytes).into());
        self.show(bytes.to_vec().into());
    }

    /// Opens the authority with one of its files replaced.
    fn with_file(&self, name: &str, bytes: &[u8], look: impl FnOnce(&Authority)) {
        let path = file(self.home.path(), name);
        let before = std::fs::read(&path).ok();
        std::fs::write(&path, bytes).unwrap();
        match Authority::open(self.home.path()) {
            Ok(authority) => look(&authority),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        match before {
            Some(before) => std::fs::write(&path, before).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
    }

    /// Whoever is let in stands in the list, not revoked.
    fn list(&self, index: &[u8]) {
        self.with_file("index.json", index, |authority| {
            let found = authority.identity(std::slice::from_ref(&self.shown));
            let text = String::from_utf8_lossy(index);
            assert_eq!(found.is_ok(), self.is_listed(&text), "{found:?} by {text}");
        });
    }

    fn is_listed(&self, index: &str) -> bool {
        let index: Value = serde_json::from_str(index).expect("what was read is JSON");
        let is_ours = |line: &&Value| line["serial"] == self.record.serial.as_str();
        let lines = index["certificates"].as_array();
        let Some(line) = lines.and_then(|lines| lines.iter().find(is_ours)) else {
            return false;
        };
        let ends = line["not_after"].as_str().unwrap_or_default();
        line["name"] == "w1"
            && line["role"] == "worker"
            && line["issuer"] == self.record.issuer.as_str()
            && line["revoked_at"].is_null()
            && ends
                .parse::<IsoTime>()
                .is_ok_and(|ends| ends.0 > self.now.0)
    }

    /// Whoever is let in showed what was issued.
    fn show(&self, der: CertificateDer<'static>) {
        let is_ours = der == self.shown;
        let met = self.runtime.block_on(self.meet(der));
        assert_eq!(met.is_ok(), is_ours, "{met:?}");
    }

    async fn meet(&self, der: CertificateDer<'static>) -> Result<Identity, Refused> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let host = ServerName::try_from(DIRECTOR_NAME).unwrap();
        let connector = TlsConnector::from(Arc::new(self.client(der)));
        let (admitted, _) = tokio::join!(
            async {
                self.authority
                    .admit(near)
                    .await
                    .map(|(_, identity)| identity)
            },
            connector.connect(host, far)
        );
        admitted
    }

    fn client(&self, der: CertificateDer<'static>) -> ClientConfig {
        let ca = file(self.home.path(), "ca.pem");
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates([CertificateDer::from_pem_file(ca).unwrap()]);
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&self.key).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(Shows(Arc::new(CertifiedKey::new(vec![der], key)))))
    }
}

/// A client that shows any bytes for its certificate.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Each three bytes are a place and what is put there.
fn edited(sound: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut edited = sound.to_vec();
    for [high, low, byte] in edits.as_chunks::<3>().0.iter().take(8) {
        let place = usize::from(u16::from_be_bytes([*high, *low])) % edited.len();
        edited[place] = *byte;
    }
    edited
}

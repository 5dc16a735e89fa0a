//! Mutual TLS: who is trusted, who is not, and files that are replaced.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

use super::director::{Conn, Director, config, soon};
use crate::bus::tls::DIRECTOR_NAME;
use crate::bus::{BusError, TlsFiles, Worker, WorkerConfig, WorkerEvent, WorkerEvents};

/// An authority that exists for one test.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    cert: rcgen::Certificate,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cert = params.self_signed(&key).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            cert,
        }
    }

    fn signed(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn write(&self, folder: &Path) -> TlsFiles {
        let (cert, key) = self.signed("worker-3");
        let files = TlsFiles {
            cert: folder.join("worker-3.pem"),
            key: folder.join("worker-3.key"),
            ca: folder.join("ca.pem"),
        };
        std::fs::write(&files.cert, cert.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        std::fs::write(&files.ca, self.cert.pem()).unwrap();
        files
    }

    /// A director whose certificate is of this authority and who takes clients of it only.
    fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.cert.der().clone()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .unwrap();
        let (cert, key) = self.signed(DIRECTOR_NAME);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

fn worker(director: &Director, tls: Option<TlsFiles>) -> WorkerConfig {
    WorkerConfig {
        tls,
        ..config(&director.addr())
    }
}

async fn disconnected(events: &mut WorkerEvents) -> BusError {
    match soon(events.recv()).await {
        Some(WorkerEvent::Disconnected { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_worker_with_a_certificate_is_let_in_and_comes_back_with_the_one_that_is_there_then() {
    let folder = TempDir::new().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let files = old.write(folder.path());
    let director = Director::listen().await;
    let (_worker, mut events) = Worker::connect(worker(&director, Some(files))).unwrap();
    for authority in [&old, &new] {
        // Whatever the worker tried meanwhile, it comes with the files that are there now.
        authority.write(folder.path());
        let acceptor = authority.acceptor();
        let mut conn = loop {
            let socket = director.accept_raw().await;
            if let Ok(socket) = soon(acceptor.accept(socket)).await {
                break Conn::new(Box::new(socket));
            }
        };
        conn.greet().await;
        while !matches!(soon(events.recv()).await, Some(WorkerEvent::Connected(_))) {}
        conn.cut();
    }
}

#[tokio::test]
async fn a_director_of_another_authority_is_not_trusted() {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let files = ours.write(folder.path());
    let director = Director::listen().await;
    let (_worker, mut events) = Worker::connect(worker(&director, Some(files))).unwrap();
    let socket = director.accept_raw().await;
    assert!(soon(theirs.acceptor().accept(socket)).await.is_err());
    let error = disconnected(&mut events).await;
    assert!(matches!(error, BusError::Untrusted { .. }), "{error:?}");
}

#[tokio::test]
async fn a_certificate_that_the_director_does_not_take_is_said_so() {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let mut files = ours.write(folder.path());
    // The director is trusted, and does not trust in return.
    files.ca = folder.path().join("theirs.pem");
    std::fs::write(&files.ca, theirs.cert.pem()).unwrap();
    let director = Director::listen().await;
    let (_worker, mut events) = Worker::connect(worker(&director, Some(files))).unwrap();
    let socket = director.accept_raw().await;
    assert!(soon(theirs.acceptor().accept(socket)).await.is_err());
    let error = disconnected(&mut events).await;
    assert!(
        matches!(error, BusError::CertificateRefused { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn tls_to_a_plain_director_and_plain_words_to_one_of_tls_are_told_apart() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new();
    let files = authority.write(folder.path());
    let director = Director::listen().await;
    let (_tls, mut events) = Worker::connect(worker(&director, Some(files))).unwrap();
    let mut conn = director.accept().await;
    conn.send_bytes(b"{\"schema_version\":\"agentbus-envelope/v1\"}\n")
        .await;
    let error = disconnected(&mut events).await;
    assert!(matches!(error, BusError::NotTls { .. }), "{error:?}");
    drop((conn, _tls, events));

    let director = Director::listen().await;
    let (_plain, mut events) = Worker::connect(worker(&director, None)).unwrap();
    let socket = director.accept_raw().await;
    assert!(soon(authority.acceptor().accept(socket)).await.is_err());
    let error = disconnected(&mut events).await;
    assert!(matches!(error, BusError::NoWelcome { .. }), "{error:?}");
}

#[tokio::test]
async fn files_that_do_not_serve_are_named_and_tried_again() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new();
    let files = authority.write(folder.path());
    std::fs::remove_file(&files.key).unwrap();
    let director = Director::listen().await;
    let (_worker, mut events) = Worker::connect(worker(&director, Some(files))).unwrap();
    for _ in 0..2 {
        let error = disconnected(&mut events).await;
        assert!(error.to_string().contains("worker-3.key"), "{error}");
    }
}

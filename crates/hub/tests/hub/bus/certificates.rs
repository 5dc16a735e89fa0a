//! The bus with certificates on both sides.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use switchboard_core::Timestamp;
use switchboard_hub::bus::authority::{Existing, Name, Order, Registrar, Role};
use switchboard_hub::config::{AuthMode, Security};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::kit::{ASSIGN, Peer, bus_as, hello, make, shown};
use crate::harness::{SOON, TestHub, registration};
use crate::signer::{Signer, key, steward};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap())
}

async fn start(auth: AuthMode) -> TestHub {
    bus_as(|config| {
        config.auth = auth;
        config.bus.security = Security::MutualTls;
        Registrar::init(&config.data_dir, &[], now()).unwrap();
    })
    .await
}

fn data_dir(hub: &TestHub) -> std::path::PathBuf {
    hub.home.path().join(".switchboard")
}

fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    let found = CertificateDer::pem_file_iter(path).unwrap();
    found.collect::<Result<_, _>>().unwrap()
}

/// What someone needs to connect under this name.
fn wallet(hub: &TestHub, name: &str, role: Role) -> ClientConfig {
    let name: Name = name.parse().unwrap();
    let out = tempfile::tempdir().unwrap();
    let order = Order {
        name: &name,
        role,
        lasts: DAY,
        out: Some(out.path()),
        existing: Existing::Refuse,
    };
    let mut registrar = Registrar::open(&data_dir(hub), now()).unwrap();
    let issued = registrar.issue(&order).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(&issued.ca));
    let key = PrivateKeyDer::from_pem_file(&issued.key).unwrap();
    client()
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&issued.cert), key)
        .unwrap()
}

fn client() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
}

async fn open(hub: &TestHub, wallet: &ClientConfig) -> Peer {
    let socket = TcpStream::connect(hub.running.bus_addr().unwrap())
        .await
        .unwrap();
    let host = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(wallet.clone()));
    Peer::on(connector.connect(host, socket).await.unwrap())
}

/// Connects until the hub, which looks at its files now and then, knows the certificate.
async fn welcomed(hub: &TestHub, wallet: &ClientConfig, role: &'static str, id: &str) -> Peer {
    let greet = async {
        loop {
            let mut peer = open(hub, wallet).await;
            let frame = {
                (peer.role, peer.id) = (role, id.to_owned());
                peer.frame("protocol_hello.v1", &hello(id, ASSIGN))
            };
            peer.try_raw(format!("{frame}\n").as_bytes()).await;
            if let Some(frame) = peer.next().await {
                assert_eq!(frame["message_type"], "protocol_welcome.v1", "{frame}");
                return peer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, greet)
        .await
        .expect("it is let in before long")
}

#[tokio::test]
async fn a_certificate_says_who_connects_and_as_what() {
    // agentbus.security.mtls_identity, agentbus.security.mtls_required
    let hub = start(AuthMode::None).await;
    let of_worker = wallet(&hub, "w1", Role::Worker);
    let of_operator = wallet(&hub, "o1", Role::Operator);
    let mut worker = welcomed(&hub, &of_worker, "worker", "w1").await;
    let (id, number) = make(hub.client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    worker.beat("DONE", number).await;
    worker.fence().await;
    assert_eq!(shown(hub.client, &id).await["status"], "completed");
    let mut operator = welcomed(&hub, &of_operator, "operator", "o1").await;
    operator.expect("project_state_snapshot.v1").await;

    for (wallet, role, id, field) in [
        (&of_worker, "worker", "w2", "sender.id"),
        (&of_worker, "operator", "w1", "sender.role"),
        (&of_operator, "worker", "o1", "sender.role"),
        (&of_operator, "operator", "w1", "sender.id"),
    ] {
        let mut peer = open(&hub, wallet).await;
        peer.greet(role, id, hello(id, ASSIGN)).await;
        let error = peer.refused("role_forbidden").await;
        assert!(
            error["message"].as_str().unwrap().contains(field),
            "{error}"
        );
        peer.ended().await;
        assert!(peer.passed.is_empty());
    }
    // The one who was posed as noticed nothing.
    worker.fence().await;
    operator.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn without_a_certificate_nobody_gets_in() {
    // agentbus.security.mtls_required
    let hub = start(AuthMode::None).await;
    let addr = hub.running.bus_addr().unwrap();
    let mut plain = TcpStream::connect(addr).await.unwrap();
    let frame = json!({
        "schema_version": "agentbus-envelope/v1", "message_type": "protocol_hello.v1",
        "sent_at": super::kit::SENT_AT, "sender": { "role": "worker", "id": "w1" }, "seq": 1,
        "payload": hello("w1", ASSIGN),
    });
    plain
        .write_all(format!("{frame}\n").as_bytes())
        .await
        .unwrap();
    let mut said = Vec::new();
    let read = tokio::time::timeout(SOON, plain.read_to_end(&mut said)).await;
    let _ = read.expect("it is closed");
    assert!(!String::from_utf8_lossy(&said).contains("protocol_welcome"));

    // TLS alone is not enough, nor a certificate of another authority.
    let elsewhere = start(AuthMode::None).await;
    let mut foreign = wallet(&elsewhere, "w1", Role::Worker);
    let ours = certificates(&data_dir(&hub).join("bus/ca.pem"));
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(ours);
    let nameless = client()
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
    );
    foreign
        .dangerous()
        .set_certificate_verifier(verifier.build().unwrap());
    for wallet in [&nameless, &foreign] {
        let mut peer = open(&hub, wallet).await;
        (peer.role, peer.id) = ("worker", "w1".to_owned());
        let frame = peer.frame("protocol_hello.v1", &hello("w1", ASSIGN));
        peer.try_raw(format!("{frame}\n").as_bytes()).await;
        assert_eq!(peer.next().await, None);
    }
    let agents = hub.client.get("/api/v1/agents").await.expect(200)["agents"].take();
    assert_eq!(agents, json!([]));
    hub.running.shutdown().await;
    elsewhere.running.shutdown().await;
}

#[tokio::test]
async fn a_revoked_certificate_is_out_and_so_is_its_open_connection() {
    // agentbus.security.mtls_identity
    let hub = start(AuthMode::None).await;
    let revoked = wallet(&hub, "w1", Role::Worker);
    let other = wallet(&hub, "w2", Role::Worker);
    let mut worker = welcomed(&hub, &revoked, "worker", "w1").await;
    let mut stays = welcomed(&hub, &other, "worker", "w2").await;
    let mut registrar = Registrar::open(&data_dir(&hub), now()).unwrap();
    registrar.revoke("w1", Some("lost")).unwrap();
    drop(registrar);
    let error = worker.refused("role_forbidden").await;
    assert!(
        error["message"].as_str().unwrap().contains("revoked"),
        "{error}"
    );
    worker.ended().await;
    let mut again = open(&hub, &revoked).await;
    again.try_raw(b"\n").await;
    assert_eq!(again.next().await, None);
    stays.fence().await;
    // A new certificate under the same name is as good as the first one was.
    let renewed = wallet(&hub, "w1", Role::Worker);
    welcomed(&hub, &renewed, "worker", "w1").await.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_certificate_is_proof_enough_for_an_agent_that_signs_over_http() {
    let hub = start(AuthMode::Hmac).await;
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    let body = registration("a1", &[]);
    let signer = Signer::new("a1", &key);
    let registered = signer.call(hub.client, "POST", "/api/v1/agents/register", &body);
    registered.await.expect(200);
    let wallet = wallet(&hub, "a1", Role::Worker);
    welcomed(&hub, &wallet, "worker", "a1").await.fence().await;
    hub.running.shutdown().await;
}

//! Starting, being found, and ending in good order.

use std::sync::Arc;

use serde_json::json;
use switchboard_hub::config::{AuthMode, Tls};
use switchboard_hub::{Running, ServeError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{Client, SOON, config, start, start_as};

#[tokio::test]
async fn everything_answered_is_there_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let running = Running::start(config(home.path())).await.unwrap();
    let client = Client { addr: running.addr };
    client.register("a1", &[]).await;
    let id = client.task("T").await;
    client.claim("a1").await;
    let card = home.path().join(".switchboard/hub.json");
    let found: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&card).unwrap()).unwrap();
    assert_eq!(found["http"], client.addr.to_string());
    assert_eq!(found["pid"], std::process::id());
    running.shutdown().await;
    assert!(!card.exists());
    let log = home.path().join(".switchboard/switchboard.db-wal");
    let left = std::fs::metadata(log).map_or(0, |log| log.len());
    assert_eq!(left, 0, "a clean stop leaves one file");

    let running = Running::start(config(home.path())).await.unwrap();
    let client = Client { addr: running.addr };
    let shown = client.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(shown["task"]["assignedAgent"], "a1");
    running.shutdown().await;
}

#[tokio::test]
async fn a_second_hub_and_a_taken_port_are_told_apart() {
    let hub = start().await;
    let again = Running::start(config(hub.home.path())).await.err().unwrap();
    let said = again.to_string();
    assert!(matches!(again, ServeError::DataDir(_)), "{said}");
    assert!(
        said.contains(&format!("process {}", std::process::id())),
        "{said}"
    );

    let other = tempfile::tempdir().unwrap();
    let mut settings = config(other.path());
    settings.http.listen = hub.client.addr;
    let said = Running::start(settings).await.err().unwrap().to_string();
    assert!(
        said.contains("is already in use by process") && said.contains("--http"),
        "{said}"
    );
    // What failed to start holds nothing.
    let running = Running::start(config(other.path())).await.unwrap();
    running.shutdown().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_address_beyond_loopback_needs_more_than_a_wish() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = config(home.path());
    settings.http.listen = "0.0.0.0:0".parse().unwrap();
    let said = Running::start(settings.clone())
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        said.contains("mode = \"hmac\"") && said.contains("insecure_bind"),
        "{said}"
    );
    assert!(!home.path().join(".switchboard").exists());
    settings.http.insecure_bind = true;
    let running = Running::start(settings).await.unwrap();
    assert!(running.url().starts_with("http://127.0.0.1:"));
    running.shutdown().await;
}

#[tokio::test]
async fn waiting_calls_are_answered_when_the_hub_stops() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let waits = [
        tokio::spawn(async move {
            client
                .post(
                    "/api/v1/tasks/claim",
                    json!({ "agentId": "a1", "wait": 60 }),
                )
                .await
        }),
        tokio::spawn(async move { client.get("/api/v1/messages?agentId=a1&wait=60").await }),
        tokio::spawn(async move {
            client
                .get("/api/v1/messages?agentId=a1&since=2020-01-01&wait=60")
                .await
        }),
    ];
    // Start, registration, two steps of the claim, the look into the inbox; the third wait only reads.
    while hub.running.hub.stats().verbs < 6 {
        tokio::task::yield_now().await;
    }
    // Connections are accepted in order: whoever came before this one is being served.
    for _ in 0..3 {
        client.get("/readyz").await;
    }
    tokio::time::timeout(SOON, hub.running.shutdown())
        .await
        .expect("it stops in time");
    for wait in waits {
        let answer = wait.await.unwrap();
        answer.refused(503, "db_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert!(TcpStream::connect(client.addr).await.is_err());
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_end() {
    let hub = start().await;
    let mut idle = TcpStream::connect(hub.client.addr).await.unwrap();
    let mut half = TcpStream::connect(hub.client.addr).await.unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost: local")
        .await
        .unwrap();
    tokio::time::timeout(SOON, hub.running.shutdown())
        .await
        .expect("it stops in time");
    for stream in [&mut idle, &mut half] {
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut rest))
            .await
            .expect("it was closed");
    }
}

#[tokio::test]
async fn no_more_connections_are_served_than_there_are_places() {
    let hub = start_as(|config| config.http.connections_max = 1).await;
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", hub.client.addr);
    let mut first = TcpStream::connect(hub.client.addr).await.unwrap();
    first.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 15];
    tokio::time::timeout(SOON, first.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    // The second is in the system's queue until the first goes.
    let mut second = TcpStream::connect(hub.client.addr).await.unwrap();
    second.write_all(request.as_bytes()).await.unwrap();
    assert!(futures_util::FutureExt::now_or_never(second.read_exact(&mut answer)).is_none());
    drop(first);
    tokio::time::timeout(SOON, second.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    drop(second);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_trial_certificate_serves_tls() {
    let hub = start_as(|config| {
        config.http.tls = Tls::SelfSigned;
        config.auth = AuthMode::None;
    })
    .await;
    use rustls_pki_types::pem::PemObject as _;
    let pem = std::fs::read(hub.home.path().join(".switchboard/tls-cert.pem")).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(rustls_pki_types::CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(hub.client.addr).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(client))
        .connect(name, stream)
        .await
        .unwrap();
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut said = String::new();
    tokio::time::timeout(SOON, stream.read_to_string(&mut said))
        .await
        .unwrap()
        .unwrap();
    assert!(
        said.starts_with("HTTP/1.1 200 OK") && said.ends_with("ready\n"),
        "{said}"
    );
    assert!(hub.running.url().starts_with("https://"));
    drop(stream);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn who_hangs_up_while_waiting_gets_no_task() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let waiting = tokio::spawn(async move {
        client
            .post(
                "/api/v1/tasks/claim",
                json!({ "agentId": "a1", "wait": 60 }),
            )
            .await
    });
    // Start, registration, and the two steps of the claim: now it waits.
    while hub.running.hub.stats().verbs < 5 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    let deadline = std::time::Instant::now() + SOON;
    loop {
        let id = client.task("T").await;
        let shown = client.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
        if shown["task"]["status"] == "ready" {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{shown}");
    }
    // Nobody waits any more: further tasks stay ready.
    let id = client.task("U").await;
    let shown = client.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(shown["task"]["status"], "ready");
    hub.running.shutdown().await;
}

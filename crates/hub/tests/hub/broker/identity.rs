//! Who may connect, and as whom.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use switchboard_core::token::Scope;
use switchboard_hub::config::{AuthMode, Tls};
use switchboard_wire::signature::MasterKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::kit::{Client, address, broker, broker_as};
use crate::harness::TestHub;

async fn signed() -> TestHub {
    broker_as(|config| config.auth = AuthMode::Hmac).await
}

/// A token for an agent.
async fn token(hub: &TestHub, agent: &str) -> (String, String) {
    token_of(hub, Scope::Agent, Some(agent)).await
}

/// The token of whoever can read the hub's key.
fn steward(hub: &TestHub) -> String {
    let key = std::fs::read_to_string(hub.home.path().join(".switchboard/key")).unwrap();
    MasterKey::from_hex(&key)
        .unwrap()
        .steward_token()
        .to_string()
}

async fn token_of(hub: &TestHub, scope: Scope, agent: Option<&str>) -> (String, String) {
    let steward = steward(hub);
    let asked = json!({ "name": "t", "scope": scope.as_str(), "agentId": agent });
    let headers = [("authorization", &*format!("Bearer {steward}"))];
    let made = hub.client.with("POST", "/api/v1/tokens", &headers, asked);
    let made = made.await.expect(201)["token"].take();
    let word = |name: &str| made[name].as_str().unwrap().to_owned();
    (word("id"), word("secret"))
}

#[tokio::test]
async fn a_page_of_another_site_and_another_name_are_refused_in_the_handshake() {
    let hub = broker().await;
    let port = address(&hub).port();
    let ours = format!("http://127.0.0.1:{port}");
    for (name, value, passes) in [
        ("origin", ours.as_str(), true),
        ("origin", "https://evil.example", false),
        ("origin", "null", false),
        ("host", "evil.example", false),
        ("host", "localhost", true),
    ] {
        let dialed = Client::dial(&hub, &[(name, value)]).await;
        match dialed {
            Ok(_) => assert!(passes, "{name}: {value}"),
            Err(Error::Http(response)) => {
                assert!(!passes, "{name}: {value}");
                assert_eq!(response.status(), 403);
            }
            Err(error) => panic!("{name}: {value}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_connection_speaks_only_as_the_role_of_its_token() {
    let hub = signed().await;
    let (_, secret) = token(&hub, "builder").await;
    let bearer = format!("Bearer {secret}");
    let mut client = Client::dial(&hub, &[("authorization", &bearer)])
        .await
        .unwrap();
    client.expect("welcome").await;
    client
        .send(json!({ "type": "register", "role": "architect" }))
        .await;
    let refused = client.expect("error").await;
    assert!(
        refused["message"].as_str().unwrap().contains("builder"),
        "{refused}"
    );
    client
        .send(json!({ "type": "register", "role": "devops" }))
        .await;
    assert_eq!(client.expect("registered").await["role"], "builder");
    // The same with the token in the frame.
    let mut other = Client::open(&hub).await;
    other
        .send(json!({ "type": "register", "role": "builder", "token": secret }))
        .await;
    assert_eq!(other.expect("registered").await["role"], "builder");
    let ack = other.say("oracle", "m1", "(BUILDER #1): x").await;
    assert_eq!(ack["accepted"], true);
}

#[tokio::test]
async fn who_shows_nothing_is_told_how_and_does_nothing() {
    let hub = signed().await;
    let mut client = Client::open(&hub).await;
    for frame in [
        json!({ "type": "send", "target": "builder", "content": "x", "messageId": "m1", "ackRequired": true }),
        json!({ "type": "health-check", "target": "builder", "requestId": "h" }),
        json!({ "type": "register", "role": "builder" }),
        json!({ "type": "register", "role": "builder", "token": "wrong" }),
    ] {
        client.send(frame.clone()).await;
        let answer = client.next().await.unwrap();
        assert_eq!(answer["type"], "error", "{frame}");
        assert!(
            !answer.to_string().contains("wrong"),
            "no token in an answer"
        );
    }
    let found = hub
        .running
        .hub
        .read(|ledger| ledger.message(&"m1".into()))
        .await;
    assert_eq!(found.unwrap(), None);
    // It does not stay for long either.
    let end = client.ends().await.unwrap();
    assert_eq!(u16::from(end.code), 1008);
}

#[tokio::test]
async fn a_connection_ends_with_its_token() {
    let hub = signed().await;
    let (id, secret) = token(&hub, "builder").await;
    let mut client = Client::open(&hub).await;
    client
        .send(json!({ "type": "register", "role": "builder", "token": secret }))
        .await;
    client.expect("registered").await;
    let revoke = switchboard_core::verb::RevokeToken {
        id: id.as_str().into(),
    };
    hub.running.hub.run(revoke).await.unwrap();
    let end = client.ends().await.unwrap();
    assert_eq!(u16::from(end.code), 1008);
    assert!(end.reason.contains("revoked"), "{end:?}");
}

#[tokio::test]
async fn each_scope_may_register_or_not() {
    let hub = signed().await;
    let entries = switchboard_hub::rights::entries();
    let broker = switchboard_hub::rights::BROKER;
    let entry = entries.iter().find(|entry| entry.door == broker).unwrap();
    for scope in Scope::ALL {
        let agent = (*scope == Scope::Agent).then_some("builder");
        let (_, secret) = token_of(&hub, *scope, agent).await;
        let mut client = Client::open(&hub).await;
        let register = json!({ "type": "register", "role": "builder", "token": secret });
        client.send(register).await;
        let answer = client.next().await.unwrap();
        let is_in = answer["type"] == "registered";
        assert_eq!(is_in, entry.opens.is_for(*scope), "{scope}: {answer}");
    }
}

/// What is answered to `register` over TLS, with this in the handshake.
async fn registers(hub: &TestHub, addr: SocketAddr, token: Option<&str>) -> Value {
    let pem = std::fs::read(hub.home.path().join(".switchboard/tls-cert.pem")).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (socket, name) = (TcpStream::connect(addr).await.unwrap(), "localhost");
    let connector = TlsConnector::from(Arc::new(config));
    let secured = connector.connect(name.try_into().unwrap(), socket);
    let mut request = "wss://localhost/".into_client_request().unwrap();
    if let Some(token) = token {
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
    }
    let (mut ws, _) = client_async(request, secured.await.unwrap()).await.unwrap();
    let register = json!({ "type": "register", "role": "builder" }).to_string();
    ws.send(Message::text(register)).await.unwrap();
    loop {
        let text = ws.next().await.unwrap().unwrap().into_text().unwrap();
        let frame: Value = serde_json::from_str(&text).unwrap();
        if frame["type"] != "welcome" {
            return frame;
        }
    }
}

#[tokio::test]
async fn beyond_loopback_a_connection_is_encrypted_and_shows_a_token() {
    let hub = broker_as(|config| {
        config.broker.listen = Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        config.http.tls = Tls::SelfSigned;
        config.auth = AuthMode::Hmac;
    })
    .await;
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, address(&hub).port()));
    let plain = TcpStream::connect(addr).await.unwrap();
    assert!(client_async("ws://localhost/", plain).await.is_err());
    for wrong in [None, Some("wrong")] {
        let answer = registers(&hub, addr, wrong).await;
        assert_eq!(answer["type"], "error", "{answer}");
    }
    let answer = registers(&hub, addr, Some(&steward(&hub))).await;
    assert_eq!(
        (&answer["type"], &answer["role"]),
        (&json!("registered"), &json!("builder"))
    );
    hub.running.shutdown().await;
}

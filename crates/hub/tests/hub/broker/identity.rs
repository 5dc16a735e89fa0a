//! Who may connect, and as whom.

use serde_json::json;
use switchboard_core::token::Scope;
use switchboard_hub::config::AuthMode;
use switchboard_wire::signature::MasterKey;
use tokio_tungstenite::tungstenite::Error;

use super::kit::{Client, address, broker, broker_as};
use crate::harness::TestHub;

async fn signed() -> TestHub {
    broker_as(|config| config.auth = AuthMode::Hmac).await
}

/// A token for an agent.
async fn token(hub: &TestHub, agent: &str) -> (String, String) {
    token_of(hub, Scope::Agent, Some(agent)).await
}

/// Made by whoever can read the hub's key.
async fn token_of(hub: &TestHub, scope: Scope, agent: Option<&str>) -> (String, String) {
    let key = std::fs::read_to_string(hub.home.path().join(".switchboard/key")).unwrap();
    let steward = MasterKey::from_hex(&key).unwrap().steward_token();
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

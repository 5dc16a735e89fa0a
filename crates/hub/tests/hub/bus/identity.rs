//! Who is let in where authentication is on: a hello is signed, once, with something that counts.

use serde_json::{Value, json};
use switchboard_core::rights::Right;
use switchboard_core::token::Scope;
use switchboard_hub::Running;
use switchboard_hub::config::{AuthMode, Config};
use switchboard_wire::IsoTime;
use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::message::Credential;
use switchboard_wire::signature::{AgentKey, MasterKey};

use super::kit::{ASSIGN, Peer, bus, bus_as, hello, make};
use crate::coordinators::ahead_ms;
use crate::harness::{Client, TestHub, config, registration};
use crate::signer::{Signer, bearer, key, now_ms, steward};
use crate::world::{Ledger, eventually};

fn signed(config: &mut Config) {
    config.auth = AuthMode::Hmac;
}

/// Someone with a socket, who says hello as somebody.
struct Guest<'a> {
    role: &'static str,
    id: &'a str,
    offset_ms: i64,
}

impl<'a> Guest<'a> {
    fn worker(id: &'a str) -> Self {
        let role = "worker";
        Guest {
            role,
            id,
            offset_ms: 0,
        }
    }

    fn operator(id: &'a str) -> Self {
        Guest {
            role: "operator",
            ..Guest::worker(id)
        }
    }

    fn hello(&self, credential: Option<&Credential>) -> Value {
        let mut hello = hello(self.id, ASSIGN);
        if let Some(credential) = credential {
            let role = if self.role == "worker" {
                Role::Worker
            } else {
                Role::Operator
            };
            let nonce = ulid::Ulid::generate().to_string();
            let at = IsoTime(now_ms() + self.offset_ms);
            let auth = credential.sign(role, self.id, at, nonce);
            hello["auth"] = serde_json::to_value(auth).unwrap();
        }
        hello
    }

    /// Says this, and is let in.
    async fn welcomed(&self, hub: &TestHub, credential: &Credential) -> Peer {
        let mut peer = Peer::open(hub).await;
        let hello = self.hello(Some(credential));
        peer.greet(self.role, self.id, hello).await;
        peer.expect("protocol_welcome.v1").await;
        peer
    }

    /// Says this, and is not.
    async fn refused(&self, hub: &TestHub, hello: Value) -> String {
        let mut peer = Peer::open(hub).await;
        peer.greet(self.role, self.id, hello).await;
        let error = peer.refused("role_forbidden").await;
        peer.ended().await;
        assert_eq!(peer.came("protocol_welcome.v1"), 0);
        error["message"].as_str().unwrap().to_owned()
    }
}

struct Made {
    id: String,
    credential: Credential,
}

/// A token of this scope, and for this agent.
async fn token(hub: &TestHub, steward: &str, scope: &str, agent: Option<&str>) -> Made {
    let mut body = json!({ "name": format!("of-{scope}"), "scope": scope });
    if let Some(agent) = agent {
        body["agentId"] = agent.into();
    }
    let made = bearer(hub.client, "POST", "/api/v1/tokens", steward, body).await;
    let made = made.expect(201)["token"].take();
    assert_eq!(made["agentId"].as_str(), agent);
    Made {
        id: made["id"].as_str().unwrap().to_owned(),
        credential: Credential::from_text(made["secret"].as_str().unwrap()).unwrap(),
    }
}

async fn revoke(hub: &TestHub, steward: &str, token: &Made) {
    let path = format!("/api/v1/tokens/{}", token.id);
    let revoked = bearer(hub.client, "DELETE", &path, steward, json!({})).await;
    revoked.expect(200);
}

/// What the reader of the master key signs with.
fn own(hub: &TestHub) -> Credential {
    let text = std::fs::read_to_string(hub.home.path().join(".switchboard/key")).unwrap();
    let token = MasterKey::from_hex(&text).unwrap().steward_token();
    Credential::from_text(&token).unwrap()
}

#[tokio::test]
async fn who_proves_nothing_is_let_in_nowhere_and_told_how_to_get_a_credential() {
    let hub = bus_as(signed).await;
    let steward = steward(&hub).await;
    let real = key(&hub, &steward, "a1").await;
    let other = key(&hub, &steward, "a2").await;
    // Neither an id that has a key, nor one that nobody has heard of.
    for id in ["a1", "w1"] {
        let guest = Guest::worker(id);
        let told = guest.refused(&hub, guest.hello(None)).await;
        assert!(told.contains("switchboard agent add"), "{told}");
        assert!(told.contains("--scope agent"), "{told}");
    }
    let guest = Guest::operator("o1");
    let told = guest.refused(&hub, guest.hello(None)).await;
    assert!(told.contains("--scope operator"), "{told}");

    let a1 = Guest::worker("a1");
    let minutes = |minutes: i64| Guest {
        offset_ms: minutes * 60_000,
        ..Guest::worker("a1")
    };
    let of = |key: &AgentKey| Credential::Key(key.clone());
    for (guest, credential) in [
        (&a1, of(&other)),
        (&minutes(6), of(&real)),
        (&minutes(-6), of(&real)),
        (&Guest::worker("w1"), of(&real)),
        (&Guest::operator("a1"), of(&real)),
        // A key is no token, and a secret that nobody made is none.
        (&a1, Credential::Token(real.clone())),
        (
            &a1,
            Credential::Token(MasterKey::new([1; 32]).agent_key("a1", 1)),
        ),
    ] {
        let hello = guest.hello(Some(&credential));
        guest.refused(&hub, hello).await;
    }
    // A signature is of one sender.
    let hello = a1.hello(Some(&of(&real)));
    Guest::operator("a1").refused(&hub, hello.clone()).await;
    let mut forged = hello;
    forged["auth"]["nonce"] = "another".into();
    a1.refused(&hub, forged).await;
    // Nothing of it left a trace.
    let listed = bearer(hub.client, "GET", "/api/v1/agents", &steward, json!({})).await;
    assert_eq!(listed.expect(200)["agents"], json!([]));
    a1.welcomed(&hub, &of(&real)).await.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn with_auth_none_nobody_is_asked_who_it_is() {
    // agentbus.security.no_transport_auth
    let hub = bus().await;
    let unknown = Credential::Token(MasterKey::new([1; 32]).agent_key("w1", 1));
    for guest in [Guest::worker("w1"), Guest::operator("o1")] {
        for credential in [None, Some(&unknown)] {
            let mut peer = Peer::open(&hub).await;
            peer.greet(guest.role, guest.id, guest.hello(credential))
                .await;
            peer.expect("protocol_welcome.v1").await;
        }
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn each_scope_opens_its_side_of_the_bus() {
    let hub = bus_as(signed).await;
    let steward = steward(&hub).await;
    let key = Credential::Key(key(&hub, &steward, "a1").await);
    let mut cases = vec![(own(&hub), [true, true, true]), (key, [true, false, false])];
    for scope in Scope::ALL {
        let agent = (*scope == Scope::Agent).then_some("a1");
        let made = token(&hub, &steward, scope.as_str(), agent).await;
        let may = [Right::Act, Right::ActAsAnyone, Right::Operate].map(|right| scope.may(right));
        cases.push((made.credential, may));
    }
    let guests = [
        Guest::worker("a1"),
        Guest::worker("a2"),
        Guest::operator("o1"),
    ];
    for (credential, may) in cases {
        for (guest, may) in guests.iter().zip(may) {
            if may {
                guest.welcomed(&hub, &credential).await.fence().await;
            } else {
                guest.refused(&hub, guest.hello(Some(&credential))).await;
            }
        }
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_token_of_an_agent_or_an_operator_opens_its_part_of_http() {
    let hub = bus_as(signed).await;
    let steward = steward(&hub).await;
    let secret = async |scope: &str, agent: Option<&str>| {
        let made = token(&hub, &steward, scope, agent).await;
        match made.credential {
            Credential::Token(key) | Credential::Key(key) => key.as_token(),
        }
    };
    let agent = secret("agent", Some("a1")).await;
    let operator = secret("operator", None).await;
    let calls = [
        ("/api/v1/agents/register", registration("a1", &[])),
        ("/api/v1/agents/register", registration("a2", &[])),
        ("/api/v1/pause", json!({ "reason": "deploy" })),
        ("/api/v1/resume", json!({})),
        ("/api/v1/tokens", json!({ "name": "n", "scope": "steward" })),
    ];
    for (token, expected) in [
        (&agent, [200, 403, 403, 403, 403]),
        (&operator, [403, 403, 200, 200, 403]),
    ] {
        for ((path, body), expected) in calls.iter().zip(expected) {
            let answer = bearer(hub.client, "POST", path, token, body.clone()).await;
            assert_eq!(answer.status, expected, "{path}: {}", answer.text);
        }
    }
    for (scope, agent) in [
        ("agent", None),
        ("viewer", Some("a1")),
        ("agent", Some("Steward")),
    ] {
        let body = json!({ "name": "n", "scope": scope, "agentId": agent });
        bearer(hub.client, "POST", "/api/v1/tokens", &steward, body)
            .await
            .refused(400, "invalid_operation");
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_hello_lets_in_once_also_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let settings = || {
        let mut config = config(home.path());
        config.bus.enabled = true;
        config.bus.memory.enabled = false;
        signed(&mut config);
        config
    };
    let start = async || {
        let running = Running::start(settings()).await.unwrap();
        let client = Client { addr: running.addr };
        let home = tempfile::tempdir().unwrap();
        TestHub {
            running,
            client,
            home,
        }
    };
    let hub = start().await;
    let steward = steward(&hub).await;
    let key = Credential::Key(key(&hub, &steward, "a1").await);
    let operator = token(&hub, &steward, "operator", None).await.credential;
    let said = [
        (Guest::worker("a1"), key),
        (Guest::operator("o1"), operator),
    ];
    let said = said.map(|(guest, credential)| {
        let hello = guest.hello(Some(&credential));
        (guest, hello)
    });
    for (guest, hello) in &said {
        let mut peer = Peer::open(&hub).await;
        peer.greet(guest.role, guest.id, hello.clone()).await;
        peer.expect("protocol_welcome.v1").await;
        guest.refused(&hub, hello.clone()).await;
        let mut louder = hello.clone();
        let signature = louder["auth"]["signature"].as_str().unwrap().to_uppercase();
        louder["auth"]["signature"] = signature.into();
        guest.refused(&hub, louder).await;
        peer.fence().await;
    }
    hub.running.shutdown().await;
    let hub = start().await;
    for (guest, hello) in &said {
        guest.refused(&hub, hello.clone()).await;
    }
    hub.running.shutdown().await;
}

/// The stream is over, and was told why.
async fn ends(peer: &mut Peer, why: &str) {
    let told = peer.refused("role_forbidden").await;
    assert!(told["message"].as_str().unwrap().contains(why), "{told}");
    peer.ended().await;
}

#[tokio::test]
async fn a_replaced_key_and_a_revoked_token_end_their_streams_and_no_others() {
    let hub = bus_as(signed).await;
    let steward = steward(&hub).await;
    let first = Credential::Key(key(&hub, &steward, "a1").await);
    let tokens = [
        token(&hub, &steward, "agent", Some("a2")).await,
        token(&hub, &steward, "operator", None).await,
        // Of the same name as the one before.
        token(&hub, &steward, "operator", None).await,
    ];
    let mut a1 = Guest::worker("a1").welcomed(&hub, &first).await;
    let mut a2 = Guest::worker("a2")
        .welcomed(&hub, &tokens[0].credential)
        .await;
    let mut o1 = Guest::operator("o1")
        .welcomed(&hub, &tokens[1].credential)
        .await;
    let mut o2 = Guest::operator("o2")
        .welcomed(&hub, &tokens[2].credential)
        .await;
    // A key that is made for an agent is no concern of a token that acts as it.
    key(&hub, &steward, "a2").await;
    a2.fence().await;

    let second = Credential::Key(key(&hub, &steward, "a1").await);
    ends(&mut a1, "replaced").await;
    let guest = Guest::worker("a1");
    guest.refused(&hub, guest.hello(Some(&first))).await;
    let mut a1 = guest.welcomed(&hub, &second).await;

    revoke(&hub, &steward, &tokens[0]).await;
    ends(&mut a2, "revoked").await;
    revoke(&hub, &steward, &tokens[1]).await;
    ends(&mut o1, "revoked").await;
    for token in &tokens[..2] {
        let guest = Guest::operator("o1");
        guest
            .refused(&hub, guest.hello(Some(&token.credential)))
            .await;
    }
    a1.fence().await;
    o2.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_call_that_waits_ends_with_what_let_it_in() {
    let hub = bus_as(signed).await;
    let steward = steward(&hub).await;
    let made = token(&hub, &steward, "agent", Some("a1")).await;
    let Credential::Token(secret) = &made.credential else {
        panic!("it is a token");
    };
    let secret = secret.as_token();
    let body = registration("a1", &[]);
    let registered = bearer(hub.client, "POST", "/api/v1/agents/register", &secret, body).await;
    registered.expect(200);
    let claim = json!({ "agentId": "a1", "wait": 60 });
    let waits = [
        bearer(hub.client, "POST", "/api/v1/tasks/claim", &secret, claim),
        bearer(
            hub.client,
            "GET",
            "/api/v1/messages?agentId=a1&wait=60",
            &secret,
            Value::Null,
        ),
    ];
    let verbs = || hub.running.hub.stats().verbs;
    let before = verbs();
    let ends = async {
        // Both have asked once, one after it was described.
        eventually(async || verbs() >= before + 3).await;
        revoke(&hub, &steward, &made).await;
    };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(waits), ends);
    for answer in answers {
        assert_eq!(answer.status, 401, "{}", answer.text);
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_replaced_master_key_ends_all_streams() {
    let hub = bus_as(signed).await;
    let steward = steward(&hub).await;
    let of_key = Credential::Key(key(&hub, &steward, "a1").await);
    let operator = token(&hub, &steward, "operator", None).await;
    let mut worker = Guest::worker("a1").welcomed(&hub, &of_key).await;
    let mut watcher = Guest::operator("o1")
        .welcomed(&hub, &operator.credential)
        .await;
    let file = hub.home.path().join(".switchboard/key");
    std::fs::write(file, "07".repeat(32)).unwrap();
    // However busy it is.
    let mut chatter = worker
        .frame("agent_message_ack.v1", &json!({ "message_id": "m" }))
        .to_string();
    chatter.push('\n');
    while worker.try_raw(chatter.as_bytes()).await {
        tokio::task::yield_now().await;
    }
    watcher.refused("role_forbidden").await;
    watcher.ended().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn nobody_else_keeps_a_stream_or_gets_messages_under_an_id_that_has_a_key() {
    let hub = bus_as(signed).await;
    let steward = steward(&hub).await;
    let agent_key = key(&hub, &steward, "a1").await;
    let signer = Signer::new("a1", &agent_key);
    let body = registration("a1", &[]);
    let registered = signer.call(hub.client, "POST", "/api/v1/agents/register", &body);
    registered.await.expect(200);
    // By its own key it gets one more door, and what waits for it.
    let mut real = Guest::worker("a1")
        .welcomed(&hub, &Credential::Key(agent_key.clone()))
        .await;
    let made = json!({ "title": "T", "audience": ["a1"] });
    let made = bearer(hub.client, "POST", "/api/v1/tasks", &steward, made).await;
    let number = made.expect(201)["task"]["number"].as_u64().unwrap();
    let guest = Guest::worker("a1");
    guest.refused(&hub, guest.hello(None)).await;
    real.take_on(number).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn streams_at_another_coordinator_end_too() {
    let ledger = Ledger::new();
    let started = || {
        ledger.coordinator_as(|config| {
            signed(config);
            config.bus.enabled = true;
            config.bus.memory.enabled = false;
        })
    };
    let (here, _) = started().await;
    let (there, _) = started().await;
    let steward = steward(&here).await;
    let offset_ms = ahead_ms(&ledger);
    let guest = |guest: Guest<'static>| Guest { offset_ms, ..guest };
    let key_of_a1 = Credential::Key(key(&here, &steward, "a1").await);
    let operator = token(&here, &steward, "operator", None).await;
    let agent = token(&here, &steward, "agent", Some("a2")).await;
    // Also where nobody but an operator is connected.
    let watches = guest(Guest::operator("o1"));
    let hello = watches.hello(Some(&operator.credential));
    let mut third = Peer::open(&there).await;
    third.greet("operator", "o1", hello.clone()).await;
    third.expect("protocol_welcome.v1").await;
    watches.refused(&here, hello).await;
    revoke(&here, &steward, &operator).await;
    ends(&mut third, "revoked").await;

    let a1 = guest(Guest::worker("a1"));
    let mut first = a1.welcomed(&there, &key_of_a1).await;
    let mut second = guest(Guest::worker("a2"))
        .welcomed(&there, &agent.credential)
        .await;
    key(&here, &steward, "a1").await;
    ends(&mut first, "replaced").await;
    revoke(&here, &steward, &agent).await;
    ends(&mut second, "revoked").await;
    for hub in [here, there] {
        hub.running.shutdown().await;
    }
}

#[tokio::test]
async fn ids_that_read_like_those_of_the_hub_are_refused_at_every_door() {
    let hub = bus().await;
    for id in [
        "Steward",
        "SWITCHBOARD",
        "ste\u{200b}ward",
        "\u{202e}steward",
    ] {
        let guest = Guest::worker(id);
        guest.refused(&hub, guest.hello(None)).await;
        let register = hub
            .client
            .post("/api/v1/agents/register", registration(id, &[]));
        register.await.refused(400, "invalid_operation");
        let body = json!({ "protocolVersion": "1.0", "operation": "REGISTER", "agent": registration(id, &[])["agent"] });
        let asked = hub.client.post("/api/v1/protocol", body);
        asked.await.refused(400, "invalid_operation");
    }
    let (_, number) = make(hub.client, json!({ "title": "T" })).await;
    let mut peer = Peer::worker(&hub, "steward-2", ASSIGN).await;
    peer.take_on(number).await;
    hub.running.shutdown().await;
}

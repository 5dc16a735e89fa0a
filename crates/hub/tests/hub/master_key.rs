//! The master key: what it proves, and what ends with it.

use serde_json::json;
use switchboard_hub::config::AuthMode;
use switchboard_hub::data_dir::Keys;
use switchboard_wire::signature::MasterKey;

use crate::events::Stream;
use crate::harness::{TestHub, start, start_signed};
use crate::signer::{Signer, bearer, key, master_key};
use crate::world::{Ledger, eventually};

const NONCE: &str = "00112233445566778899aabbccddeeff";

#[tokio::test]
async fn a_hub_proves_that_it_has_the_key_at_the_address_that_was_called() {
    let hub = start().await;
    let key = master_key(&hub.running);
    let path = format!("/proof?nonce={NONCE}");
    let here = hub.running.addr;
    let proof = |answer: serde_json::Value| answer["proof"].as_str().unwrap().to_owned();
    let said = proof(hub.client.get(&path).await.expect(200));
    assert!(key.is_proof(NONCE, here, &said));
    // Whoever sits at another port and passes the question on gets words for this one, whatever name it calls us by.
    let mut elsewhere = here;
    elsewhere.set_port(1);
    let host = elsewhere.to_string();
    let passed_on = hub.client.send("GET", &path, &[("host", &host)], "").await;
    let said = proof(passed_on.expect(200));
    assert!(!key.is_proof(NONCE, elsewhere, &said));
    assert!(key.is_proof(NONCE, here, &said));
    for wrong in ["/proof", "/proof?nonce=1", "/proof?nonce=x"] {
        hub.client
            .get(wrong)
            .await
            .refused(400, "invalid_operation");
    }
    hub.running.shutdown().await;
}

async fn may_steer(hub: &TestHub, token: &str) -> bool {
    let answer = bearer(hub.client, "GET", "/api/v1/tokens", token, json!({})).await;
    answer.status == 200
}

#[tokio::test]
async fn a_replaced_key_ends_what_was_made_from_the_old_one() {
    let hub = start_signed().await;
    let old = master_key(&hub.running).steward_token();
    let made = json!({ "name": "ann", "scope": "steward" });
    let made = bearer(hub.client, "POST", "/api/v1/tokens", &old, made).await;
    let token = made.expect(201)["token"]["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    let agent_key = key(&hub, &token, "a1").await;
    let status = "/api/v1/status";
    let call = async |nonce: &str| {
        let signer = Signer {
            nonce,
            ..Signer::new("a1", &agent_key)
        };
        signer
            .call(hub.client, "GET", status, &json!({}))
            .await
            .status
    };
    assert_eq!(call("before").await, 200);
    let shown = format!("Bearer {old}");
    let shown = [("authorization", shown.as_str())];
    let mut stream = Stream::open_with(&hub, "/api/v1/events", &shown).await;
    let new = [9; 32];
    Keys::of(hub.running.data_dir()).keep_own(&new).unwrap();
    let new = MasterKey::new(new).steward_token();
    eventually(async || may_steer(&hub, &new).await).await;
    assert!(!may_steer(&hub, &old).await);
    assert!(!may_steer(&hub, &token).await);
    assert_eq!(call("after").await, 401);
    while stream.next().await.is_some() {}
    let left = bearer(hub.client, "GET", "/api/v1/tokens", &new, json!({})).await;
    assert_eq!(left.expect(200)["tokens"], json!([]), "none that works");
    key(&hub, &new, "a1").await;
    // What is no key changes nothing.
    std::fs::write(hub.running.data_dir().join(Keys::OWN), "no key").unwrap();
    assert!(may_steer(&hub, &new).await);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_token_of_an_old_key_does_not_come_back_with_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let settings = || {
        let mut config = crate::harness::config(home.path());
        config.auth = AuthMode::Hmac;
        config
    };
    let start = async || {
        let running = switchboard_hub::Running::start(settings()).await.unwrap();
        let client = crate::harness::Client { addr: running.addr };
        (running, client)
    };
    let (running, _) = start().await;
    let token = crate::signer::make_token(&running, "steward").await;
    let dir = running.data_dir().to_owned();
    running.shutdown().await;
    let ask = async |client| {
        let answer = bearer(client, "GET", "/api/v1/tokens", &token, json!({})).await;
        answer.status
    };
    let old = Keys::of(&dir).own().unwrap().unwrap();
    for (key, status) in [([9; 32], 401), (old, 200)] {
        Keys::of(&dir).keep_own(&key).unwrap();
        let (running, client) = start().await;
        assert_eq!(ask(client).await, status);
        running.shutdown().await;
    }
}

#[tokio::test]
async fn every_coordinator_takes_up_the_key_of_the_ledger() {
    let ledger = Ledger::new();
    let signed = || ledger.coordinator_as(|config| config.auth = AuthMode::Hmac);
    let (one, _) = signed().await;
    // The other one's directory has a key of its own, of another ledger.
    let (two, _) = ledger
        .coordinator_as(|config| {
            config.auth = AuthMode::Hmac;
            std::fs::create_dir_all(&config.data_dir).unwrap();
            Keys::of(&config.data_dir).keep_own(&[7; 32]).unwrap();
        })
        .await;
    let old = master_key(&one.running).steward_token();
    assert_eq!(master_key(&two.running).steward_token(), old);
    assert!(may_steer(&one, &old).await && may_steer(&two, &old).await);
    *ledger.key.lock().unwrap() = Some([9; 32]);
    let new = MasterKey::new([9; 32]).steward_token();
    for hub in [&one, &two] {
        eventually(async || may_steer(hub, &new).await).await;
        assert!(!may_steer(hub, &old).await);
        assert_eq!(master_key(&hub.running).steward_token(), new);
    }
    let own = |hub: &TestHub| Keys::of(hub.running.data_dir()).own().unwrap();
    assert_eq!(own(&one), Some([9; 32]));
    assert_eq!(own(&two), Some([7; 32]), "it is not this ledger's");
    one.running.shutdown().await;
    two.running.shutdown().await;
}

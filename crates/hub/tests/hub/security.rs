//! Signatures, tokens, and what each caller may do.

use serde_json::{Value, json};
use switchboard_hub::Running;
use switchboard_hub::config::AuthMode;
use switchboard_wire::signature::{AgentKey, MasterKey};

use crate::harness::{Client, config, registration, start_signed};
use crate::signer::{Signer, bearer, key, make_token, send, steward};

#[tokio::test]
async fn whoever_can_read_the_master_key_is_the_steward() {
    let hub = start_signed().await;
    let key = hub.home.path().join(".switchboard/key");
    let text = std::fs::read_to_string(key).unwrap();
    let own = MasterKey::from_hex(&text).unwrap().steward_token();
    let made = json!({ "name": "laptop", "scope": "steward" });
    bearer(hub.client, "POST", "/api/v1/tokens", &own, made.clone())
        .await
        .expect(201);
    let other = MasterKey::new([1; 32]).steward_token();
    for wrong in [other.as_str(), &own[..own.len() - 1], &format!("{own}0")] {
        bearer(hub.client, "POST", "/api/v1/tokens", wrong, made.clone())
            .await
            .refused(401, "unauthenticated");
    }
}

#[tokio::test]
async fn nobody_gets_in_without_a_signature_or_a_token() {
    let hub = start_signed().await;
    hub.client
        .get("/api/v1/status")
        .await
        .refused(401, "unauthenticated");
    hub.client
        .get("/api/v1/messages?agentId=a1")
        .await
        .refused(401, "unauthenticated");
    hub.client
        .post("/api/v1/tasks/claim", json!({ "agentId": "a1" }))
        .await
        .refused(401, "unauthenticated");
    bearer(hub.client, "GET", "/api/v1/status", "wrong", json!({}))
        .await
        .refused(401, "unauthenticated");
    hub.client
        .send(
            "GET",
            "/api/v1/status",
            &[("authorization", "Basic eDp5")],
            "",
        )
        .await
        .refused(401, "unauthenticated");
    let open = hub.client.get("/healthz").await;
    assert_eq!(open.status, 200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_agent_signs_in_headers_or_in_the_body_and_each_signature_counts_once() {
    let hub = start_signed().await;
    let client = hub.client;
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    let signer = Signer::new("a1", &key);

    let mut register = registration("a1", &[]);
    register["operation"] = "REGISTER".into();
    let body = signer.sealed(register);
    client
        .send("POST", "/api/v1/agents/register", &[], body.clone())
        .await
        .expect(200);
    client
        .send("POST", "/api/v1/agents/register", &[], body)
        .await
        .refused(401, "unauthenticated");

    let beat = json!({ "status": "idle" });
    let text = beat.to_string();
    let path = "/api/v1/agents/a1/heartbeat";
    let headers = signer.headers("POST", path, &text);
    send(client, "POST", path, &headers, &text)
        .await
        .expect(200);
    send(client, "POST", path, &headers, &text)
        .await
        .refused(401, "unauthenticated");
    let mut louder = headers.clone();
    louder[3].1 = louder[3].1.to_uppercase();
    send(client, "POST", path, &louder, &text)
        .await
        .refused(401, "unauthenticated");
    let again = Signer {
        nonce: "m",
        ..Signer::new("a1", &key)
    };
    again.call(client, "POST", path, &beat).await.expect(200);

    let get = "/api/v1/messages?agentId=a1&limit=5";
    let headers = signer.headers("GET", get, "");
    send(client, "GET", get, &headers, "").await.expect(200);
    send(client, "GET", get, &headers, "")
        .await
        .refused(401, "unauthenticated");
    let sealed = signer.sealed(json!({ "operation": "CLAIM", "protocolVersion": "1.0" }));
    client
        .send("POST", "/api/v1/protocol", &[], sealed)
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_wrong_signature_is_refused_whatever_is_wrong_with_it() {
    let hub = start_signed().await;
    let client = hub.client;
    let token = steward(&hub).await;
    let key_a = key(&hub, &token, "a1").await;
    let key_b = key(&hub, &token, "a2").await;
    let claim = json!({ "agentId": "a1" });
    let path = "/api/v1/tasks/claim";
    let minutes = |minutes: i64| Signer {
        offset_ms: minutes * 60_000,
        ..Signer::new("a1", &key_a)
    };
    for wrong in [
        Signer::new("a1", &key_b),
        minutes(6),
        minutes(-6),
        Signer::new("a3", &key_a),
    ] {
        wrong
            .call(client, "POST", path, &claim)
            .await
            .refused(401, "unauthenticated");
    }
    let headers = Signer::new("a1", &key_a).headers("POST", path, &claim.to_string());
    send(
        client,
        "POST",
        path,
        &headers,
        r#"{"agentId":"a1","wait":1}"#,
    )
    .await
    .refused(401, "unauthenticated");
    for missing in 0..2 {
        let mut headers = Signer::new("a1", &key_a).headers("POST", path, &claim.to_string());
        headers.remove(missing);
        send(client, "POST", path, &headers, &claim.to_string())
            .await
            .refused(401, "unauthenticated");
    }
    // The clock may differ by less than the window; that a1 never registered is then what is wrong.
    for near in [minutes(4), minutes(-4)] {
        near.call(client, "POST", path, &claim)
            .await
            .refused(404, "agent_not_registered");
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_agent_acts_only_as_itself_and_steers_nothing() {
    let hub = start_signed().await;
    let client = hub.client;
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    let signer = Signer::new("a1", &key);
    signer
        .call(
            client,
            "POST",
            "/api/v1/agents/register",
            &registration("a1", &[]),
        )
        .await
        .expect(200);
    bearer(
        client,
        "POST",
        "/api/v1/agents/register",
        &token,
        registration("a2", &[]),
    )
    .await
    .expect(200);
    signer
        .call(
            client,
            "POST",
            "/api/v1/tasks/claim",
            &json!({ "agentId": "a2" }),
        )
        .await
        .refused(403, "not_you");
    for body in [json!({}), json!({ "agentId": "steward" })] {
        let mut body = body;
        body["message"] = json!({ "type": "custom" });
        signer
            .call(client, "POST", "/api/v1/messages", &body)
            .await
            .refused(403, "not_you");
    }
    signer
        .call(client, "DELETE", "/api/v1/agents/a2", &json!({}))
        .await
        .refused(403, "not_you");
    signer
        .call(client, "GET", "/api/v1/messages?agentId=a2", &json!({}))
        .await
        .refused(403, "not_you");
    signer
        .call(client, "GET", "/api/v1/messages?all=true", &json!({}))
        .await
        .refused(403, "forbidden");
    let made = signer
        .call(client, "POST", "/api/v1/tasks", &json!({ "title": "T" }))
        .await
        .expect(201);
    let id = made["task"]["id"].as_str().unwrap();
    for (method, path, body) in [
        ("POST", format!("/api/v1/tasks/{id}/cancel"), json!({})),
        (
            "PATCH",
            format!("/api/v1/tasks/{id}"),
            json!({ "title": "U" }),
        ),
        (
            "POST",
            "/api/v1/agents/a2/commands".to_owned(),
            json!({ "type": "PING" }),
        ),
        ("POST", "/api/v1/agents/a1/keys".to_owned(), json!({})),
        (
            "POST",
            "/api/v1/tokens".to_owned(),
            json!({ "name": "x", "scope": "steward" }),
        ),
        ("GET", "/api/v1/tokens".to_owned(), json!({})),
    ] {
        signer
            .call(client, method, &path, &body)
            .await
            .refused(403, "forbidden");
    }
    signer
        .call(client, "GET", "/api/v1/status", &json!({}))
        .await
        .expect(200);
    // A message between others is none of its business.
    let body = json!({ "agentId": "a2", "message": { "to": "a2", "type": "custom" } });
    let sent = bearer(client, "POST", "/api/v1/messages", &token, body)
        .await
        .expect(200);
    let path = format!("/api/v1/messages/{}", sent["messageId"].as_str().unwrap());
    signer
        .call(client, "GET", &path, &json!({}))
        .await
        .refused(403, "forbidden");
    bearer(client, "GET", &path, &token, json!({}))
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn tokens_open_what_their_scope_says_until_they_are_revoked() {
    let hub = start_signed().await;
    let client = hub.client;
    let steward = steward(&hub).await;
    let mut made = Vec::new();
    for scope in ["viewer", "node", "sql", "sql:steward"] {
        let body = json!({ "name": scope, "scope": scope });
        let token = bearer(client, "POST", "/api/v1/tokens", &steward, body)
            .await
            .expect(201)["token"]
            .clone();
        made.push((
            scope,
            token["secret"].as_str().unwrap().to_owned(),
            token["id"].as_str().unwrap().to_owned(),
        ));
    }
    for (scope, secret, id) in &made {
        let read = bearer(client, "GET", "/api/v1/tasks", secret, json!({})).await;
        let all = bearer(
            client,
            "GET",
            "/api/v1/messages?all=true",
            secret,
            json!({}),
        )
        .await;
        let make = bearer(
            client,
            "POST",
            "/api/v1/tasks",
            secret,
            json!({ "title": "T" }),
        )
        .await;
        let expected = match *scope {
            "viewer" => [200, 200, 403],
            "node" => [200, 403, 403],
            _ => [403, 403, 403],
        };
        assert_eq!([read.status, all.status, make.status], expected, "{scope}");
        bearer(
            client,
            "DELETE",
            &format!("/api/v1/tokens/{id}"),
            &steward,
            json!({}),
        )
        .await
        .expect(200);
        bearer(client, "GET", "/api/v1/tasks", secret, json!({}))
            .await
            .refused(401, "unauthenticated");
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_new_key_ends_the_one_before_and_a_revoked_one_ends_at_once() {
    let hub = start_signed().await;
    let token = steward(&hub).await;
    let old = key(&hub, &token, "a1").await;
    let call = async |key: &AgentKey, nonce: &str| {
        let signer = Signer {
            nonce,
            ..Signer::new("a1", key)
        };
        signer
            .call(hub.client, "GET", "/api/v1/status", &json!({}))
            .await
            .status
    };
    assert_eq!(call(&old, "1").await, 200);
    let new = key(&hub, &token, "a1").await;
    assert_eq!((call(&old, "2").await, call(&new, "3").await), (401, 200));
    let revoked = bearer(
        hub.client,
        "DELETE",
        "/api/v1/agents/a1/keys",
        &token,
        json!({}),
    )
    .await
    .expect(200);
    assert_eq!(revoked["generation"], 3);
    assert_eq!(call(&new, "4").await, 401);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_batch_is_signed_as_a_whole_or_part_by_part() {
    let hub = start_signed().await;
    let client = hub.client;
    let token = steward(&hub).await;
    let (one, two) = (key(&hub, &token, "a1").await, key(&hub, &token, "a2").await);
    let (first, second) = (Signer::new("a1", &one), Signer::new("a2", &two));
    for signer in [&first, &second] {
        signer
            .call(
                client,
                "POST",
                "/api/v1/agents/register",
                &registration(signer.agent, &[]),
            )
            .await
            .expect(200);
    }
    let beat =
        |agent: &str| json!({ "operation": "HEARTBEAT", "agentId": agent, "status": "idle" });
    let whole = json!({ "operations": [beat("a1"), beat("a2"), beat("a1")] });
    let answer = first
        .call(client, "POST", "/api/v1/batch", &whole)
        .await
        .expect(200);
    let statuses = |answer: &Value| -> Vec<u64> {
        answer["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|result| result["status"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(statuses(&answer), [200, 403, 200]);
    let parts = [
        first.sealed(beat("a1")),
        second.sealed(beat("a2")),
        beat("a1").to_string(),
    ];
    let body = format!(r#"{{"operations":[{}]}}"#, parts.join(","));
    let answer = client
        .send("POST", "/api/v1/batch", &[], body.clone())
        .await
        .expect(200);
    assert_eq!(statuses(&answer), [200, 200, 401]);
    let answer = client
        .send("POST", "/api/v1/batch", &[], body)
        .await
        .expect(200);
    assert_eq!(statuses(&answer), [401, 401, 401]);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_signed_change_is_not_repeated_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let settings = || {
        let mut config = config(home.path());
        config.auth = AuthMode::Hmac;
        config
    };
    let running = Running::start(settings()).await.unwrap();
    let client = Client { addr: running.addr };
    let token = make_token(&running, "steward").await;
    let made = bearer(client, "POST", "/api/v1/agents/a1/keys", &token, json!({}))
        .await
        .expect(201);
    let key = AgentKey::from_text(made["key"].as_str().unwrap()).unwrap();
    let master = std::fs::read_to_string(home.path().join(".switchboard/key")).unwrap();
    let master: [u8; 32] = switchboard_wire::signature::from_hex(&master)
        .unwrap()
        .try_into()
        .unwrap();
    assert_eq!(
        MasterKey::new(master).agent_key("a1", 1),
        key,
        "keys are derived, not kept"
    );
    let signer = Signer::new("a1", &key);
    signer
        .call(
            client,
            "POST",
            "/api/v1/agents/register",
            &registration("a1", &[]),
        )
        .await
        .expect(200);
    let create = json!({ "title": "once" }).to_string();
    let headers = signer.headers("POST", "/api/v1/tasks", &create);
    send(client, "POST", "/api/v1/tasks", &headers, &create)
        .await
        .expect(201);
    running.shutdown().await;

    let running = Running::start(settings()).await.unwrap();
    let client = Client { addr: running.addr };
    send(client, "POST", "/api/v1/tasks", &headers, &create)
        .await
        .refused(401, "unauthenticated");
    let tasks = bearer(client, "GET", "/api/v1/tasks", &token, json!({}))
        .await
        .expect(200);
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 1);
    running.shutdown().await;
}

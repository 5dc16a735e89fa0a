//! What is refused, by which code; nothing changes, and nothing of a secret comes back.

use serde_json::{Value, json};
use switchboard_core::limits;
use switchboard_hub::config::AuthMode;

use super::kit::{
    ALL, AUDIT, CONTEXT, EXCHANGE, Far, INVITES, INVOKE, REFRESH, fresh, invite, send, text,
};
use crate::harness::{start, start_as};
use crate::signer::{bearer, make_token, steward};

#[tokio::test]
async fn only_a_steward_invites_and_only_to_what_there_is() {
    let hub = start_as(|config| config.auth = AuthMode::Hmac).await;
    let client = hub.client;
    let viewer = make_token(&hub.running, "viewer").await;
    let body = json!({ "agentId": "far", "scopes": ["ansible.task.read"] });
    bearer(client, "POST", INVITES, &viewer, body.clone())
        .await
        .refused(403, "forbidden");
    client
        .post(INVITES, body.clone())
        .await
        .refused(401, "unauthenticated");
    let steward = steward(&hub).await;
    bearer(client, "POST", INVITES, &steward, body.clone())
        .await
        .expect(201);
    type Edit = fn(&mut Value);
    let cases: &[(Edit, &str)] = &[
        (|it| it["scopes"] = json!(["ansible.task.fly"]), "scopes[0]"),
        (
            |it| it["scopes"] = json!(["ansible.admin.all"]),
            "scopes[0]",
        ),
        (|it| it["scopes"] = json!([]), "scopes"),
        (|it| it["agentId"] = "a b".into(), "agentId"),
        (|it| it["agentId"] = "steward".into(), "agentId"),
        (|it| it["ttlSeconds"] = 901.into(), "ttlSeconds"),
        (
            |it| it["constraints"] = json!({ "origins": ["here"] }),
            "constraints.origins",
        ),
        (
            |it| it["constraints"] = json!({ "origins": vec!["::1"; 17] }),
            "constraints.origins",
        ),
        (
            |it| it["constraints"] = json!({ "maxSessions": 0 }),
            "constraints.maxSessions",
        ),
    ];
    for (edit, field) in cases {
        let mut body = body.clone();
        edit(&mut body);
        let refused = bearer(client, "POST", INVITES, &steward, body).await;
        assert_eq!(refused.refused(400, "invalid_operation")["field"], *field);
    }
    // Under one key it is the same invite.
    let headers = [
        ("authorization", &*format!("Bearer {steward}")),
        ("idempotency-key", "k"),
    ];
    let first = client
        .with("POST", INVITES, &headers, body.clone())
        .await
        .expect(201);
    let again = client
        .with("POST", INVITES, &headers, body)
        .await
        .expect(201);
    assert_eq!(first["inviteToken"], again["inviteToken"]);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_exchange_needs_the_key_and_its_signature() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let token = invite(client, "far", ALL).await;
    type Edit = fn(&mut Value);
    let cases: &[(Edit, u16, &str)] = &[
        (
            |it| it["clientProof"] = "00".repeat(64).into(),
            401,
            "invalid_proof",
        ),
        (|it| it["clientProof"] = "zz".into(), 401, "invalid_proof"),
        (|it| it["nonce"] = "another".into(), 401, "invalid_proof"),
        (|it| it["agentId"] = "another".into(), 401, "invalid_proof"),
        (
            |it| it["clientPubKey"]["kty"] = "EC".into(),
            401,
            "invalid_proof",
        ),
        (
            |it| it["clientPubKey"]["crv"] = "Ed448".into(),
            401,
            "invalid_proof",
        ),
        (
            |it| it["clientPubKey"]["x"] = "AAAA".into(),
            401,
            "invalid_proof",
        ),
        (
            |it| it["clientPubKey"] = Value::Null,
            400,
            "invalid_operation",
        ),
        (|it| it["nonce"] = "a|b".into(), 400, "invalid_operation"),
        (
            |it| it["nonce"] = "n".repeat(129).into(),
            400,
            "invalid_operation",
        ),
    ];
    for (edit, status, code) in cases {
        let mut body = far.introduction(&token, &fresh("n"));
        edit(&mut body);
        let answer = client.send("POST", EXCHANGE, &[], body.to_string()).await;
        answer.refused(*status, code);
        assert!(!answer.text.contains(&token), "{}", answer.text);
    }
    for wrong in ["sbi_", &"0".repeat(64), &format!("sbi_{}", "0".repeat(64))] {
        far.exchange(client, wrong)
            .await
            .refused(401, "invalid_invite");
    }
    let nodes = client
        .post("/runtime/v1/invites", json!({}))
        .await
        .expect(201);
    let nodes = text(&nodes, "inviteToken");
    far.exchange(client, &nodes)
        .await
        .refused(401, "invalid_invite");
    far.exchange(client, &token).await.expect(200);
    let told = client
        .get(&format!("{AUDIT}?limit=1000"))
        .await
        .expect(200)
        .to_string();
    assert!(
        !told.contains("sbi_") && !told.contains(&token[4..40]),
        "{told}"
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_token_that_is_wrong_in_any_way_opens_nothing() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let access = text(&far.admitted(client, ALL).await, "accessToken");
    let status = json!({ "operation": "ansible_status", "nonce": "n" });
    for wrong in [
        "x",
        &access[..access.len() - 4],
        &format!("{access}x"),
        &access.replacen("ey", "eY", 1),
        &format!("{access}{}", "A".repeat(8192)),
    ] {
        far.call(client, INVOKE, wrong, &status)
            .await
            .refused(401, "invalid_access_token");
    }
    let proof = far.sign(&far.proof(client, INVOKE, Some(&access)));
    for headers in [
        vec![("dpop", &*proof)],
        vec![("dpop", &*proof), ("authorization", "Bearer x")],
    ] {
        let answer = client
            .send("POST", INVOKE, &headers, status.to_string())
            .await;
        answer.refused(401, "invalid_access_token");
    }
    let shown = format!("DPoP {access}");
    for headers in [
        vec![("authorization", &*shown)],
        vec![
            ("authorization", &*shown),
            ("dpop", &*proof),
            ("dpop", &*proof),
        ],
    ] {
        let answer = client
            .send("POST", INVOKE, &headers, status.to_string())
            .await;
        answer.refused(401, "invalid_proof");
    }
    // At another door it is no token at all.
    let elsewhere = [("authorization", &*shown), ("dpop", &*proof)];
    let hmac = start_as(|config| config.auth = AuthMode::Hmac).await;
    let answer = hmac
        .client
        .send("GET", "/api/v1/status", &elsewhere, "")
        .await;
    answer.refused(401, "unauthenticated");
    // A token of another node.
    let there = text(&far.admitted(client, ALL).await, "accessToken");
    let answer = far.call(hmac.client, INVOKE, &there, &status).await;
    answer.refused(403, "node_mismatch");
    hmac.running.shutdown().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_proof_is_of_this_call_and_of_now() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let access = text(&far.admitted(client, ALL).await, "accessToken");
    type Edit = fn(&mut Value);
    let cases: &[Edit] = &[
        |it| it["htm"] = "GET".into(),
        |it| {
            it["htu"] = it["htu"]
                .as_str()
                .unwrap()
                .replace("invoke", "context-token")
                .into()
        },
        |it| it["htu"] = "https://elsewhere.example/ansible/agent/invoke".into(),
        |it| it["iat"] = (it["iat"].as_i64().unwrap() - 63).into(),
        |it| it["iat"] = (it["iat"].as_i64().unwrap() + 63).into(),
        |it| it["iat"] = f64::MAX.into(),
        |it| it["ath"] = "x".into(),
        |it| it["ath"] = Value::Null,
    ];
    for (at, edit) in cases.iter().enumerate() {
        let mut proof = far.proof(client, INVOKE, Some(&access));
        edit(&mut proof.claims);
        let body = json!({ "operation": "ansible_status", "nonce": fresh("n") });
        let answer = send(client, INVOKE, Some(&access), &far.sign(&proof), &body).await;
        assert_eq!(
            answer.refused(401, "invalid_proof")["success"],
            false,
            "{at}"
        );
    }
    let mut edge = far.proof(client, INVOKE, Some(&access));
    edge.claims["iat"] = (edge.claims["iat"].as_i64().unwrap() - 55).into();
    let body = json!({ "operation": "ansible_status", "nonce": fresh("n") });
    send(client, INVOKE, Some(&access), &far.sign(&edge), &body)
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_counts_once_counts_once_everywhere() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    // The nonce of an exchange, with another invite.
    let [one, two] = [
        invite(client, "far", ALL).await,
        invite(client, "far", ALL).await,
    ];
    let body = far.introduction(&one, "once");
    client
        .send("POST", EXCHANGE, &[], body.to_string())
        .await
        .expect(200);
    let body = far.introduction(&two, "once");
    client
        .send("POST", EXCHANGE, &[], body.to_string())
        .await
        .refused(409, "replay_detected");
    let tokens = far.exchange(client, &two).await.expect(200);
    // Of an invoke, also of one that the rules refused.
    let access = text(&tokens, "accessToken");
    let claim =
        json!({ "operation": "ansible_claim_task", "args": { "taskId": "none" }, "nonce": "m" });
    far.call(client, INVOKE, &access, &claim)
        .await
        .refused(404, "task_not_found");
    far.call(client, INVOKE, &access, &claim)
        .await
        .refused(409, "replay_detected");
    // Of a refresh: neither its nonce nor its proof, and the family goes on.
    let proof = far.sign(&far.proof(client, REFRESH, None));
    let body = json!({ "refreshToken": tokens["refreshToken"], "nonce": "r" });
    let next = send(client, REFRESH, None, &proof, &body).await.expect(200);
    send(client, REFRESH, None, &proof, &body)
        .await
        .refused(409, "replay_detected");
    let body = json!({ "refreshToken": next["refreshToken"], "nonce": fresh("n") });
    send(client, REFRESH, None, &proof, &body)
        .await
        .refused(409, "replay_detected");
    far.refresh(client, &text(&next, "refreshToken"))
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_no_scope_allows_is_denied() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let tokens = far
        .admitted(client, &["ansible.task.read", "ansible.message.send"])
        .await;
    let access = text(&tokens, "accessToken");
    for (operation, allowed) in [
        ("ansible_find_task", true),
        ("ansible_claim_task", false),
        ("ansible_status", false),
        ("ansible_read_messages", false),
        ("ansible_fly", false),
        ("", false),
        ("CLAIM", false),
    ] {
        let answer = far.invoke(client, &access, operation, json!({})).await;
        match allowed {
            true => drop(answer.expect(200)),
            false => drop(answer.refused(403, "scope_denied")),
        }
    }
    // Nobody speaks for others, whatever is said.
    client.register("near", &[]).await;
    let args =
        json!({ "toAgents": ["near"], "body": "b", "sourceAgentId": "near", "agentId": "near" });
    far.invoke(client, &access, "ansible_send_message", args)
        .await
        .expect(200);
    let mail = client
        .get("/api/v1/messages?agentId=near")
        .await
        .expect(200);
    assert_eq!(mail["messages"][0]["from"], "far");
    let wrong = far
        .invoke(client, &access, "ansible_send_message", json!({}))
        .await;
    wrong.refused(400, "invalid_operation");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_context_token_has_fewer_scopes_and_one_context() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let [task, other] = [client.task("its own").await, client.task("another").await];
    let tokens = far
        .admitted(client, &["ansible.task.claim", "ansible.message.read"])
        .await;
    let access = text(&tokens, "accessToken");
    let ask = json!({ "contextId": task, "scopes": ["ansible.task.claim"], "ttlSeconds": 60 });
    let context = far.call(client, CONTEXT, &access, &ask).await.expect(200);
    let context = text(&context, "contextToken");
    for (wrong, status, code) in [
        (
            json!({ "contextId": "c", "scopes": ["ansible.task.create"] }),
            403,
            "scope_denied",
        ),
        (
            json!({ "contextId": "c", "scopes": [] }),
            400,
            "invalid_operation",
        ),
        (
            json!({ "contextId": "", "scopes": ["ansible.task.claim"] }),
            400,
            "invalid_operation",
        ),
        (
            json!({ "contextId": "c", "scopes": ["ansible.task.claim"], "ttlSeconds": 301 }),
            400,
            "invalid_operation",
        ),
        (
            json!({ "contextId": "c", "scopes": ["ansible.task.claim"], "ttlSeconds": 59 }),
            400,
            "invalid_operation",
        ),
    ] {
        far.call(client, CONTEXT, &access, &wrong)
            .await
            .refused(status, code);
    }
    far.call(client, CONTEXT, &context, &ask)
        .await
        .refused(403, "scope_denied");
    let invoke = |operation: &str, args: Value, context_id: Option<&str>| {
        let body = json!({ "operation": operation, "args": args, "nonce": fresh("n"), "contextId": context_id });
        let (far, context) = (&far, context.clone());
        async move { far.call(client, INVOKE, &context, &body).await }
    };
    let claim = "ansible_claim_task";
    for (args, named) in [
        (json!({ "taskId": task }), None),
        (json!({ "taskId": task }), Some("another")),
        (json!({ "taskId": other }), Some(&*task)),
        (json!({}), Some(&*task)),
    ] {
        invoke(claim, args, named)
            .await
            .refused(403, "scope_denied");
    }
    invoke("ansible_read_messages", json!({}), Some(&task))
        .await
        .refused(403, "scope_denied");
    invoke(claim, json!({ "taskId": task }), Some(&task))
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn bodies_addresses_and_calls_a_minute_are_bounded() {
    let hub = start_as(|config| config.limits.enabled = true).await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let access = text(&far.admitted(client, ALL).await, "accessToken");
    for (over, status) in [(0, 200), (1, 413)] {
        let mut body = json!({ "operation": "ansible_status", "nonce": fresh("n"), "x": "" });
        let room = limits::EXTERNAL_BODY_BYTES_MAX - body.to_string().len() + over;
        body["x"] = "x".repeat(room).into();
        let answer = far.call(client, INVOKE, &access, &body).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let body =
        json!({ "agentId": "far", "scopes": ALL, "constraints": { "origins": ["192.0.2.0/24"] } });
    let elsewhere = text(&client.post(INVITES, body).await.expect(201), "inviteToken");
    far.exchange(client, &elsewhere)
        .await
        .refused(403, "scope_denied");
    // Two exchanges were made.
    for _ in 2..30 {
        far.exchange(client, "sbi_")
            .await
            .refused(401, "invalid_invite");
    }
    let refused = far.exchange(client, "sbi_").await;
    refused.refused(429, "rate_limited");
    assert!(refused.header("retry-after").is_some());
    far.refresh(client, "sbr_")
        .await
        .refused(429, "rate_limited");
    far.invoke(client, &access, "ansible_status", json!({}))
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn from_another_machine_tokens_travel_over_tls_or_not_at_all() {
    let proxies = vec!["127.0.0.1".parse().unwrap()];
    let hub = start_as(|config| config.http.trusted_proxies = proxies).await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let access = text(&far.admitted(client, ALL).await, "accessToken");
    let shown = format!("DPoP {access}");
    for (from, proto, is_taken) in [
        ("203.0.113.9", "http", false),
        ("203.0.113.9", "https", true),
        ("2001:db8::1", "http", false),
        ("127.0.0.1", "http", true),
        ("::1", "http", true),
    ] {
        for path in [EXCHANGE, REFRESH, INVOKE, CONTEXT] {
            let mut proof = far.proof(client, path, Some(&access));
            let said = proof.claims["htu"].as_str().unwrap();
            proof.claims["htu"] = said.replace("http:", &format!("{proto}:")).into();
            let proof = far.sign(&proof);
            let headers = [
                ("x-forwarded-for", from),
                ("x-forwarded-proto", proto),
                ("authorization", &*shown),
                ("dpop", &*proof),
            ];
            let body = json!({ "operation": "ansible_status", "nonce": fresh("n") }).to_string();
            let answer = client.send("POST", path, &headers, body).await;
            match (is_taken, path) {
                (false, _) => drop(answer.refused(403, "forbidden")),
                (true, INVOKE) => drop(answer.expect(200)),
                (true, _) => drop(answer.refused(400, "invalid_operation")),
            }
        }
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_page_from_elsewhere_is_none_of_them() {
    let hub = start().await;
    for path in [INVITES, EXCHANGE, REFRESH, INVOKE, CONTEXT] {
        let headers = [("origin", "https://evil.example")];
        let answer = hub.client.send("POST", path, &headers, "{}").await;
        answer.refused(421, "wrong_host");
    }
    hub.running.shutdown().await;
}

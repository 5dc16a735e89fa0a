//! The frames of the catalogue, one by one.

use serde_json::{Value, json};

use super::kit::{Client, address, broker, broker_as, checked, content, send};
use crate::world::eventually;

#[tokio::test]
async fn the_broker_welcomes_and_registers_under_canonical_names() {
    let hub = broker().await;
    let mut first = Client::dial(&hub, &[]).await.unwrap();
    let welcome = first.expect("welcome").await;
    assert_eq!(welcome["clientId"], 1);
    let table = [
        ("devops", "builder", json!("2")),
        ("1", "architect", json!("1")),
        ("Analyst", "oracle", json!("3")),
        ("bg-2-3", "builder-bg-3", json!("bg-2-3")),
        ("somebody", "somebody", Value::Null),
        ("user", "user", Value::Null),
    ];
    for (word, role, pane) in table {
        let mut client = Client::open(&hub).await;
        client
            .send(json!({ "type": "register", "role": word, "profileName": "p", "windowKey": "w", "sessionScopeId": "s", "newer": 1 }))
            .await;
        let expected = json!({
            "type": "registered", "paneId": pane, "role": role,
            "profileName": "p", "windowKey": "w", "sessionScopeId": "s",
        });
        assert_eq!(client.expect("registered").await, expected);
    }
}

#[tokio::test]
async fn a_role_is_an_agent_from_its_first_connection_on_and_an_unknown_one_never() {
    let hub = broker().await;
    let agents = async || {
        let list = hub.client.get("/api/v1/agents").await.expect(200);
        let all = list["agents"].as_array().unwrap().clone();
        let told = all.iter().map(|agent| {
            let word = |name: &str| agent[name].as_str().unwrap().to_owned();
            (word("id"), word("status"))
        });
        told.collect::<Vec<_>>()
    };
    let stranger = Client::role(&hub, "somebody").await;
    let slot = Client::role(&hub, "builder-bg-1").await;
    assert_eq!(agents().await, []);
    let client = Client::role(&hub, "builder").await;
    assert_eq!(agents().await, [("builder".to_owned(), "idle".to_owned())]);
    drop((client, stranger, slot));
    let is_away = async || agents().await == [("builder".to_owned(), "offline".to_owned())];
    eventually(is_away).await;
    let _back = Client::role(&hub, "2").await;
    assert_eq!(agents().await, [("builder".to_owned(), "idle".to_owned())]);
}

#[tokio::test]
async fn health_tells_healthy_stale_no_route_and_invalid_target() {
    let hub = broker().await;
    let mut client = Client::role(&hub, "architect").await;
    let _builder = Client::role(&hub, "builder").await;
    let mut ask = async |target: &str, stale_after: Value| {
        let asked = json!({ "type": "health-check", "target": target, "requestId": "h1", "staleAfterMs": stale_after });
        client.send(asked).await;
        client.expect("health-check-result").await
    };
    let healthy = ask("devops", json!(60_000)).await;
    assert_eq!(healthy["requestId"], "h1");
    assert_eq!(healthy["target"], "devops");
    for (member, value) in [
        ("healthy", json!(true)),
        ("status", json!("healthy")),
        ("role", json!("builder")),
        ("paneId", json!("2")),
        ("staleThresholdMs", json!(60_000)),
        ("source", json!("client_activity")),
    ] {
        assert_eq!(healthy[member], value, "{member}");
    }
    assert!(healthy["ageMs"].as_i64().unwrap() >= 0);
    assert!(healthy["lastSeen"].as_i64().unwrap() > 0);
    // It was silent for at least a moment before it was asked for.
    let is_stale = async || {
        let stale = ask("builder", json!(1)).await;
        stale["status"] == "stale" && stale["healthy"] == false
    };
    eventually(is_stale).await;
    let nobody = ask("oracle", json!(-1)).await;
    assert_eq!(
        (&nobody["status"], &nobody["staleThresholdMs"]),
        (&json!("no_route"), &json!(60_000))
    );
    assert_eq!(
        (&nobody["lastSeen"], &nobody["ageMs"], &nobody["source"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    for target in ["bg-2-1", "builder-bg-2"] {
        assert_eq!(
            ask(target, Value::Null).await["status"],
            "no_route",
            "{target}"
        );
    }
    for target in ["nobody", "", "builder-bg-4", "user", "telegram"] {
        let invalid = ask(target, Value::Null).await;
        assert_eq!(invalid["status"], "invalid_target", "{target}");
        assert_eq!(
            (&invalid["role"], &invalid["paneId"]),
            (&Value::Null, &Value::Null)
        );
    }
}

#[tokio::test]
async fn what_is_not_known_is_ignored_or_answered_if_it_asks() {
    let hub = broker().await;
    let mut client = Client::role(&hub, "builder").await;
    for noise in [
        "",
        "hello",
        "[1]",
        "7",
        "{}",
        "{\"type\":7}",
        "{\"type\":\"ping\"}",
    ] {
        client
            .raw(tokio_tungstenite::tungstenite::Message::text(noise))
            .await;
    }
    for kind in ["team-memory", "evidence-ledger"] {
        client
            .send(json!({ "type": kind, "action": "list", "requestId": "r1" }))
            .await;
        let answer = client.next().await.unwrap();
        let timestamp = answer["timestamp"].clone();
        let result = json!({ "ok": false, "status": "unsupported_action" });
        let expected = json!({ "type": "response", "requestId": "r1", "ok": true, "result": result, "timestamp": timestamp });
        assert_eq!(answer, expected);
    }
    client.send(json!({ "type": "register" })).await;
    let error = client.next().await.unwrap();
    assert_eq!(error["type"], "error");
    client
        .send(json!({ "type": "comms-event", "eventType": "comms.delivery.failed", "payload": {} }))
        .await;
    assert!(client.hears_no("error").await);
}

#[tokio::test]
async fn binary_frames_are_read_as_text() {
    let hub = broker().await;
    let mut client = Client::open(&hub).await;
    let frame = json!({ "type": "register", "role": "oracle" }).to_string();
    client
        .raw(tokio_tungstenite::tungstenite::Message::binary(
            frame.into_bytes(),
        ))
        .await;
    assert_eq!(client.expect("registered").await["role"], "oracle");
}

#[tokio::test]
async fn hub_json_and_metrics_tell_of_the_broker() {
    let hub = broker().await;
    let addr = address(&hub).to_string();
    let card = std::fs::read_to_string(hub.home.path().join(".switchboard/hub.json")).unwrap();
    let card: Value = serde_json::from_str(&card).unwrap();
    assert_eq!(
        (&card["broker"], &card["brokerTls"]),
        (&json!(addr), &json!(false))
    );
    let _client = Client::role(&hub, "builder").await;
    let metrics = hub.client.get("/metrics").await.text;
    for line in [
        "switchboard_broker_connections 1",
        "switchboard_broker_roles 1",
        "switchboard_broker_frames_total 1",
        "switchboard_broker_slow_total 0",
        "switchboard_broker_refused_total 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_configured_role_is_a_target_by_each_of_its_words() {
    let hub = broker_as(|config| {
        use switchboard_wire::squidrun::{Role, Roles};
        let reviewer = Role {
            id: "reviewer".to_owned(),
            pane: "4".to_owned(),
            aliases: vec!["review".to_owned()],
            skills: vec!["rust".to_owned()],
            ..Role::default()
        };
        config.broker.roles = std::sync::Arc::new(Roles::with(vec![reviewer]).unwrap());
    })
    .await;
    let mut reviewer = Client::role(&hub, "4").await;
    let mut architect = Client::role(&hub, "architect").await;
    for (id, word) in [("a", "reviewer"), ("b", "4"), ("c", "REVIEW")] {
        let ack = architect.say(word, id, &format!("({word} #1): x")).await;
        assert_eq!(ack["status"], "delivered.websocket", "{word}");
        assert_eq!(reviewer.expect("message").await["traceId"], id);
    }
    let agent = hub.client.get("/api/v1/agents/reviewer").await.expect(200);
    assert_eq!(
        agent["agent"]["capabilities"]["skills"],
        json!(["rust"]),
        "{agent}"
    );
}

#[tokio::test]
async fn delivery_check_tells_what_became_of_a_message() {
    let hub = broker().await;
    let mut client = Client::role(&hub, "architect").await;
    for (id, status) in [("", "invalid_message_id"), ("nothing", "unknown")] {
        let told = checked(&mut client, id).await;
        assert_eq!(
            (&told["status"], &told["known"]),
            (&json!(status), &json!(false))
        );
        assert_eq!(
            (&told["pending"], &told["ack"]),
            (&json!(false), &Value::Null)
        );
    }
    client.say("oracle", "m1", "(ARCH #1): x").await;
    let told = checked(&mut client, "m1").await;
    assert_eq!(
        (&told["status"], &told["known"], &told["ack"]["status"]),
        (
            &json!("cached"),
            &json!(true),
            &json!("accepted.unverified")
        )
    );
    // Whoever takes it later changes that.
    let mut oracle = Client::role(&hub, "oracle").await;
    let message = oracle.expect("message").await;
    assert_eq!(content(&message), "(ARCH #1): x");
    let mut is_taken =
        async || checked(&mut client, "m1").await["ack"]["status"] == "delivered.websocket";
    eventually(&mut is_taken).await;
    oracle
        .send(json!({ "type": "receipt", "traceId": "m1" }))
        .await;
    let mut is_verified =
        async || checked(&mut client, "m1").await["ack"]["status"] == "delivered.verified";
    eventually(&mut is_verified).await;
    client.send(send("nobody", "m2", "x")).await;
    let refused = client.expect("send-ack").await;
    assert_eq!(refused["status"], "invalid_target");
    let told = checked(&mut client, "m2").await;
    assert_eq!(
        (&told["known"], &told["ack"]["status"]),
        (&json!(true), &json!("invalid_target"))
    );
}

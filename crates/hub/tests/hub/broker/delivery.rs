//! What is said arrives, once, and its sender hears how.

use serde_json::{Value, json};
use switchboard_core::Door;
use switchboard_core::verb::Receive;

use super::kit::{Client, broker, checked, content, listens, send};
use crate::world::{Ledger, eventually};

#[tokio::test]
async fn a_message_arrives_and_its_sender_hears_that_it_was_written() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    let mut builder = Client::role(&hub, "builder").await;
    architect
        .send(json!({
            "type": "send", "target": "devops", "content": "(ARCH #5): [URGENT] look", "priority": "normal",
            "metadata": { "envelope_version": "hm-envelope-v1", "envelope": { "content": "again", "id": 7 }, "x": [1] },
            "messageId": "hm-1", "ackRequired": true, "attempt": 1, "maxAttempts": 4, "newer": true,
        }))
        .await;
    let message = builder.expect("message").await;
    for (member, value) in [
        ("from", json!("architect")),
        ("priority", json!("normal")),
        ("content", json!("(ARCH #5): [URGENT] look")),
        (
            "metadata",
            json!({ "envelope_version": "hm-envelope-v1", "envelope": { "id": 7 }, "x": [1] }),
        ),
        ("traceId", json!("hm-1")),
    ] {
        assert_eq!(message[member], value, "{member}");
    }
    assert!(message["timestamp"].as_i64().unwrap() > 0);
    assert!(message["eventId"].as_str().unwrap().starts_with("evt-"));
    let mut ack = architect.expect("send-ack").await;
    let latency = ack["ackLatencyMs"].as_u64().unwrap();
    assert!(latency < 60_000);
    assert!(ack["timestamp"].as_i64().unwrap() > 0);
    for varies in ["ackLatencyMs", "timestamp"] {
        ack[varies] = Value::Null;
    }
    let expected = json!({
        "type": "send-ack", "messageId": "hm-1", "ok": true, "accepted": true, "queued": true, "verified": true,
        "status": "delivered.websocket", "wsDeliveryCount": 1, "handlerResult": null, "traceId": "hm-1",
        "parentEventId": null, "timestamp": null, "ackLatencyMs": null,
    });
    assert_eq!(ack, expected);
}

#[tokio::test]
async fn every_word_for_a_target_reaches_the_same_role() {
    let hub = broker().await;
    let mut sender = Client::role(&hub, "user").await;
    let targets = [
        (
            "architect",
            &["architect", "1", "arch", "lead", "director"][..],
        ),
        (
            "builder",
            &[
                "builder",
                "2",
                "devops",
                "orchestrator",
                "infra",
                "infrastructure",
                "backend",
                "back",
                "worker-b",
                "implementer-b",
            ],
        ),
        ("oracle", &["oracle", "3", "analyst", "ana", "investigator"]),
    ];
    for (role, words) in targets {
        let mut client = Client::role(&hub, role).await;
        for word in words {
            let ack = sender.say(word, &format!("to-{word}"), word).await;
            assert_eq!(ack["status"], "delivered.websocket", "{word}");
            assert_eq!(content(&client.expect("message").await), *word);
        }
    }
}

#[tokio::test]
async fn what_nobody_took_yet_is_accepted_and_comes_with_the_next_connection() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    for (id, text) in [
        ("m1", "(ARCH #1): a"),
        ("m2", "(ARCH #2): b"),
        ("m3", "(ARCH #3): [URGENT] c"),
    ] {
        let ack = architect.say("oracle", id, text).await;
        let words = (
            &ack["status"],
            &ack["accepted"],
            &ack["verified"],
            &ack["ok"],
        );
        assert_eq!(
            words,
            (
                &json!("accepted.unverified"),
                &json!(true),
                &json!(false),
                &json!(false)
            )
        );
        assert_eq!(ack["wsDeliveryCount"], 0);
    }
    let mut oracle = Client::role(&hub, "oracle").await;
    for id in ["m3", "m1", "m2"] {
        assert_eq!(
            oracle.expect("message").await["traceId"],
            id,
            "urgent first"
        );
    }
    // Settled in the end: nothing comes a second time.
    let mut is_settled =
        async || checked(&mut architect, "m2").await["ack"]["status"] == "delivered.websocket";
    eventually(&mut is_settled).await;
    drop(oracle);
    let mut again = Client::role(&hub, "oracle").await;
    assert!(again.hears_no("message").await);
}

#[tokio::test]
async fn the_same_message_is_delivered_once_and_answered_alike() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    let mut builder = Client::role(&hub, "builder").await;
    let first = architect.say("builder", "m1", "(ARCH #1): a").await;
    assert_eq!(
        architect.say("builder", "m1", "(ARCH #1): a").await,
        first,
        "verbatim"
    );
    // Whoever brings it: another connection of the sender, too.
    let mut script = Client::role(&hub, "architect").await;
    assert_eq!(script.say("builder", "m1", "(ARCH #1): a").await, first);
    let copy = architect.say("builder", "m2", "(ARCH #1): a").await;
    assert_eq!(
        (&copy["messageId"], &copy["status"]),
        (&json!("m2"), &json!("delivered.websocket"))
    );
    assert_eq!(copy["dedupe"]["mode"], "signature_cache");
    assert_eq!(copy["dedupe"]["sourceMessageId"], "m1");
    let other = architect.say("builder", "m1", "(ARCH #2): another").await;
    assert_eq!(
        (&other["status"], &other["accepted"]),
        (&json!("invalid_message"), &json!(false))
    );
    assert_eq!(builder.expect("message").await["traceId"], "m1");
    assert!(builder.hears_no("message").await);
}

#[tokio::test]
async fn a_refused_message_reaches_nobody_and_is_on_record() {
    let hub = broker().await;
    let mut slot = Client::role(&hub, "builder-bg-1").await;
    let mut oracle = Client::role(&hub, "oracle").await;
    let mut builder = Client::role(&hub, "builder").await;
    for (id, target, status) in [
        ("m1", "oracle", "owner_binding_violation"),
        ("m2", "nobody", "invalid_target"),
        ("m3", "builder-bg-4", "invalid_target"),
    ] {
        let ack = slot.say(target, id, "(BUILDER-BG-1 #1): x").await;
        assert_eq!(
            (&ack["status"], &ack["accepted"]),
            (&json!(status), &json!(false)),
            "{target}"
        );
        assert!(ack["error"].is_string(), "{ack}");
        let told = checked(&mut slot, id).await;
        assert_eq!(told["ack"]["status"], status);
    }
    for target in ["builder", "2"] {
        let ack = slot.say(target, target, "(BUILDER-BG-1 #1): y").await;
        assert_eq!(ack["accepted"], true, "{ack}");
    }
    let ack = oracle.say("bg-2-1", "m4", "(ORACLE #1): z").await;
    assert_eq!(ack["status"], "owner_binding_violation");
    assert_eq!(builder.expect("message").await["from"], "builder-bg-1");
    assert!(oracle.hears_no("message").await);
}

#[tokio::test]
async fn a_broadcast_reaches_everyone_but_its_sender_and_slots() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    let mut slot = Client::role(&hub, "builder-bg-1").await;
    let mut others = [
        Client::role(&hub, "builder").await,
        Client::role(&hub, "oracle").await,
    ];
    architect
        .send(json!({ "type": "broadcast", "content": "(ARCH #1): roll call", "messageId": "b1", "ackRequired": true }))
        .await;
    let ack = architect.expect("send-ack").await;
    assert_eq!(
        (&ack["status"], &ack["wsDeliveryCount"]),
        (&json!("delivered.websocket"), &json!(2))
    );
    for other in &mut others {
        let frame = other.expect("broadcast").await;
        assert_eq!(
            (content(&frame), &frame["from"]),
            ("(ARCH #1): roll call", &json!("architect"))
        );
        assert_eq!(frame["traceId"], "b1");
    }
    assert!(architect.hears_no("broadcast").await);
    assert!(slot.hears_no("broadcast").await);
}

#[tokio::test]
async fn without_ack_required_there_is_no_ack_and_a_given_trace_is_kept() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    let mut builder = Client::role(&hub, "builder").await;
    architect
        .send(json!({ "type": "send", "target": "builder", "content": "x", "traceContext": { "traceId": "t-9", "parentEventId": "evt-1" } }))
        .await;
    let message = builder.expect("message").await;
    assert_eq!(
        (&message["traceId"], &message["metadata"]["unsequenced"]),
        (&json!("t-9"), &json!(true))
    );
    assert!(architect.hears_no("send-ack").await);
}

#[tokio::test]
async fn a_receipt_names_the_trace_also_on_the_next_connection() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    let mut builder = Client::role(&hub, "builder").await;
    for (id, trace) in [("m1", "t-10"), ("m2", "t-11")] {
        let mut traced = send("builder", id, id);
        traced["traceContext"] = json!({ "traceId": trace });
        architect.send(traced).await;
        assert_eq!(architect.expect("send-ack").await["traceId"], trace);
        assert_eq!(builder.expect("message").await["traceId"], trace);
    }
    for (id, trace) in [("m1", "t-10"), ("m2", "t-11")] {
        builder
            .send(json!({ "type": "receipt", "traceId": trace }))
            .await;
        let mut is_verified =
            async || checked(&mut architect, id).await["ack"]["status"] == "delivered.verified";
        eventually(&mut is_verified).await;
        drop(builder);
        let mut is_away = async || {
            let shown = hub.client.get("/api/v1/agents/builder").await.expect(200);
            shown["agent"]["status"] == "offline"
        };
        eventually(&mut is_away).await;
        builder = Client::role(&hub, "builder").await;
    }
}

#[tokio::test]
async fn all_connections_of_a_role_get_a_copy_and_its_own_sender_may_be_one() {
    let hub = broker().await;
    let mut one = Client::role(&hub, "builder").await;
    let mut two = Client::role(&hub, "2").await;
    let mut architect = Client::role(&hub, "architect").await;
    let ack = architect.say("builder", "m1", "x").await;
    assert_eq!(ack["wsDeliveryCount"], 2);
    for client in [&mut one, &mut two] {
        assert_eq!(client.expect("message").await["traceId"], "m1");
    }
    // A role writes to itself: nobody waits for anybody.
    let mut own = Client::role(&hub, "oracle").await;
    own.send(send("oracle", "m2", "note to self")).await;
    assert_eq!(own.expect("send-ack").await["accepted"], true);
}

#[tokio::test]
async fn mail_of_a_passing_sender_waits_for_whoever_stays() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    architect.say("builder", "m1", "for who stays").await;
    // A script of the builder: it registers, is handed the mail, asks and sends, and goes.
    let mut script = Client::role(&hub, "builder").await;
    assert_eq!(script.expect("message").await["traceId"], "m1");
    script
        .send(json!({ "type": "health-check", "target": "architect", "requestId": "h" }))
        .await;
    script.expect("health-check-result").await;
    script.say("architect", "m2", "(BUILDER #1): done").await;
    // While it is there, and after.
    architect.say("builder", "m3", "for who stays, too").await;
    assert!(script.hears_no("message").await);
    drop(script);
    let mut builder = Client::role(&hub, "builder").await;
    let mut came = [
        builder.expect("message").await,
        builder.expect("message").await,
    ];
    came.sort_by_key(|frame| frame["traceId"].to_string());
    assert_eq!(
        (&came[0]["traceId"], &came[1]["traceId"]),
        (&json!("m1"), &json!("m3"))
    );
}

#[tokio::test]
async fn who_sends_and_stays_gets_its_mail_in_the_end() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    let mut builder = Client::role(&hub, "builder").await;
    builder.say("architect", "m1", "(BUILDER #1): online").await;
    let ack = architect.say("builder", "m2", "welcome").await;
    assert_eq!(ack["status"], "accepted.unverified");
    assert_eq!(builder.expect("message").await["traceId"], "m2");
}

#[tokio::test]
async fn mail_crosses_dialects_both_ways() {
    let hub = broker().await;
    hub.client.register("jet", &["role:oracle"]).await;
    let mut builder = Client::role(&hub, "builder").await;
    let sent = json!({ "agentId": "jet", "message": { "to": "builder", "type": "custom", "payload": { "subject": "S", "body": "B" } } });
    let sent = hub.client.post("/api/v1/messages", sent).await;
    assert!(sent.status < 300, "{}", sent.text);
    let message = builder.expect("message").await;
    assert_eq!(message["from"], "jet");
    assert!(content(&message).ends_with("): S: B"), "{message}");
    assert!(content(&message).starts_with("(JET #"), "{message}");
    // To a role that an agent of another dialect holds.
    builder.say("oracle", "m1", "(BUILDER #1): hello").await;
    let received = hub.running.hub.run(Receive {
        agent: "jet".into(),
        kinds: Vec::new(),
        limit: 10,
        via: Door::Jetpack,
    });
    let received = received.await.unwrap();
    assert_eq!(received.len(), 1);
    assert!(received[0].message.payload.contains("(BUILDER #1): hello"));
}

#[tokio::test]
async fn a_recipient_at_another_coordinator_is_waited_for() {
    let ledger = Ledger::new();
    let (here, _) = ledger.coordinator_as(listens).await;
    let (there, _) = ledger.coordinator_as(listens).await;
    let mut architect = Client::role(&here, "architect").await;
    let mut builder = Client::role(&there, "builder").await;
    let ack = architect.say("builder", "m1", "(ARCH #1): x").await;
    assert_eq!(ack["accepted"], true);
    assert_eq!(builder.expect("message").await["traceId"], "m1");
    let mut is_taken =
        async || checked(&mut architect, "m1").await["ack"]["status"] == "delivered.websocket";
    eventually(&mut is_taken).await;
}

#[tokio::test]
async fn numbers_that_do_not_follow_are_delivered_and_told() {
    let hub = broker().await;
    let mut builder = Client::role(&hub, "builder").await;
    let mut architect = Client::role(&hub, "architect").await;
    for (id, text) in [
        ("a", "(ARCH #1): a"),
        ("b", "(ARCH #4): b"),
        ("c", "(ORACLE #5): c"),
    ] {
        architect.say("builder", id, text).await;
        assert_eq!(content(&builder.expect("message").await), text);
    }
    let incidents = hub.client.get("/api/v1/incidents").await.expect(200);
    let said = incidents.to_string();
    for kind in ["sequence_slip", "header_mismatch"] {
        assert!(said.contains(kind), "{said}");
    }
}

#[tokio::test]
async fn a_person_reads_what_was_sent_to_user() {
    // squidrun.route.user_terminal
    let hub = broker().await;
    let mut builder = Client::role(&hub, "builder").await;
    let ack = builder.say("user", "u1", "(BUILDER #1): for you").await;
    assert_eq!(ack["status"], "accepted.unverified");
    let mut user = Client::role(&hub, "user").await;
    assert_eq!(
        content(&user.expect("message").await),
        "(BUILDER #1): for you"
    );
    let ack = builder.say("user", "u2", "(BUILDER #2): and this").await;
    assert_eq!(ack["status"], "delivered.websocket");
    assert_eq!(
        content(&user.expect("message").await),
        "(BUILDER #2): and this"
    );
    let agents = hub.client.get("/api/v1/agents").await.expect(200);
    let ids = agents["agents"].as_array().unwrap().iter();
    let ids: Vec<&Value> = ids.map(|agent| &agent["id"]).collect();
    assert_eq!(ids, [&json!("builder")], "a person is no agent");
}

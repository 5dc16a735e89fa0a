//! Messages between agents of every dialect, to and from workers of the bus.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use super::kit::{MAIL, Peer, bus, hello};
use crate::harness::{Client, TestHub};
use crate::world::eventually;

/// Sends over HTTP, from the steward; it must be acknowledged.
async fn send(client: Client, id: &str, to: Option<&str>, payload: Value) {
    send_as(client, id, to, payload, true).await;
}

async fn send_as(client: Client, id: &str, to: Option<&str>, payload: Value, ack_required: bool) {
    let message = json!({
        "id": id, "to": to, "type": "custom", "payload": payload, "ackRequired": ack_required,
    });
    let sent = client
        .post("/api/v1/messages", json!({ "message": message }))
        .await;
    sent.expect(200);
}

async fn state(client: Client, message: &str, agent: &str) -> Value {
    let answer = client.get(&format!("/api/v1/messages/{message}")).await;
    let deliveries = answer.expect(200)["deliveries"].take();
    let mut deliveries = deliveries.as_array().unwrap().iter();
    let found = deliveries.find(|delivery| delivery["agentId"] == agent);
    found.unwrap()["state"].clone()
}

/// Counted as handed over a moment after it was written.
async fn until_delivered(client: Client, message: &str) {
    eventually(async || state(client, message, "w1").await == "delivered").await;
}

async fn received(client: Client, agent: &str) -> Vec<Value> {
    let path = format!("/api/v1/messages?agentId={agent}");
    let answer = client.get(&path).await.expect(200)["messages"].take();
    answer.as_array().unwrap().clone()
}

#[tokio::test]
async fn a_message_sent_over_http_reaches_a_worker_which_acknowledges_it() {
    let hub = bus().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    let message = json!({
        "id": "m1", "to": "w1", "type": "task.help_needed", "payload": { "text": "how?", "n": [1, 2.50] },
        "ackRequired": true, "corrId": "c-7",
    });
    let body = json!({ "agentId": "a1", "message": message });
    client.post("/api/v1/messages", body).await.expect(200);
    let mail = worker.expect("agent_message.v1").await;
    assert_eq!(
        (&mail["message_id"], &mail["from"]),
        (&json!("m1"), &json!("a1"))
    );
    assert_eq!(mail["type"], "task.help_needed");
    assert_eq!(mail["body"], json!({ "text": "how?", "n": [1, 2.50] }));
    assert_eq!(
        (&mail["ack_required"], &mail["corr_id"]),
        (&json!(true), &json!("c-7"))
    );
    worker.fence().await;
    until_delivered(client, "m1").await;
    worker
        .send("agent_message_ack.v1", json!({ "message_id": "m1" }))
        .await;
    worker.fence().await;
    assert_eq!(state(client, "m1", "w1").await, "acknowledged");
    // Of what is none of its own, it hears so.
    worker
        .send("agent_message_ack.v1", json!({ "message_id": "m2" }))
        .await;
    let failed = worker.expect("agent_message_ack.v1").await;
    assert_eq!(
        (&failed["message_id"], &failed["state"]),
        (&json!("m2"), &json!("failed"))
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_writes_to_agents_of_both_doors_and_hears_that_it_is_kept() {
    let hub = bus().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    let mut other = Peer::worker(&hub, "w2", MAIL).await;
    let mail = |id: &str, to: Option<&str>| {
        let mut mail = json!({
            "message_id": id, "from": "w1", "type": "custom", "body": { "text": id }, "ack_required": false,
        });
        if let Some(to) = to {
            mail["to"] = to.into();
        }
        mail
    };
    let kept = async |worker: &mut Peer, id: &str, state: &str| {
        let ack = worker.expect("agent_message_ack.v1").await;
        assert_eq!(
            (&ack["message_id"], &ack["state"]),
            (&json!(id), &json!(state)),
            "{ack}"
        );
        ack
    };
    worker
        .send("agent_message.v1", mail("m1", Some("a1")))
        .await;
    kept(&mut worker, "m1", "accepted").await;
    let got = received(client, "a1").await;
    assert_eq!(
        (&got[0]["id"], &got[0]["from"]),
        (&json!("m1"), &json!("w1"))
    );
    assert_eq!(got[0]["payload"], json!({ "text": "m1" }));

    worker
        .send("agent_message.v1", mail("m2", Some("w2")))
        .await;
    kept(&mut worker, "m2", "accepted").await;
    assert_eq!(other.expect("agent_message.v1").await["message_id"], "m2");
    // To everybody but the sender; sent twice, it is one.
    for _ in 0..2 {
        worker.send("agent_message.v1", mail("m3", None)).await;
        kept(&mut worker, "m3", "accepted").await;
    }
    assert_eq!(other.expect("agent_message.v1").await["message_id"], "m3");
    assert_eq!(received(client, "a1").await[0]["id"], "m3");
    other.fence().await;
    assert_eq!(other.came("agent_message.v1"), 0);
    worker.fence().await;
    assert_eq!(worker.came("agent_message.v1"), 0);

    let unknown = mail("m4", Some("nobody"));
    worker.send("agent_message.v1", unknown).await;
    let failed = kept(&mut worker, "m4", "failed").await;
    assert!(failed["reason"].is_string());
    // An id that another has used, and a sender that it is not.
    send(client, "m5", Some("w2"), json!({})).await;
    worker
        .send("agent_message.v1", mail("m5", Some("a1")))
        .await;
    kept(&mut worker, "m5", "failed").await;
    let mut forged = mail("m6", Some("a1"));
    forged["from"] = "w2".into();
    worker.send("agent_message.v1", forged).await;
    worker.refused("role_forbidden").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_message_waits_until_its_worker_is_there_and_takes_messages() {
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    send(client, "m1", Some("w1"), json!({})).await;
    worker.fence().await;
    assert_eq!(state(client, "m1", "w1").await, "queued");
    drop(worker);
    send(client, "m2", Some("w1"), json!({})).await;
    // Large ones are cut into parts, and come whole, however many wait.
    let text = "\"quoted\" ".repeat(20_000);
    for n in 3..9 {
        send(
            client,
            &format!("m{n}"),
            Some("w1"),
            json!({ "text": text }),
        )
        .await;
    }
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    let mut bodies: Vec<(String, String)> = Vec::new();
    for _ in 0..2 {
        let mail = worker.expect("agent_message.v1").await;
        assert_eq!((&mail["body"], &mail["part"]), (&json!({}), &Value::Null));
        bodies.push((
            mail["message_id"].as_str().unwrap().to_owned(),
            "{}".to_owned(),
        ));
    }
    while bodies.len() < 8 {
        let mut body = String::new();
        loop {
            let mail = worker.expect("agent_message.v1").await;
            assert!(worker.line_bytes <= 65_536);
            body.push_str(mail["body"].as_str().unwrap());
            if mail["part"] == mail["parts"] {
                bodies.push((mail["message_id"].as_str().unwrap().to_owned(), body));
                break;
            }
        }
    }
    for (place, (id, body)) in bodies.iter().enumerate() {
        assert_eq!(
            *id,
            format!("m{}", place + 1),
            "in the order they were sent"
        );
        let body: Value = serde_json::from_str(body).unwrap();
        assert!(place < 2 || body["text"] == *text);
    }
    worker.fence().await;
    until_delivered(client, "m8").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_of_both_doors_gets_each_message_through_one_of_them() {
    let hub = bus().await;
    let client = hub.client;
    client.register("w1", &[]).await;
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    let ids: BTreeSet<String> = (0..60).map(|n| format!("m{n}")).collect();
    let sending = async {
        for id in &ids {
            send(client, id, Some("w1"), json!({})).await;
        }
    };
    let fetching = async {
        let mut got = Vec::new();
        for _ in 0..30 {
            got.extend(received(client, "w1").await);
        }
        got
    };
    let ((), fetched) = tokio::join!(sending, fetching);
    eventually(async || {
        worker.fence().await;
        worker.came("agent_message.v1") + fetched.len() >= ids.len()
    })
    .await;
    let mut seen: Vec<String> = fetched
        .iter()
        .map(|message| &message["id"])
        .chain(
            worker
                .passed
                .iter()
                .map(|mail| &mail["payload"]["message_id"]),
        )
        .filter_map(|id| id.as_str().map(str::to_owned))
        .collect();
    seen.sort();
    assert_eq!(
        seen,
        ids.into_iter().collect::<Vec<_>>(),
        "each of them once"
    );
    hub.running.shutdown().await;
}

/// A worker whose system takes in next to nothing until it is read.
async fn reluctant(hub: &TestHub, id: &str) -> Peer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let addr = hub.running.bus_addr().unwrap();
    let mut peer = Peer::on(socket.connect(addr).await.unwrap());
    peer.greet("worker", id, hello(id, MAIL)).await;
    peer.expect("protocol_welcome.v1").await;
    peer
}

#[tokio::test]
async fn what_was_not_written_before_a_cut_is_handed_over_on_the_next_connection() {
    let hub = bus().await;
    let client = hub.client;
    let ids: Vec<String> = (0..40).map(|n| format!("m{n}")).collect();
    // Once the older connection ends by itself, once because a newer one is there.
    for (round, is_cut) in [(0, true), (1, false)] {
        let id = |place: usize| format!("{round}-{}", ids[place]);
        let mut older = Some(reluctant(&hub, "w1").await);
        // Much more than a system holds back for a reader that does not read.
        let text = "x".repeat(200_000);
        for place in 0..ids.len() {
            let payload = json!({ "text": text });
            send_as(client, &id(place), Some("w1"), payload, false).await;
        }
        if is_cut {
            older.take();
        }
        let mut newer = Peer::worker(&hub, "w1", MAIL).await;
        let mut handed = Vec::new();
        while handed.last() != Some(&id(39)) {
            let mail = newer.expect("agent_message.v1").await;
            if mail["part"] == mail["parts"] {
                handed.push(mail["message_id"].as_str().unwrap().to_owned());
            }
        }
        newer.fence().await;
        assert_eq!(newer.came("agent_message.v1"), 0);
        // Those that were written before come first in the queue; all after them are here, each once, in order.
        let missing = ids.len() - handed.len();
        assert!(missing < 20, "{missing}");
        let after: Vec<String> = (missing..ids.len()).map(id).collect();
        assert_eq!(handed, after);
        for place in 0..ids.len() {
            until_delivered(client, &id(place)).await;
        }
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_was_not_acknowledged_when_a_connection_ended_waits_for_whatever_door_comes_next() {
    let hub = bus().await;
    let client = hub.client;
    client.register("w1", &[]).await;
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    send(client, "m1", Some("w1"), json!({})).await;
    send_as(client, "m2", Some("w1"), json!({}), false).await;
    for _ in 0..2 {
        let mail = worker.expect("agent_message.v1").await;
        assert_eq!(mail["redelivered"], Value::Null);
    }
    for id in ["m1", "m2"] {
        until_delivered(client, id).await;
    }
    // The next connection, whether the older one has ended or not.
    let mut newer = Peer::worker(&hub, "w1", MAIL).await;
    let mail = newer.expect("agent_message.v1").await;
    assert_eq!(
        (&mail["message_id"], &mail["redelivered"]),
        (&json!("m1"), &json!(true))
    );
    until_delivered(client, "m1").await;
    newer.fence().await;
    assert_eq!(newer.came("agent_message.v1"), 0, "m2 asked for no receipt");
    // Another door.
    drop((worker, newer));
    let mut got = Vec::new();
    eventually(async || {
        got.extend(received(client, "w1").await);
        !got.is_empty()
    })
    .await;
    assert_eq!(
        (&got[0]["id"], &got[0]["redelivered"]),
        (&json!("m1"), &json!(true))
    );
    // What RECEIVE returned stays delivered.
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    worker.fence().await;
    assert_eq!(worker.came("agent_message.v1"), 0);
    assert_eq!(state(client, "m1", "w1").await, "delivered");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_worker_gets_the_most_urgent_message_first_and_the_delivery_says_how_it_went() {
    let hub = bus().await;
    let client = hub.client;
    client.register("w1", &[]).await;
    for (id, priority) in [("m1", None), ("m2", Some("low")), ("m3", Some("critical"))] {
        let mut message = json!({ "id": id, "to": ["w1"], "type": "custom", "payload": id });
        if let Some(priority) = priority {
            message["priority"] = priority.into();
        }
        let body = json!({ "message": message });
        client.post("/api/v1/messages", body).await.expect(200);
    }
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    for (id, priority) in [
        ("m3", json!("critical")),
        ("m1", Value::Null),
        ("m2", json!("low")),
    ] {
        let mail = worker.expect("agent_message.v1").await;
        assert_eq!(
            (&mail["message_id"], &mail["priority"]),
            (&json!(id), &priority)
        );
    }
    worker.fence().await;
    until_delivered(client, "m2").await;
    let shown = client.get("/api/v1/messages/m2").await.expect(200);
    let delivery = &shown["deliveries"][0];
    assert_eq!(
        (&delivery["via"], &delivery["priority"]),
        (&json!("bus"), &json!("low"))
    );
    assert_eq!(delivery["reason"], Value::Null);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_message_that_a_worker_will_not_have_fails_with_its_reason() {
    let hub = bus().await;
    let client = hub.client;
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    send(client, "m1", Some("w1"), json!("x")).await;
    worker.expect("agent_message.v1").await;
    worker.fence().await;
    until_delivered(client, "m1").await;
    let refusal = json!({ "message_id": "m1", "state": "failed", "reason": "no such pane" });
    worker.send("agent_message_ack.v1", refusal.clone()).await;
    worker.fence().await;
    assert_eq!(state(client, "m1", "w1").await, "failed");
    let shown = client.get("/api/v1/messages/m1").await.expect(200);
    let delivery = &shown["deliveries"][0];
    assert_eq!(
        (&delivery["via"], &delivery["reason"]),
        (&json!("bus"), &json!("no such pane"))
    );
    // It is final: neither a second word nor a reconnect brings it back.
    worker.send("agent_message_ack.v1", refusal).await;
    let told = worker.expect("agent_message_ack.v1").await;
    assert_eq!(told["state"], "failed");
    let ack = json!({ "agentId": "w1" });
    let late = client.post("/api/v1/messages/m1/ack", ack).await;
    late.expect(400);
    drop(worker);
    let mut again = Peer::worker(&hub, "w1", MAIL).await;
    again.fence().await;
    assert_eq!(again.came("agent_message.v1"), 0);
    hub.running.shutdown().await;
}

//! What a worker hears of the messages that it sent: that they are kept, that they are not, that they were acknowledged.

use serde_json::{Value, json};

use super::kit::{MAIL, Peer, bus};

fn mail(to: Option<&str>, body: Value) -> Value {
    json!({
        "message_id": "m1", "from": "w1", "to": to, "type": "custom", "body": body, "ack_required": true,
    })
}

/// Sends it and tells what becomes of it.
async fn say(worker: &mut Peer, mail: Value) -> Value {
    worker.send("agent_message.v1", mail).await;
    let ack = worker.expect("agent_message_ack.v1").await;
    assert_eq!(ack["message_id"], "m1");
    ack["state"].clone()
}

#[tokio::test]
async fn a_message_that_is_sent_again_is_the_same_and_another_under_its_id_fails() {
    let hub = bus().await;
    hub.client.register("a1", &[]).await;
    hub.client.register("a2", &[]).await;
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    let first = mail(Some("a1"), json!({ "n": 1 }));
    for _ in 0..2 {
        assert_eq!(say(&mut worker, first.clone()).await, "accepted");
    }
    let mut other_type = first.clone();
    other_type["type"] = json!("question");
    for other in [
        mail(Some("a1"), json!({ "n": 2 })),
        mail(Some("a2"), json!({ "n": 1 })),
        mail(None, json!({ "n": 1 })),
        other_type,
    ] {
        assert_eq!(say(&mut worker, other.clone()).await, "failed", "{other}");
    }
    assert_eq!(say(&mut worker, first).await, "accepted");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_sender_hears_who_acknowledged_its_message_at_whatever_door() {
    let hub = bus().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let mut worker = Peer::worker(&hub, "w1", MAIL).await;
    let mut other = Peer::worker(&hub, "w2", MAIL).await;
    assert_eq!(
        say(&mut worker, mail(None, json!("hello"))).await,
        "accepted"
    );

    other.expect("agent_message.v1").await;
    let ack = json!({ "message_id": "m1" });
    other.send("agent_message_ack.v1", ack.clone()).await;
    let heard = worker.expect("agent_message_ack.v1").await;
    assert_eq!(
        (&heard["message_id"], &heard["state"], &heard["by"]),
        (&json!("m1"), &json!("acknowledged"), &json!("w2"))
    );
    let path = "/api/v1/messages/m1/ack";
    client
        .post(path, json!({ "agentId": "a1" }))
        .await
        .expect(200);
    let heard = worker.expect("agent_message_ack.v1").await;
    assert_eq!(
        (&heard["state"], &heard["by"]),
        (&json!("acknowledged"), &json!("a1"))
    );
    // Once each; and whoever missed it asks by sending it again.
    other.send("agent_message_ack.v1", ack).await;
    other.fence().await;
    worker.fence().await;
    assert_eq!(worker.came("agent_message_ack.v1"), 0);
    let again = say(&mut worker, mail(None, json!("hello"))).await;
    assert_eq!(again, "acknowledged");
    hub.running.shutdown().await;
}

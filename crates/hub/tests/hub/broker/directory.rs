//! The broker and the directory `.squidrun/` together: one message by two paths, and what a session begins with.

use serde_json::{Value, json};

use super::kit::{Client, broker_as};
use crate::harness::TestHub;
use crate::squidrun_kit::Dir;
use crate::world::eventually;

async fn served() -> (TestHub, Dir) {
    let hub = broker_as(|config| config.squidrun.enabled = true).await;
    let dir = Dir::of(hub.home.path());
    (hub, dir)
}

fn sends(id: &str, content: &str) -> Value {
    json!({ "type": "send", "target": "builder", "content": content, "messageId": id, "ackRequired": true })
}

#[tokio::test]
async fn a_message_by_frame_and_by_file_arrives_once() {
    let (hub, dir) = served().await;
    let mut builder = Client::role(&hub, "builder").await;
    let mut architect = Client::role(&hub, "architect").await;
    architect
        .send(sends("m1", "(ARCH #1): by frame first"))
        .await;
    assert_eq!(
        architect.expect("send-ack").await["status"],
        "delivered.websocket"
    );
    assert_eq!(builder.expect("message").await["traceId"], "m1");
    dir.put("builder", "[HM-MESSAGE-ID:m1]\n(ARCH #1): by frame first\n");
    dir.is_taken("builder").await;
    dir.put("2", "[HM-MESSAGE-ID:m2]\n(ARCH #2): by file first\n");
    let message = builder.expect("message").await;
    assert_eq!(message["traceId"], "m2");
    assert_eq!(message["from"], "architect");
    assert_eq!(message["content"], "(ARCH #2): by file first");
    assert_eq!(message["metadata"]["fallback"], true);
    dir.is_taken("2").await;
    architect
        .send(sends("m2", "(ARCH #2): by file first"))
        .await;
    let ack = architect.expect("send-ack").await;
    assert_eq!(ack["accepted"], true, "{ack}");
    assert!(builder.hears_no("message").await);
    for id in ["m1", "m2"] {
        let row = dir.is_journaled(id, "routed").await;
        assert_eq!(row["ack_status"], "delivered.websocket", "{row}");
        assert_eq!(row["session_id"], "app-session-1");
    }
    builder
        .send(json!({ "type": "receipt", "traceId": "m2" }))
        .await;
    let row = dir.is_journaled("m2", "acked").await;
    assert_eq!(row["ack_status"], "delivered.verified");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_journal_shows_the_number_that_the_hub_gave() {
    let (hub, dir) = served().await;
    hub.client.register("jet", &[]).await;
    let mut builder = Client::role(&hub, "builder").await;
    for (id, expected) in [("h1", "(JET #1): h1"), ("h2", "(JET #2): h2")] {
        let message =
            json!({ "id": id, "to": "builder", "type": "custom", "payload": { "text": id } });
        let sent = json!({ "agentId": "jet", "message": message });
        let sent = hub.client.post("/api/v1/messages", sent).await;
        assert!(sent.status < 300, "{}", sent.text);
        assert_eq!(builder.expect("message").await["content"], expected);
        let row = dir.is_journaled(id, "routed").await;
        assert_eq!(row["raw_body"], expected);
        assert_eq!(row["session_id"], "app-session-1");
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_architect_that_connects_is_briefed_and_others_are_not() {
    let (hub, dir) = served().await;
    let mut builder = Client::role(&hub, "builder").await;
    assert!(
        dir.text("handoffs/session.md").is_some(),
        "it is there before anybody is answered"
    );
    let mut architect = Client::role(&hub, "architect").await;
    let briefing = architect.expect("message").await;
    assert_eq!(briefing["from"], "hub");
    assert_eq!(briefing["traceId"], "briefing-1");
    let content = briefing["content"].as_str().unwrap();
    assert!(
        content.starts_with("(HUB #1): Startup briefing"),
        "{content}"
    );
    assert!(builder.hears_no("message").await);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_a_client_did_by_itself_is_journaled_and_fails_no_message() {
    let (hub, dir) = served().await;
    let mut architect = Client::role(&hub, "architect").await;
    architect.send(sends("m1", "(ARCH #1): to come")).await;
    architect.expect("send-ack").await;
    dir.is_journaled("m1", "brokered").await;
    let failed = json!({ "messageId": "m1", "target": "builder", "fallbackUsed": true });
    let event = json!({
        "type": "comms-event", "eventType": "comms.delivery.failed", "payload": failed,
    });
    let told = |times: u32| {
        let query = "SELECT count(*) FROM comms_journal WHERE ack_status = 'comms.delivery.failed'
            AND status = 'acked' AND sender_role = 'architect' AND target_role = 'builder'
            AND raw_body LIKE '%\"fallbackUsed\":true%'";
        let count = dir
            .journal()
            .query_row(query, [], |row| row.get::<_, u32>(0));
        count.unwrap() == times
    };
    architect.send(event.clone()).await;
    eventually(async || dir.row("m1").unwrap()["ack_status"] == "fallback.triggered").await;
    assert_eq!(dir.row("m1").unwrap()["status"], "brokered");
    assert!(told(1));
    let mut builder = Client::role(&hub, "builder").await;
    assert_eq!(builder.expect("message").await["traceId"], "m1");
    dir.is_journaled("m1", "routed").await;
    // Late: it has arrived by now.
    architect.send(event).await;
    eventually(async || told(2)).await;
    let row = dir.row("m1").unwrap();
    assert_eq!(row["ack_status"], "delivered.websocket", "{row}");
    assert_eq!(row["status"], "routed");
    hub.running.shutdown().await;
}

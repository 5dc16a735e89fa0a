//! What those cost, and see, whom nobody knows yet.

use serde_json::json;
use switchboard_core::limits::{BODY_BYTES_MAX, UNKNOWN_BODIES_BYTES_MAX};
use switchboard_hub::config::AuthMode;
use switchboard_wire::signature::MasterKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Client, SOON, TestHub, registration, start_as, start_signed};
use crate::signer::{Signer, bearer, key, make_token, steward};
use crate::world::{Ledger, eventually};

/// Announces a body of the limit, sends so much of it, and no more.
async fn announce(client: Client, headers: &str, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(client.addr).await.unwrap();
    let head = format!(
        "POST /api/v1/protocol HTTP/1.1\r\nhost: {}\r\n{headers}content-length: {BODY_BYTES_MAX}\r\n\r\n",
        client.addr
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; sent]).await.unwrap();
    stream
}

async fn status_of(mut stream: TcpStream) -> String {
    let mut line = [0; 12];
    let read = tokio::time::timeout(SOON, stream.read_exact(&mut line)).await;
    read.expect("it is answered").unwrap();
    String::from_utf8(line.to_vec()).unwrap()
}

/// What the bodies of strangers take, by the hub's own figures.
async fn taken(hub: &TestHub, token: &str) -> usize {
    let figures = bearer(hub.client, "GET", "/metrics", token, json!({})).await;
    assert_eq!(figures.status, 200, "{}", figures.text);
    let line = |line: &str| {
        let figure = line.strip_prefix("switchboard_unknown_body_bytes ")?;
        figure.parse().ok()
    };
    figures.text.lines().find_map(line).unwrap()
}

#[tokio::test]
async fn a_body_that_was_only_announced_costs_what_was_sent_of_it() {
    let hub = start_signed().await;
    let token = steward(&hub).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(announce(hub.client, "", 1000).await);
    }
    let mut most = 0;
    eventually(async || {
        most = taken(&hub, &token).await;
        most >= 200 * 1000
    })
    .await;
    assert!(most <= 200 * 2 * 1000, "{most}");
    drop(idle);
    eventually(async || taken(&hub, &token).await == 0).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn strangers_share_one_room_and_whoever_is_known_needs_none() {
    let hub = start_signed().await;
    let token = steward(&hub).await;
    let key = key(&hub, &token, "a1").await;
    let by = |nonce| Signer {
        nonce,
        ..Signer::new("a1", &key)
    };
    let sent = BODY_BYTES_MAX - 1;
    let mut idle = Vec::new();
    for _ in 0..UNKNOWN_BODIES_BYTES_MAX / BODY_BYTES_MAX {
        idle.push(announce(hub.client, "", sent).await);
    }
    let full = UNKNOWN_BODIES_BYTES_MAX / BODY_BYTES_MAX * sent;
    eventually(async || taken(&hub, &token).await >= full).await;
    let one_more = announce(hub.client, "", 1000).await;
    assert_eq!(status_of(one_more).await, "HTTP/1.1 503");
    // Nearly every body comes in one piece, and needs no room.
    let path = "/api/v1/agents/register";
    by("1")
        .call(hub.client, "POST", path, &registration("a1", &[]))
        .await
        .expect(200);
    let large = json!({ "title": "T", "description": "x".repeat(200_000) });
    bearer(hub.client, "POST", "/api/v1/tasks", &token, large.clone())
        .await
        .expect(201);
    let signed = by("2")
        .call(hub.client, "POST", "/api/v1/tasks", &large)
        .await;
    signed.refused(503, "overloaded");
    assert_eq!(signed.header("retry-after"), Some("1"));
    assert!(taken(&hub, &token).await <= UNKNOWN_BODIES_BYTES_MAX);
    drop(idle);
    eventually(async || taken(&hub, &token).await == 0).await;
    by("3")
        .call(hub.client, "POST", "/api/v1/tasks", &large)
        .await
        .expect(201);
    assert_eq!(taken(&hub, &token).await, 0);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_wrong_token_is_refused_before_anything_of_the_body_came() {
    let hub = start_signed().await;
    let wrong = announce(hub.client, "authorization: Bearer wrong\r\n", 0).await;
    assert_eq!(status_of(wrong).await, "HTTP/1.1 401");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn figures_are_for_those_who_may_read_unless_they_are_public() {
    let hub = start_signed().await;
    hub.client
        .get("/metrics")
        .await
        .refused(401, "unauthenticated");
    for (scope, status) in [("viewer", 200), ("steward", 200), ("sql", 403)] {
        let token = make_token(&hub.running, scope).await;
        let figures = bearer(hub.client, "GET", "/metrics", &token, json!({})).await;
        assert_eq!(figures.status, status, "{scope}");
    }
    hub.running.shutdown().await;
    let public = start_as(|config| {
        config.auth = AuthMode::Hmac;
        config.metrics_are_public = true;
    })
    .await;
    assert_eq!(public.client.get("/metrics").await.status, 200);
    public.running.shutdown().await;
}

#[tokio::test]
async fn whether_the_ledger_is_ready_is_open_and_why_not_is_not() {
    let ledger = Ledger::new();
    for is_public in [false, true] {
        let coordinator = ledger.coordinator_as(|config| {
            config.auth = AuthMode::Hmac;
            config.metrics_are_public = is_public;
        });
        let (hub, world) = coordinator.await;
        assert_eq!(hub.client.get("/readyz").await.text, "ready\n");
        world.is_away(true);
        let says_why = |answer: crate::harness::Answer| {
            answer.refused(503, "db_unavailable");
            answer.text.contains("the test took it away")
        };
        assert_eq!(says_why(hub.client.get("/readyz").await), is_public);
        let own = MasterKey::new(ledger.key.lock().unwrap().unwrap()).steward_token();
        let told = bearer(hub.client, "GET", "/readyz", &own, json!({})).await;
        assert!(says_why(told));
        hub.running.shutdown().await;
    }
}

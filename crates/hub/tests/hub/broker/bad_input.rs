//! Whatever a client sends, it stops nobody else.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::kit::{Client, address, broker, broker_as, content};
use crate::world::eventually;

const KIB: usize = 1024;

/// A frame with so many bytes that means nothing.
fn padded(bytes: usize) -> String {
    let around = json!({ "type": "pad", "x": "" }).to_string().len();
    json!({ "type": "pad", "x": "a".repeat(bytes - around) }).to_string()
}

#[tokio::test]
async fn a_large_frame_is_refused_and_the_connection_goes_on() {
    let hub = broker().await;
    let mut client = Client::role(&hub, "builder").await;
    for (bytes, refused) in [
        (256 * KIB - 1, false),
        (256 * KIB, false),
        (256 * KIB + 1, true),
        (1024 * KIB, true),
    ] {
        client.raw(Message::text(padded(bytes))).await;
        if refused {
            let error = client.next().await.unwrap();
            assert_eq!(
                error,
                json!({ "type": "error", "message": "Message too large" }),
                "{bytes}"
            );
        }
        assert!(client.hears_no("error").await, "{bytes}");
    }
    client.raw(Message::text(padded(1024 * KIB + 1))).await;
    let end = client.ends().await.unwrap();
    assert_eq!(u16::from(end.code), 1009);
}

#[tokio::test]
async fn more_than_fifty_frames_a_second_are_refused_and_the_connection_goes_on() {
    let hub = broker_as(|config| config.limits.enabled = true).await;
    let mut client = Client::open(&hub).await;
    // Five seconds' worth at least, however slow this machine is.
    for _ in 0..300 {
        client
            .ws
            .feed(Message::text("{\"type\":\"noise\"}"))
            .await
            .unwrap();
    }
    client.ws.flush().await.unwrap();
    let error = client.expect("error").await;
    assert_eq!(error["message"], "Rate limit exceeded");
    let is_let_in = async || {
        client
            .send(json!({ "type": "register", "role": "builder" }))
            .await;
        loop {
            let frame = client.next().await.unwrap();
            match frame["type"].as_str() {
                Some("registered") => return true,
                Some("error") => tokio::time::sleep(Duration::from_millis(20)).await,
                _ => {}
            }
            if frame["message"] == "Rate limit exceeded" {
                return false;
            }
        }
    };
    eventually(is_let_in).await;
}

#[tokio::test]
async fn without_limits_nobody_is_too_fast() {
    let hub = broker().await;
    let mut client = Client::open(&hub).await;
    for _ in 0..300 {
        client
            .ws
            .feed(Message::text("{\"type\":\"noise\"}"))
            .await
            .unwrap();
    }
    client.ws.flush().await.unwrap();
    assert!(client.hears_no("error").await);
}

#[tokio::test]
async fn fragments_are_put_together_and_endless_ones_end_the_connection() {
    let hub = broker().await;
    let mut client = Client::open(&hub).await;
    let text = json!({ "type": "register", "role": "oracle" }).to_string();
    let (first, second) = text.split_at(9);
    let part = |text: &str, kind, last| {
        Message::Frame(Frame::message(text.to_owned(), OpCode::Data(kind), last))
    };
    client.raw(part(first, Data::Text, false)).await;
    client.raw(Message::Ping(vec![1].into())).await;
    client.raw(part(second, Data::Continue, true)).await;
    assert_eq!(client.expect("registered").await["role"], "oracle");
    client.raw(part("{\"type\":\"", Data::Text, false)).await;
    let piece = "x".repeat(64 * KIB);
    for _ in 0..64 {
        if client
            .ws
            .send(part(&piece, Data::Continue, false))
            .await
            .is_err()
        {
            break;
        }
    }
    if let Some(end) = client.ends().await {
        assert_eq!(u16::from(end.code), 1009);
    }
    let _other = Client::role(&hub, "oracle").await;
}

#[tokio::test]
async fn bytes_that_are_no_websocket_end_the_connection_alone() {
    let hub = broker().await;
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\0\xff\xfe",
        b"{\"type\":\"register\"}\n",
    ] {
        let mut socket = TcpStream::connect(address(&hub)).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest).await;
    }
    let mut client = Client::role(&hub, "builder").await;
    client
        .raw(Message::Frame(Frame::message(
            vec![0xff, 0xfe],
            OpCode::Data(Data::Text),
            true,
        )))
        .await;
    client.ends().await;
    let _other = Client::role(&hub, "builder").await;
}

#[tokio::test]
async fn a_half_open_connection_is_dropped_and_an_idle_one_that_answers_stays() {
    let hub = broker_as(|config| config.broker.ping_every = Duration::from_millis(200)).await;
    let mut idle = Client::role(&hub, "architect").await;
    // Reads nothing, answers no ping.
    let _dead = Client::role(&hub, "builder").await;
    let answers = tokio::spawn(async move {
        while let Some(Ok(message)) = idle.ws.next().await {
            drop(message);
        }
    });
    let agents = async || {
        let agent = hub.client.get("/api/v1/agents/builder").await.json();
        agent["agent"]["status"] == "offline"
    };
    eventually(agents).await;
    let architect = hub.client.get("/api/v1/agents/architect").await.json();
    assert_eq!(architect["agent"]["status"], "idle", "{architect}");
    answers.abort();
}

#[tokio::test]
async fn who_reads_nothing_is_dropped_and_keeps_its_mail() {
    let hub = broker().await;
    let slow = Client::role(&hub, "builder").await;
    let mut architect = Client::role(&hub, "architect").await;
    let body = "x".repeat(200 * KIB);
    let mut sent = 0;
    // Until the buffers of both sockets and the hub's own are full.
    let is_dropped = async || {
        sent += 1;
        let ack = architect
            .say("builder", &format!("m{sent}"), &format!("{sent} {body}"))
            .await;
        assert_eq!(ack["accepted"], true, "{ack}");
        let metrics = hub.client.get("/metrics").await.text;
        metrics.contains("switchboard_broker_slow_total 1")
    };
    eventually(is_dropped).await;
    drop(slow);
    let mut builder = Client::role(&hub, "builder").await;
    let message = builder.expect("message").await;
    assert!(content(&message).ends_with("xxx"));
    let last = format!("m{sent}");
    loop {
        if builder.expect("message").await["traceId"] == *last {
            break;
        }
    }
}

#[tokio::test]
async fn connections_are_bounded() {
    let hub = broker_as(|config| config.broker.connections_max = 2).await;
    let first = Client::role(&hub, "builder").await;
    let _second = Client::role(&hub, "oracle").await;
    assert!(Client::dial(&hub, &[]).await.is_err());
    drop(first);
    eventually(async || Client::dial(&hub, &[]).await.is_ok()).await;
}

#[tokio::test]
async fn a_thousand_idle_clients_hold_nobody_up() {
    let hub = broker().await;
    let mut crowd = Vec::new();
    for _ in 0..1000 {
        crowd.push(Client::dial(&hub, &[]).await.unwrap());
    }
    let mut builder = Client::role(&hub, "builder").await;
    let mut architect = Client::role(&hub, "architect").await;
    let ack = architect.say("builder", "m1", "x").await;
    assert_eq!(ack["status"], "delivered.websocket");
    builder.expect("message").await;
}

#[tokio::test]
async fn the_hub_says_goodbye_when_it_stops() {
    let hub = broker().await;
    let mut builder = Client::role(&hub, "builder").await;
    let mut architect = Client::role(&hub, "architect").await;
    architect.say("builder", "m1", "x").await;
    tokio::spawn(hub.running.shutdown());
    for client in [&mut builder, &mut architect] {
        let end = client.ends().await.unwrap();
        assert_eq!(u16::from(end.code), 1001);
    }
}

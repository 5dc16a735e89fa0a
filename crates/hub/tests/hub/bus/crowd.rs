//! Many connections, floods, and sockets that end without a word: nobody else notices.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;

use super::kit::{ASSIGN, Peer, bus, bus_as, entry, flagged, make, shown};
use crate::world::eventually;

#[tokio::test]
async fn a_thousand_connections_that_say_nothing_hold_nobody_up_and_are_let_go() {
    // agentbus.version.hello_first
    let hub = bus().await;
    let mut idle = Vec::new();
    for _ in 0..1000 {
        idle.push(Peer::open(&hub).await);
    }
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    for _ in 0..5 {
        let (id, number) = make(hub.client, json!({ "title": "T" })).await;
        worker.take_on(number).await;
        worker.beat("DONE", number).await;
        worker.fence().await;
        assert_eq!(shown(hub.client, &id).await["status"], "completed");
    }
    // A hello must come within five seconds.
    for peer in &mut idle {
        peer.refused("hello_required").await;
        peer.ended().await;
    }
    worker.fence().await;
    eventually(async || flagged(hub.client, "hello_late").await == 1000).await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_flood_is_rationed_then_cut_off_and_others_go_on() {
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    let mut flood = Peer::worker(&hub, "flood", &[]).await;
    let flooding = tokio::spawn(async move {
        let mut told = 0;
        for _ in 0..200 {
            let mut lines = String::new();
            for _ in 0..500 {
                let frame = flood.frame("weather_report.v1", &json!({}));
                lines.push_str(&format!("{frame}\n"));
            }
            if !flood.try_raw(lines.as_bytes()).await {
                break;
            }
        }
        while let Some(frame) = flood.next().await {
            assert_eq!(frame["payload"]["code"], "rate_limited", "{frame}");
            told += 1;
        }
        told
    });
    for _ in 0..5 {
        let (_, number) = make(hub.client, json!({ "title": "T" })).await;
        worker.take_on(number).await;
        worker.beat("DONE", number).await;
    }
    worker.fence().await;
    let told = flooding.await.unwrap();
    assert!(
        (1..=2).contains(&told),
        "when it begins and when it ends: {told}"
    );
    assert!(flagged(hub.client, "rate_limited").await > 1000);
    assert!(flagged(hub.client, "unknown_type").await >= 4000);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn connections_past_the_bound_are_closed_at_once_and_make_room_when_they_go() {
    let hub = bus_as(|config| config.bus.connections_max = 2).await;
    let first = Peer::worker(&hub, "w1", &[]).await;
    let mut second = Peer::worker(&hub, "w2", &[]).await;
    let mut third = Peer::open(&hub).await;
    assert_eq!(third.next().await, None);
    second.fence().await;
    drop(first);
    eventually(async || {
        let mut peer = Peer::open(&hub).await;
        peer.try_raw(b"{}\n").await;
        // One that was let in hears why it has to go.
        peer.next().await.is_some()
    })
    .await;
    second.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_connection_that_is_reset_is_noticed_and_its_worker_may_come_back() {
    let hub = bus().await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let socket = TcpStream::connect(hub.running.bus_addr().unwrap())
        .await
        .unwrap();
    socket.set_zero_linger().unwrap();
    let mut worker = Peer::on(socket);
    worker
        .greet("worker", "w1", super::kit::hello("w1", ASSIGN))
        .await;
    worker.expect("protocol_welcome.v1").await;
    let (id, number) = make(hub.client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["connected"] == true)
        .await;
    drop(worker);
    watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["connected"] == false)
        .await;
    let task = shown(hub.client, &id).await;
    assert_eq!(
        (&task["status"], &task["assignedAgent"]),
        (&json!("in_progress"), &json!("w1"))
    );
    let mut worker = Peer::worker(&hub, "w1", ASSIGN).await;
    worker.beat("DONE", number).await;
    worker.fence().await;
    assert_eq!(shown(hub.client, &id).await["status"], "completed");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_hub_that_stops_ends_every_connection_soon() {
    let hub = bus().await;
    let mut peers = Vec::new();
    for n in 0..20 {
        peers.push(Peer::worker(&hub, &format!("w{n}"), ASSIGN).await);
    }
    peers.push(Peer::operator(&hub, "o1").await);
    peers.push(Peer::open(&hub).await);
    let stopping = tokio::time::timeout(Duration::from_secs(10), hub.running.shutdown());
    stopping.await.expect("nobody holds it up");
    for peer in &mut peers {
        peer.ended().await;
    }
}

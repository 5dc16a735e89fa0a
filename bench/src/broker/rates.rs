//! Senders that each wait for the ack of one message before they send the next: beside a bare echo, and beside one that
//! keeps each message by a group commit.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use rusqlite::Connection;
use serde_json::json;
use tokio::task::{JoinSet, LocalSet};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::bare::{self, ECHO, KEEP};
use super::socket::Socket;
use crate::echo::Echo;
use crate::ground::{Ground, Place};
use crate::histogram::Histogram;
use crate::load::{Plan, Window};
use crate::report::{BrokerReport, SendRow, middle};

pub const HUB: &str = "hub, delivered and journaled";
const BARE_ECHO: &str = "bare echo";
const BARE_COMMIT: &str = "bare echo after a group commit";
const SENDERS: usize = 20;
/// A client that has been there for so long is no passing sender: what is written to it is settled at once.
const YOUNG_FOR: Duration = Duration::from_secs(11);
/// The journal follows the ledger.
const JOURNALED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Whom to send to.
#[derive(Clone, Copy)]
enum Server {
    Bare(SocketAddr, char),
    Hub(SocketAddr, u32),
}

struct Sent {
    messages: u64,
    latency: Histogram,
    per_s: f64,
}

pub fn measure(ground: &Ground<'_>, report: &mut BrokerReport) -> anyhow::Result<()> {
    let (settings, place) = (ground.settings, ground.new_hub()?);
    let broker = place.hub.broker.context("the hub has no broker")?;
    let home = settings.new_home()?;
    let database = home.path().join("kept.db");
    let database = database.to_str().context("the path is no text")?;
    let bare = Echo::start_as(&[bare::ARGUMENT, database])?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut rows, mut sent) = ([Vec::new(), Vec::new(), Vec::new()], 0);
    LocalSet::new().block_on(&runtime, async {
        let mut builder = Socket::register(broker, "builder").await?;
        tokio::task::spawn_local(async move { while builder.next().await.is_ok() {} });
        tokio::time::sleep(YOUNG_FOR).await;
        for round in 1..=settings.rounds {
            crate::progress(format_args!(
                "broker: {SENDERS} senders, round {round} of {}",
                settings.rounds
            ));
            let plan = settings.plan(settings.hub_for);
            let echo = run(Server::Bare(bare.server, ECHO), plan).await?;
            let kept = run(Server::Bare(bare.server, KEEP), plan).await?;
            place.hub.settle()?;
            let hub = run(Server::Hub(broker, round), plan).await?;
            sent += hub.messages;
            for (rows, (name, run)) in
                rows.iter_mut()
                    .zip([(BARE_ECHO, &echo), (BARE_COMMIT, &kept), (HUB, &hub)])
            {
                rows.push(row(name, run, &kept));
            }
        }
        anyhow::Ok(())
    })?;
    report.sends = rows.iter().map(|rows| middle(rows)).collect();
    journaled(&place, sent)
}

fn row(server: &str, run: &Sent, kept: &Sent) -> SendRow {
    let (p50_ms, p99_ms) = (run.latency.p50_ms(), run.latency.p99_ms());
    SendRow {
        server: server.to_owned(),
        senders: SENDERS,
        messages_per_s: run.per_s,
        p50_ms,
        p99_ms,
        to_commit: run.per_s / kept.per_s,
        p50_to_commit: p50_ms / kept.latency.p50_ms(),
        p99_to_commit: p99_ms / kept.latency.p99_ms(),
    }
}

async fn run(server: Server, plan: Plan) -> anyhow::Result<Sent> {
    let mut sockets = Vec::new();
    for number in 0..SENDERS {
        sockets.push(match server {
            Server::Bare(addr, _) => Socket::open(addr).await?,
            Server::Hub(addr, _) => Socket::register(addr, &format!("bench-{number}")).await?,
        });
    }
    let (window, messages) = (Window::starting_now(plan), Rc::new(Cell::new(0)));
    let mut running = JoinSet::new();
    for (number, socket) in sockets.into_iter().enumerate() {
        let messages = Rc::clone(&messages);
        running.spawn_local(send_on(socket, server, number, window, messages));
    }
    let mut latency = Histogram::default();
    while let Some(done) = running.join_next().await {
        for took in done.context("a sender panicked")?? {
            latency.record(took);
        }
    }
    ensure!(latency.total() > 0, "nothing was answered");
    Ok(Sent {
        messages: messages.get(),
        per_s: latency.total() as f64 / plan.measure_for.as_secs_f64(),
        latency,
    })
}

async fn send_on(
    mut socket: Socket,
    server: Server,
    number: usize,
    window: Window,
    messages: Rc<Cell<u64>>,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    for n in 1_u64.. {
        let (text, awaited) = frame(server, number, n);
        let sent_at = Instant::now();
        socket.send(text).await?;
        let answer = socket.hear(&awaited).await?;
        if let Server::Hub(..) = server {
            let is_delivered = answer.contains(r#""status":"delivered.websocket""#);
            ensure!(is_delivered, "not delivered: {answer}");
        }
        messages.set(messages.get() + 1);
        let now = Instant::now();
        if window.counts(now) {
            latencies.push(now - sent_at);
        }
        if now >= window.closes_at {
            break;
        }
    }
    Ok(latencies)
}

/// A frame, and what its answer has in it. Bare servers get as many bytes.
fn frame(server: Server, number: usize, n: u64) -> (Utf8Bytes, String) {
    let run = match server {
        Server::Bare(..) => 0,
        Server::Hub(_, round) => round,
    };
    // As send scripts make them: the time in front.
    let at_ms = SystemTime::now().duration_since(UNIX_EPOCH);
    let at_ms = at_ms.unwrap_or_default().as_millis();
    let id = format!("hm-{at_ms}-{number}.{n}");
    let frame = json!({
        "type": "send", "target": "builder", "priority": "normal", "messageId": id, "ackRequired": true, "attempt": 1,
        "maxAttempts": 4, "content": format!("(BENCH #{n}): sender {number} is done with part {n} of round {run}"),
    });
    let awaited = format!(r#""messageId":"{id}""#);
    match server {
        Server::Bare(_, letter) => (format!("{letter}{frame}").into(), awaited),
        Server::Hub(..) => (frame.to_string().into(), awaited),
    }
}

/// All of them are in the journal's file.
fn journaled(place: &Place, sent: u64) -> anyhow::Result<()> {
    let journal = Connection::open(place.squidrun().join("runtime/evidence-ledger.db"))?;
    let began_at = Instant::now();
    loop {
        let count = "SELECT count(*) FROM comms_journal WHERE message_id LIKE 'hm-%'";
        let count: i64 = journal.query_row(count, [], |row| row.get(0))?;
        if u64::try_from(count) == Ok(sent) {
            return Ok(());
        }
        ensure!(
            began_at.elapsed() < JOURNALED_WITHIN,
            "of {sent} messages {count} are in the journal"
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

//! A thousand clients: the memory of each while nothing is said, and when the last of them has what was said to all.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::bare::{self, CAST};
use super::socket::Socket;
use crate::bus::make_room;
use crate::echo::Echo;
use crate::ground::Ground;
use crate::histogram::Histogram;
use crate::report::{BrokerReport, ClientsRow, WaitRow};

pub const CLIENTS: usize = 1000;
pub const HUB_CAST: &str = "hub, broadcast";
pub const BARE_CAST: &str = "bare fan-out";
/// Everybody has heard by then.
const WITHIN: Duration = Duration::from_secs(20);
const ROUNDS: u32 = 20;

pub fn measure(ground: &Ground<'_>, report: &mut BrokerReport) -> anyhow::Result<()> {
    crate::progress(format_args!("broker: {CLIENTS} clients"));
    make_room(CLIENTS)?;
    let place = ground.new_hub()?;
    let hub = &place.hub;
    let broker = hub.broker.context("the hub has no broker")?;
    let home = ground.settings.new_home()?;
    let database = home.path().join("kept.db");
    let database = database.to_str().context("the path is no text")?;
    let bare = Echo::start_as(&[bare::ARGUMENT, database])?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let first = Socket::register(broker, "builder").await?;
        hub.settle()?;
        let fresh_mb = hub.resident_mb()?;
        let mut heard = crowd(broker, Some("builder")).await?;
        hub.settle()?;
        let connected_mb = hub.resident_mb()?;
        report.clients = Some(ClientsRow {
            clients: CLIENTS,
            fresh_mb,
            connected_mb,
            kb_per_connection: (connected_mb - fresh_mb) * 1e3 / CLIENTS as f64,
        });
        drop(first);
        let mut speaker = Socket::register(broker, "architect").await?;
        let frame = |round: u32| {
            let content = format!("(ARCH #{round}): round {round}");
            json!({ "type": "broadcast", "content": content, "messageId": format!("cast-{round}") })
                .to_string()
        };
        let hub = casts(&mut speaker, &mut heard, frame).await?;
        let mut heard = crowd(bare.server, None).await?;
        let mut speaker = Socket::open(bare.server).await?;
        let frame = |round: u32| format!("{CAST}{}", frame(round));
        let bare = casts(&mut speaker, &mut heard, frame).await?;
        report.casts = vec![WaitRow::new(BARE_CAST, &bare), WaitRow::new(HUB_CAST, &hub)];
        Ok(())
    })
}

/// Clients that tell when something came.
async fn crowd(
    server: SocketAddr,
    role: Option<&str>,
) -> anyhow::Result<UnboundedReceiver<Instant>> {
    let (tells, heard) = unbounded_channel();
    for _ in 0..CLIENTS {
        let mut socket = match role {
            Some(role) => Socket::register(server, role).await?,
            None => Socket::open(server).await?,
        };
        let tells = tells.clone();
        tokio::task::spawn_local(async move {
            while let Ok(text) = socket.next().await {
                if text.contains("cast") {
                    let _ = tells.send(Instant::now());
                }
            }
        });
    }
    Ok(heard)
}

/// How long it takes until the last client has it.
async fn casts(
    speaker: &mut Socket,
    heard: &mut UnboundedReceiver<Instant>,
    frame: impl Fn(u32) -> String,
) -> anyhow::Result<Histogram> {
    let mut took = Histogram::default();
    for round in 1..=ROUNDS {
        let frame = frame(round);
        let sent_at = Instant::now();
        speaker.send(frame).await?;
        let mut last = sent_at;
        for _ in 0..CLIENTS {
            let came = timeout(WITHIN, heard.recv()).await;
            last = came
                .context("not everybody heard it")?
                .context("all are gone")?;
        }
        took.record(last - sent_at);
    }
    Ok(took)
}

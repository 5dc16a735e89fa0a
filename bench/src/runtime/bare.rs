//! The same pages copied without rules: what is posted is kept by a group commit, read in pages over HTTP, and kept again by
//! one commit a page.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::nodes::EVENTS;
use crate::broker::bare::{Keeper, commit, keep, open};
use crate::connection::Connection;
use crate::echo;
use crate::http::Requests;

/// What the server's process is called with, before its directory.
pub const ARGUMENT: &str = "serve-pages";
/// Where it tells how many events were copied.
pub const TAKEN: &str = "/taken";
/// As many as a hub asks for.
const PAGE: usize = 256;

struct Source {
    keeper: Keeper,
    events: Mutex<Vec<Utf8Bytes>>,
    count: watch::Sender<usize>,
    taken: AtomicU64,
}

impl Source {
    fn events(&self) -> MutexGuard<'_, Vec<Utf8Bytes>> {
        self.events.lock().expect("nobody panicked")
    }
}

#[derive(Serialize, Deserialize)]
struct Page {
    events: Vec<Box<RawValue>>,
}

/// The child process; see [`echo::serve_until_orphaned`].
pub fn serve(directory: &std::path::Path) -> anyhow::Result<()> {
    let source = Arc::new(Source {
        keeper: keep(&directory.join("source.db"))?,
        events: Mutex::default(),
        count: watch::Sender::new(0),
        taken: AtomicU64::new(0),
    });
    let database = open(&directory.join("reader.db"))?;
    echo::serve_until_orphaned(async move |listener| {
        let (server, theirs) = (listener.local_addr()?, Arc::clone(&source));
        thread::spawn(move || {
            if let Err(error) = copy(server, database, &theirs) {
                eprintln!("pages: {error:#}");
            }
        });
        let router = Router::new()
            .route(EVENTS, post(publish))
            .route("/outbox/{after}", get(page))
            .route(TAKEN, get(taken))
            .with_state(source);
        echo::route(listener, router).await
    })
}

async fn publish(State(source): State<Arc<Source>>, text: String) -> StatusCode {
    let (out, mut kept) = mpsc::unbounded_channel();
    if source.keeper.send((text.into(), out)).is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    let Some(text) = kept.recv().await else {
        return StatusCode::INTERNAL_SERVER_ERROR;
    };
    let mut events = source.events();
    events.push(text);
    source.count.send_replace(events.len());
    StatusCode::CREATED
}

async fn page(State(source): State<Arc<Source>>, Path(after): Path<usize>) -> String {
    let mut count = source.count.subscribe();
    let _ = count.wait_for(|count| *count > after).await;
    let events = source.events();
    let rows = events[after..].iter().take(PAGE);
    let rows = rows.filter_map(|text| RawValue::from_string(text.to_string()).ok());
    let events = rows.collect();
    serde_json::to_string(&Page { events }).expect("events are JSON")
}

async fn taken(State(source): State<Arc<Source>>) -> String {
    source.taken.load(Ordering::Relaxed).to_string()
}

/// The other side: reads a page, keeps it, asks for the next.
fn copy(
    server: SocketAddr,
    mut database: rusqlite::Connection,
    source: &Source,
) -> anyhow::Result<()> {
    let (requests, mut connection) = (Requests::new(server), Connection::open(server)?);
    let mut after = 0;
    loop {
        let mut request = Vec::new();
        requests.get(&mut request, format_args!("/outbox/{after}"));
        let (_, answer) = connection.exchange(&request)?;
        let page: Page = serde_json::from_slice(&answer).context("that is no page")?;
        commit(&mut database, page.events.iter().map(|event| event.get()))?;
        after += page.events.len();
        source.taken.store(after as u64, Ordering::Relaxed);
    }
}

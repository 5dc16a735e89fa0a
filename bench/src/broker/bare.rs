//! The ceilings of the broker, on its own WebSocket, buffers and allocator: a server that sends back every frame, at once,
//! or after one group commit (SQLite, `synchronous=FULL`), or to everyone who is connected.
//!
//! A frame's first letter says which. It knows no role, no message and no delivery, so dividing by it says what these add.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

use anyhow::Context as _;
use futures_util::{SinkExt as _, StreamExt as _};
use rusqlite::Connection;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_tungstenite::accept_async_with_config;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::socket::config;
use crate::echo;

/// What the server's process is called with, before its database.
pub const ARGUMENT: &str = "serve-sockets";
/// Sent back at once, once it is kept, or to all.
pub const ECHO: char = 'E';
pub const KEEP: char = 'K';
pub const CAST: char = 'C';

type Out = UnboundedSender<Utf8Bytes>;
/// Takes what is to be kept, and sends it back when it is.
pub type Keeper = mpsc::Sender<(Utf8Bytes, Out)>;
type Everyone = Arc<Mutex<Vec<Out>>>;

/// The child process; see [`echo::serve_until_orphaned`].
pub fn serve(database: &Path) -> anyhow::Result<()> {
    let keeper = keep(database)?;
    echo::serve_until_orphaned(async move |listener| {
        let everyone = Everyone::default();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (keeper, everyone) = (keeper.clone(), Arc::clone(&everyone));
            tokio::spawn(async move {
                // A client that has seen enough goes without ado.
                let _ = answer(stream, keeper, everyone).await;
            });
        }
    })
}

async fn answer(stream: TcpStream, keeper: Keeper, everyone: Everyone) -> anyhow::Result<()> {
    let mut socket = accept_async_with_config(stream, Some(config())).await?;
    let (out, mut outgoing) = unbounded_channel::<Utf8Bytes>();
    let lock = || everyone.lock().expect("nobody panicked");
    lock().push(out.clone());
    loop {
        tokio::select! {
            Some(text) = outgoing.recv() => socket.send(Message::Text(text)).await?,
            read = socket.next() => {
                let Message::Text(text) = read.context("it is gone")?? else {
                    continue;
                };
                match text.chars().next() {
                    Some(KEEP) => keeper.send((text, out.clone()))?,
                    Some(CAST) => lock().retain(|out| out.send(text.clone()).is_ok()),
                    _ => socket.send(Message::Text(text)).await?,
                }
            }
        }
    }
}

/// One transaction for all that came meanwhile, then the answers.
pub fn keep(database: &Path) -> anyhow::Result<Keeper> {
    let mut database = open(database)?;
    let (keeper, waiting) = mpsc::channel::<(Utf8Bytes, Out)>();
    std::thread::spawn(move || {
        while let Ok(first) = waiting.recv() {
            let batch: Vec<(Utf8Bytes, Out)> =
                std::iter::once(first).chain(waiting.try_iter()).collect();
            if let Err(error) = commit(&mut database, batch.iter().map(|(text, _)| text.as_str())) {
                return eprintln!("bare: {error}");
            }
            for (text, out) in batch {
                let _ = out.send(text);
            }
        }
    });
    Ok(keeper)
}

/// A database in which every commit is durable.
pub fn open(database: &Path) -> anyhow::Result<Connection> {
    let database = Connection::open(database)?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    )?;
    Ok(database)
}

pub fn commit<'a>(
    database: &mut Connection,
    texts: impl Iterator<Item = &'a str>,
) -> rusqlite::Result<()> {
    let transaction = database.transaction()?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO kept (text) VALUES (?1)")?;
        for text in texts {
            insert.execute([text])?;
        }
    }
    transaction.commit()
}

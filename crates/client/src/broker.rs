//! The broker's client: a connection under a role, by which messages are sent and heard.

mod receiver;

pub use receiver::{Arrived, Heard, Receiver};

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::client::Client;
use crate::error::{Error, root};

/// How long the hub may take to greet, and to register a role.
const GREETING: Duration = Duration::from_secs(3);
/// How long an acknowledgement may take.
const ACK: Duration = Duration::from_millis(8500);
/// Tries under one id, and the first pause between two.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);
/// A connection that was silent for so long is sent a ping, and is over if it stays silent.
const SILENT_MAX: Duration = Duration::from_secs(30);
const BUFFER: usize = 4 * 1024;
const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// A connection that is registered under a role.
pub struct Broker {
    socket: WebSocketStream<reqwest::Upgraded>,
    /// The role as the hub calls it.
    pub role: String,
    /// Its pane; none if the hub does not know the role.
    pub pane: Option<String>,
    /// A ping waits for its answer.
    is_asked: bool,
}

/// Where the broker is, and who one is there.
#[derive(Clone, Debug)]
pub struct Address {
    /// `ws://host:port`, or `wss://`
    pub url: String,
    pub role: String,
    /// Whom to trust there, and the token to show.
    pub hub: Client,
}

/// What to send.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outgoing {
    pub target: String,
    pub content: String,
    pub priority: String,
    pub message_id: String,
}

/// What became of a message.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    #[serde(default)]
    pub message_id: Option<String>,
    pub accepted: bool,
    #[serde(default)]
    pub verified: bool,
    pub status: String,
    #[serde(default)]
    pub error: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    #[error("no broker answers at {url}: {why}")]
    Unreachable { url: String, why: String },
    /// It is not trusted, and heard nothing.
    #[error(transparent)]
    Hub(Error),
    #[error("no hub runs for this project")]
    NoHub,
    #[error("the broker refused the connection: {0}")]
    Refused(String),
    #[error("the broker closed the connection")]
    Closed,
    #[error("the broker did not answer in time")]
    Silent,
}

impl Broker {
    pub async fn connect(at: &Address) -> Result<Broker, BrokerError> {
        let limits = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER)
            .max_message_size(Some(FRAME_BYTES_MAX));
        let dialed = timeout(GREETING, at.hub.transport.upgrade(&at.url)).await;
        let dialed = dialed.map_err(|_| BrokerError::Silent)?;
        let stream = dialed.map_err(|error| at.failed(error))?;
        let mut broker = Broker {
            socket: WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await,
            role: at.role.clone(),
            pane: None,
            is_asked: false,
        };
        broker.expect("welcome", GREETING, |_| true).await?;
        broker
            .say(&json!({ "type": "register", "role": at.role }))
            .await?;
        let registered = broker.expect("registered", GREETING, |_| true).await?;
        if let Some(role) = registered["role"].as_str() {
            broker.role = role.to_owned();
        }
        broker.pane = registered["paneId"].as_str().map(str::to_owned);
        Ok(broker)
    }

    /// Sends a message, and waits for its acknowledgement.
    pub async fn send(&mut self, message: &Outgoing, attempt: u32) -> Result<Ack, BrokerError> {
        let mut frame = serde_json::to_value(message).unwrap_or_default();
        frame["type"] = json!("send");
        frame["ackRequired"] = json!(true);
        frame["attempt"] = json!(attempt);
        frame["maxAttempts"] = json!(TRIES);
        self.say(&frame).await?;
        let is_its = |ack: &Value| ack["messageId"] == *message.message_id;
        let ack = self.expect("send-ack", ACK, is_its).await?;
        serde_json::from_value(ack).map_err(|_| BrokerError::Silent)
    }

    /// Sends a request, and waits for the result in its response.
    pub async fn ask(&mut self, mut frame: Value) -> Result<Value, BrokerError> {
        const ID: &str = "ask";
        frame["requestId"] = json!(ID);
        self.say(&frame).await?;
        let is_its = |answer: &Value| answer["requestId"] == ID;
        let mut answer = self.expect("response", ACK, is_its).await?;
        Ok(answer["result"].take())
    }

    /// The next frame that the hub sends; `None` once the connection is over.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let Ok(message) = timeout(SILENT_MAX, self.socket.next()).await else {
                if std::mem::replace(&mut self.is_asked, true) {
                    return None;
                }
                let ping = Message::Ping(Bytes::new());
                self.socket.send(ping).await.ok()?;
                continue;
            };
            self.is_asked = false;
            match message? {
                Ok(Message::Text(text)) => {
                    if let Ok(frame) = serde_json::from_str(&text) {
                        return Some(frame);
                    }
                }
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    async fn say(&mut self, frame: &Value) -> Result<(), BrokerError> {
        let sent = self.socket.send(Message::text(frame.to_string())).await;
        sent.map_err(|_| BrokerError::Closed)
    }

    /// The first frame of this type; others are passed over.
    async fn expect(
        &mut self,
        kind: &str,
        within: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value, BrokerError> {
        let until = Instant::now() + within;
        loop {
            let frame = timeout_at(until, self.next()).await;
            let frame = frame.map_err(|_| BrokerError::Silent)?;
            let frame = frame.ok_or(BrokerError::Closed)?;
            if frame["type"] == "error" {
                let why = frame["message"].as_str().unwrap_or_default();
                return Err(BrokerError::Refused(why.to_owned()));
            }
            if frame["type"] == kind && is_it(&frame) {
                return Ok(frame);
            }
        }
    }

    /// Says goodbye.
    pub async fn close(mut self) {
        let _ = timeout(GREETING, self.socket.close(None)).await;
    }
}

/// The address at which a WebSocket begins, as HTTP.
pub fn over_http(url: &str) -> String {
    match url.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        _ => url.to_owned(),
    }
}

impl Address {
    fn failed(&self, error: Error) -> BrokerError {
        let url = self.url.clone();
        let why = match error {
            Error::Untrusted { reason, .. } => {
                let address = url;
                return BrokerError::Hub(Error::Untrusted { address, reason });
            }
            Error::Unproven { .. } | Error::Invalid(_) => return BrokerError::Hub(error),
            Error::NotHttp { .. } => {
                "it does not speak plain HTTP; with TLS its address begins with wss://".to_owned()
            }
            Error::Unreachable { source, .. } => root(&source),
            Error::Refused { message: why, .. } | Error::Unreadable { reason: why, .. } => why,
        };
        BrokerError::Unreachable { url, why }
    }
}

/// Sends one message on a connection of its own, and tries again under the same id while nobody answers.
pub async fn send(at: &Address, message: &Outgoing) -> Result<Ack, BrokerError> {
    let mut pause = PAUSE;
    for attempt in 1.. {
        let tried = async {
            let mut broker = Broker::connect(at).await?;
            let ack = broker.send(message, attempt).await;
            broker.close().await;
            ack
        };
        match tried.await {
            Err(BrokerError::Closed | BrokerError::Silent | BrokerError::Unreachable { .. })
                if attempt < TRIES =>
            {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            outcome => return outcome,
        }
    }
    unreachable!("the last try returns")
}

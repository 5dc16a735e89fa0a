//! A client of the broker, as small as it gets: frames out, frames in, each with a deadline.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use switchboard_hub::config::Config;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::harness::{TestHub, start_as};

/// Longer than the ten seconds after which a sender that stays is a recipient.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A hub with a broker on a free port.
pub async fn broker() -> TestHub {
    broker_as(|_| {}).await
}

pub async fn broker_as(change: impl FnOnce(&mut Config)) -> TestHub {
    start_as(|config| {
        listens(config);
        change(config);
    })
    .await
}

pub fn listens(config: &mut Config) {
    config.broker.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
}

pub fn address(hub: &TestHub) -> SocketAddr {
    hub.running.broker_addr().unwrap()
}

pub struct Client {
    pub ws: WebSocketStream<TcpStream>,
    /// Frames that came and that nobody has asked for yet.
    passed: VecDeque<Value>,
}

impl Client {
    /// A handshake with these headers.
    pub async fn dial(hub: &TestHub, headers: &[(&str, &str)]) -> Result<Client, Error> {
        let addr = address(hub);
        let mut request = format!("ws://{addr}/").into_client_request().unwrap();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().insert(name, value);
        }
        let socket = TcpStream::connect(addr).await.unwrap();
        let (ws, _) = client_async(request, socket).await?;
        let passed = VecDeque::new();
        Ok(Client { ws, passed })
    }

    /// A connection that was welcomed.
    pub async fn open(hub: &TestHub) -> Client {
        let mut client = Client::dial(hub, &[]).await.unwrap();
        client.expect("welcome").await;
        client
    }

    /// One that was registered under a role.
    pub async fn role(hub: &TestHub, role: &str) -> Client {
        let mut client = Client::open(hub).await;
        client
            .send(json!({ "type": "register", "role": role }))
            .await;
        client.expect("registered").await;
        client
    }

    pub async fn send(&mut self, frame: Value) {
        self.raw(Message::text(frame.to_string())).await;
    }

    pub async fn raw(&mut self, message: Message) {
        self.ws.send(message).await.unwrap();
    }

    /// The next frame of this type; others stay for later.
    pub async fn expect(&mut self, kind: &str) -> Value {
        let known = self.passed.iter().position(|frame| frame["type"] == *kind);
        if let Some(frame) = known.and_then(|at| self.passed.remove(at)) {
            return frame;
        }
        loop {
            let next = self.next().await;
            let next = next.unwrap_or_else(|end| panic!("no {kind}: {end:?}"));
            if next["type"] == *kind {
                return next;
            }
            self.passed.push_back(next);
        }
    }

    /// The next frame, or how the connection ended.
    pub async fn next(&mut self) -> Result<Value, Option<CloseFrame>> {
        let came = async {
            loop {
                match self.ws.next().await {
                    Some(Ok(Message::Text(text))) => break Ok(text),
                    Some(Ok(Message::Close(close))) => break Err(close),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break Err(None),
                }
            }
        };
        // However many pings come meanwhile.
        let came = timeout(PATIENCE, came).await.expect("a frame in time");
        came.map(|text| serde_json::from_str(&text).unwrap())
    }

    /// Whether nothing of this type came before the answer to a request that is sent now.
    pub async fn hears_no(&mut self, kind: &str) -> bool {
        self.send(json!({ "type": "echo", "requestId": "last" }))
            .await;
        self.expect("response").await;
        self.passed.iter().all(|frame| frame["type"] != *kind)
    }

    /// How the connection ends; frames before that are dropped.
    pub async fn ends(&mut self) -> Option<CloseFrame> {
        loop {
            if let Err(end) = self.next().await {
                return end;
            }
        }
    }

    /// Says something, and what it is told of it.
    pub async fn say(&mut self, target: &str, id: &str, content: &str) -> Value {
        self.send(send(target, id, content)).await;
        self.expect("send-ack").await
    }
}

pub fn send(target: &str, id: &str, content: &str) -> Value {
    json!({
        "type": "send", "target": target, "content": content, "priority": "normal",
        "messageId": id, "ackRequired": true, "attempt": 1, "maxAttempts": 4,
    })
}

/// The content of a message that came.
#[track_caller]
pub fn content(frame: &Value) -> &str {
    frame["content"]
        .as_str()
        .unwrap_or_else(|| panic!("{frame}"))
}

/// What the ledger says became of a message, as its sender asks.
pub async fn checked(client: &mut Client, id: &str) -> Value {
    client
        .send(json!({ "type": "delivery-check", "requestId": "d", "messageId": id }))
        .await;
    client.expect("delivery-check-result").await
}

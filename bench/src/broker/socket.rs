//! One client of the broker, or of a bare server; nothing on it takes longer than a deadline.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// Whatever takes longer never comes.
const WITHIN: Duration = Duration::from_secs(20);
/// As the hub has it.
const BUFFER_BYTES: usize = 4 * 1024;

pub fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
}

pub struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    pub async fn open(server: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let url = format!("ws://{server}/");
        let shaken = client_async_with_config(url, stream, Some(config()));
        let (socket, _) = timeout(WITHIN, shaken)
            .await
            .context("no handshake came")??;
        Ok(Self(socket))
    }

    /// A client of the hub under this name.
    pub async fn register(server: SocketAddr, role: &str) -> anyhow::Result<Self> {
        let mut socket = Self::open(server).await?;
        let register = json!({ "type": "register", "role": role }).to_string();
        socket.send(register).await?;
        socket.hear(r#""type":"registered""#).await?;
        Ok(socket)
    }

    pub async fn send(&mut self, text: impl Into<Utf8Bytes>) -> anyhow::Result<()> {
        Ok(self.0.send(Message::Text(text.into())).await?)
    }

    /// The next frame that has this in it.
    pub async fn hear(&mut self, what: &str) -> anyhow::Result<Utf8Bytes> {
        let heard = async {
            loop {
                let text = self.next().await?;
                if text.contains(what) {
                    return anyhow::Ok(text);
                }
            }
        };
        let heard = timeout(WITHIN, heard).await;
        heard.with_context(|| format!("{what} did not come"))?
    }

    pub async fn next(&mut self) -> anyhow::Result<Utf8Bytes> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => bail!("the server closed the connection"),
            }
        }
    }
}

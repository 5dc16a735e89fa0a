//! How a connection begins: TLS where it is served, then the handshake of WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Response as HttpResponse, StatusCode, header};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use super::connection;
use super::state::Broker;
use crate::accept::{self, Bound};

/// A larger frame ends the connection.
const FRAME_BYTES_MAX: usize = 1024 * 1024;
/// Read and written at a time.
const BUFFER_BYTES: usize = 4 * 1024;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// A socket, with or without TLS.
pub(super) type Pipe = Box<dyn Io>;

pub(super) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A connection that may begin, and the credential that came with its handshake.
pub(super) struct Shaken {
    pub ws: WebSocketStream<Pipe>,
    pub shown: Option<Box<[u8]>>,
}

pub(super) async fn accept(broker: Arc<Broker>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let bound = Bound {
        of: "the broker",
        open: Arc::clone(&broker.connections),
        max: broker.config.connections_max,
    };
    let stopping = broker.stopping.clone();
    accept::accept(listener, bound, stopping, |socket| {
        one(Arc::clone(&broker), socket, tls.clone())
    })
    .await;
}

async fn one(broker: Arc<Broker>, socket: TcpStream, tls: Option<TlsAcceptor>) {
    let begun = tokio::select! {
        begun = timeout(HANDSHAKE_WITHIN, begin(&broker, socket, tls)) => begun,
        () = broker.stopping.cancelled() => return,
    };
    match begun {
        Ok(Ok(shaken)) => connection::serve(broker, shaken).await,
        Ok(Err(why)) => tracing::debug!("a connection to the broker was refused: {why}"),
        Err(_) => tracing::debug!("a connection to the broker was closed: the handshake timed out"),
    }
}

async fn begin(
    broker: &Broker,
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
) -> Result<Shaken, String> {
    let local = socket.local_addr().map_err(|error| error.to_string())?;
    let pipe: Pipe = match tls {
        None => Box::new(socket),
        Some(tls) => Box::new(
            tls.accept(socket)
                .await
                .map_err(|error| error.to_string())?,
        ),
    };
    shake(broker, pipe, local).await
}

async fn shake(broker: &Broker, pipe: Pipe, local: SocketAddr) -> Result<Shaken, String> {
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX));
    let mut shown = None;
    // The error is as large as the crate makes it.
    #[allow(clippy::result_large_err)]
    let look = |request: &Request, response: Response| {
        if let Err(why) = broker.check(request, local) {
            return Err(refusal(why));
        }
        let header = request.headers().get(header::AUTHORIZATION);
        shown = header.map(|value| value.as_bytes().into());
        Ok(response)
    };
    let shaken = accept_hdr_async_with_config(pipe, look, Some(config)).await;
    let ws = shaken.map_err(|error| error.to_string())?;
    Ok(Shaken { ws, shown })
}

fn refusal(why: String) -> ErrorResponse {
    let mut refusal = HttpResponse::new(Some(why));
    *refusal.status_mut() = StatusCode::FORBIDDEN;
    refusal
}

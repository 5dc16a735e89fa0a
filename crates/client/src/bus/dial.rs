//! The way to the director: TCP, and TLS over it where files for that are given.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::error::BusError;
use super::tls;

/// Connecting, with TLS, may take so long.
pub(super) const DIAL_WITHIN: Duration = Duration::from_secs(10);
/// Bytes that the other side does not confirm for so long end the connection: it is gone without a word.
#[cfg(target_os = "linux")]
const UNCONFIRMED_MAX: Duration = Duration::from_secs(30);

/// Bytes both ways.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

pub(super) type Dialing<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn Socket>, BusError>> + Send + 'a>>;

/// Makes connections to one director.
pub(super) trait Dial: Send + Sync {
    fn addr(&self) -> &str;

    fn dial(&self) -> Dialing<'_>;
}

/// The three files of a sender under mutual TLS; read anew with each connection, so that replaced ones are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
}

/// A director at an address.
pub(super) struct Endpoint {
    pub addr: String,
    pub tls: Option<TlsFiles>,
}

impl Dial for Endpoint {
    fn addr(&self) -> &str {
        &self.addr
    }

    fn dial(&self) -> Dialing<'_> {
        Box::pin(async move {
            match timeout(DIAL_WITHIN, self.reach()).await {
                Ok(reached) => reached,
                Err(_) => Err(BusError::Unreachable {
                    addr: self.addr.clone(),
                    source: Arc::new(io::ErrorKind::TimedOut.into()),
                }),
            }
        })
    }
}

impl Endpoint {
    async fn reach(&self) -> Result<Box<dyn Socket>, BusError> {
        let failed = |error| BusError::of_dialing(&self.addr, error);
        let stream = TcpStream::connect(&self.addr).await.map_err(failed)?;
        settle(&stream).map_err(failed)?;
        let Some(files) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let config = tls::client_config(&files.cert, &files.key, &files.ca)
            .map_err(|error| BusError::Tls(Arc::new(error)))?;
        let connect = TlsConnector::from(config).connect(tls::director(), stream);
        Ok(Box::new(connect.await.map_err(failed)?))
    }
}

/// Frames are small and go at once, and a director that vanished is noticed.
fn settle(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::net::sockopt;

        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, UNCONFIRMED_MAX)?;
        let millis = u32::try_from(UNCONFIRMED_MAX.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, millis)?;
    }
    Ok(())
}

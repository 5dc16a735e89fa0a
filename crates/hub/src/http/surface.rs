//! HTTP in the table of doors.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::json;
use tokio::task::JoinHandle;

use super::App;
use super::accept::Server;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::serve::{GRACE, ServeError, listen};
use crate::surface::{Open, Opener, Surface};
use crate::tls;

pub(crate) const SURFACE: Surface = Surface {
    check: |config| config.check_address().map(drop),
    ..Surface::new("http", bind)
};

/// Bound before the ledger is served: a taken port must not look like an outage that ended.
fn bind(config: &Config, data_dir: &DataDir) -> Result<Option<Opener>, ServeError> {
    let acceptor = tls::acceptor(&config.http, data_dir)?;
    let asked = config.http.listen;
    let listener = listen(asked, "--http")?;
    let addr = listener.local_addr().map_err(|source| ServeError::Listen {
        listen: asked,
        source,
    })?;
    Ok(Some(Box::new(move |app, config| {
        let (app, tls) = (Arc::clone(app), acceptor.is_some());
        let server = Server::new(Arc::clone(&app), acceptor, config.http.connections_max);
        let server = tokio::spawn(server.run(listener, GRACE));
        tracing::info!(http = %addr, tls, auth = config.auth.as_str(), "the hub listens on {addr}");
        let open = Open {
            addr: Some(addr),
            card: vec![("http", json!(addr)), ("tls", json!(tls))],
            line: Some(format!("switchboard serves {}", url(addr, tls))),
            figures: None,
            close: Box::new(|| close(app, server).boxed()),
        };
        async { Ok(open) }.boxed()
    })))
}

async fn close(app: Arc<App>, server: JoinHandle<()>) {
    if let Err(error) = server.await {
        tracing::error!("the HTTP server crashed: {error}");
    }
    if let Some(sql) = &app.sql {
        sql.stop().await;
    }
}

/// Where it can be reached from this machine.
pub(crate) fn url(mut addr: SocketAddr, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    if addr.ip().is_unspecified() {
        addr.set_ip(match addr {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("{scheme}://{addr}")
}

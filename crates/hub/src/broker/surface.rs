//! The broker in the table of doors.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use prometheus_client::encoding::DescriptorEncoder;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::state::Broker;
use super::{listen, news};
use crate::config::{BROKER_SETTINGS, Config};
use crate::data_dir::DataDir;
use crate::metrics::{counter, gauge};
use crate::serve::{self, ServeError};
use crate::surface::{Open, Opener, Surface};
use crate::tls;

pub(crate) const SURFACE: Surface = Surface {
    settings: &[BROKER_SETTINGS],
    check: Config::check_broker_address,
    ..Surface::new("broker", bind)
};

/// How long connections get to hear that the hub stops, and desks to give back what they had.
const GRACE: Duration = Duration::from_secs(3);

fn bind(config: &Config, data_dir: &DataDir) -> Result<Option<Opener>, ServeError> {
    let Some(asked) = config.broker.listen else {
        return Ok(None);
    };
    config.check_broker_address()?;
    // Scripts on this machine speak without it.
    let tls = match asked.ip().is_loopback() {
        true => None,
        false => tls::served(&config.http, data_dir)?,
    };
    let listener = listen_on(asked, config.broker.port_is_asked)?;
    let addr = listener.local_addr().map_err(|source| ServeError::Listen {
        listen: asked,
        source,
    })?;
    Ok(Some(Box::new(move |app, _| {
        let broker = Arc::clone(&app.broker);
        async move {
            broker.background.set_port(addr.port());
            broker.end_orphans().await?;
            broker.close_left_over().await?;
            let scheme = if tls.is_some() { "wss" } else { "ws" };
            let card = vec![("broker", json!(addr)), ("brokerTls", json!(tls.is_some()))];
            let acceptor = tls.map(|served| served.acceptor);
            let news = broker.hub.shared.wakeups().news();
            broker.tasks.spawn(news::tell(Arc::clone(&broker), news));
            let accepting = listen::accept(Arc::clone(&broker), listener, acceptor);
            let server = tokio::spawn(accepting);
            let counted = Arc::clone(&broker);
            Ok(Open {
                addr: Some(addr),
                card,
                line: Some(format!("the broker is at {scheme}://{addr}")),
                figures: Some(Arc::new(move |out| figures(&counted, out))),
                close: Box::new(|| close(broker, server).boxed()),
            })
        }
        .boxed()
    })))
}

/// A port that nobody asked for gives way to any that is free.
fn listen_on(asked: SocketAddr, port_is_asked: bool) -> Result<TcpListener, ServeError> {
    const FLAG: &str = "--broker";
    match serve::listen(asked, FLAG) {
        Err(ServeError::Taken { listen, owner, .. }) if !port_is_asked => {
            tracing::warn!(
                "{listen} is already in use{owner}, so the broker listens on another port; choose one with {FLAG}"
            );
            serve::listen(SocketAddr::new(asked.ip(), 0), FLAG)
        }
        bound => bound,
    }
}

async fn close(broker: Arc<Broker>, server: JoinHandle<()>) {
    broker.tasks.close();
    let all = async {
        let _ = server.await;
        broker.tasks.wait().await;
    };
    let _ = tokio::time::timeout(GRACE, all).await;
}

#[rustfmt::skip]
fn figures(broker: &Broker, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let tally = &broker.tally;
    gauge(out, "broker_connections", "Open connections of the broker", broker.connections.load(Ordering::Relaxed) as u64)?;
    gauge(out, "broker_roles", "Roles connected to this hub", broker.roles_present() as u64)?;
    counter(out, "broker_frames", "Frames received by the broker", tally.frames.load(Ordering::Relaxed))?;
    counter(out, "broker_refused", "Frames that were too large, too many or wrong", tally.refused.load(Ordering::Relaxed))?;
    counter(out, "broker_slow", "Connections of the broker dropped because they read too slowly", tally.slow.load(Ordering::Relaxed))
}

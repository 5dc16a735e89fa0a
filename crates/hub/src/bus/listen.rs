//! Accepts connections of the bus, up to a bound, and serves each in a task of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::connection;
use super::server::BusState;

/// After an accept that failed, such as for want of descriptors.
const RETRY_AFTER: Duration = Duration::from_millis(50);

pub(super) async fn accept(bus: Arc<BusState>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    let mut ailing = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = bus.stopping.cancelled() => break,
        };
        match accepted {
            Ok((socket, _)) => {
                ailing = false;
                let max = bus.config.connections_max as usize;
                if bus.connections.load(Ordering::Relaxed) >= max {
                    // Closed at once: whoever came can tell a full bus from a slow one.
                    continue;
                }
                bus.connections.fetch_add(1, Ordering::Relaxed);
                connections.spawn(one(Arc::clone(&bus), socket));
            }
            Err(error) => {
                if !std::mem::replace(&mut ailing, true) {
                    tracing::warn!(%error, "a connection to the bus could not be accepted");
                }
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn one(bus: Arc<BusState>, socket: TcpStream) {
    let _ = socket.set_nodelay(true);
    let counted = Counted(Arc::clone(&bus));
    match &bus.authority {
        None => connection::serve(Arc::clone(&bus), socket, None).await,
        Some(authority) => match authority.admit(socket).await {
            Ok((stream, identity)) => {
                connection::serve(Arc::clone(&bus), stream, Some(identity)).await;
            }
            Err(refused) => tracing::info!("a connection to the bus was refused: {refused}"),
        },
    }
    drop(counted);
}

/// One of the connections that there may be.
struct Counted(Arc<BusState>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

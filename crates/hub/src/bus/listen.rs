//! Connections of the bus: each is served in a task of its own, with a certificate where that is asked for.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use super::connection;
use super::server::BusState;
use crate::accept::{self, Bound};

pub(super) async fn accept(bus: Arc<BusState>, listener: TcpListener) {
    let bound = Bound {
        of: "the bus",
        open: Arc::clone(&bus.connections),
        max: bus.config.connections_max,
    };
    let stopping = bus.stopping.clone();
    accept::accept(listener, bound, stopping, |socket| {
        one(Arc::clone(&bus), socket)
    })
    .await;
}

async fn one(bus: Arc<BusState>, socket: TcpStream) {
    match &bus.authority {
        None => connection::serve(Arc::clone(&bus), socket, None).await,
        Some(authority) => match authority.admit(socket).await {
            Ok((stream, identity)) => {
                connection::serve(Arc::clone(&bus), stream, Some(identity)).await;
            }
            Err(refused) => tracing::info!("a connection to the bus was refused: {refused}"),
        },
    }
}

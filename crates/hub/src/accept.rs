//! The accept loop of doors that are not HTTP: bounded connections, each in a task of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// After an accept that failed, such as for want of descriptors.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Whose connections, and how many there may be.
pub(crate) struct Bound {
    /// Such as "the bus".
    pub of: &'static str,
    pub open: Arc<AtomicUsize>,
    pub max: u32,
}

/// Serves each connection with `one` until `stopping`, then waits for those that are left.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    bound: Bound,
    stopping: CancellationToken,
    one: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut ailing = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = stopping.cancelled() => break,
        };
        match accepted {
            Ok((socket, _)) => {
                ailing = false;
                if bound.open.load(Ordering::Relaxed) >= bound.max as usize {
                    // Closed at once: whoever came can tell a full door from a slow one.
                    continue;
                }
                let _ = socket.set_nodelay(true);
                let counted = Counted::new(&bound.open);
                let serving = one(socket);
                connections.spawn(async move {
                    let _counted = counted;
                    serving.await;
                });
            }
            Err(error) => {
                if !std::mem::replace(&mut ailing, true) {
                    tracing::warn!(%error, "a connection to {} could not be accepted", bound.of);
                }
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// One of the connections that there may be.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(open: &Arc<AtomicUsize>) -> Counted {
        open.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

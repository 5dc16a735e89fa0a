//! The accept loop: bounded connections, each under watch, all of them let go in good order.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::AppState;
use super::call::{Peer, Spent};
use super::seats::{Seat, Seats};
use super::watch::{ConnectionWatch, LOOK_EVERY, Verdict, Watched};

/// Most that is read ahead of a connection: its head, and pieces of its body.
const BUFFER_BYTES: usize = 64 * 1024;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// After a failed accept: the system is out of something, which takes a moment to come back.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Accepts and serves.
pub struct Server {
    app: AppState,
    router: Router,
    tls: Option<TlsAcceptor>,
    seats: Seats,
    tasks: TaskTracker,
    /// Cut what is still open.
    cut: CancellationToken,
}

impl Server {
    pub fn new(app: AppState, tls: Option<TlsAcceptor>, connections_max: u32) -> Self {
        Server {
            router: super::router(Arc::clone(&app)),
            app,
            tls,
            seats: Seats::new(connections_max),
            tasks: TaskTracker::new(),
            cut: CancellationToken::new(),
        }
    }

    /// Serves until the app is stopping; then lets what was accepted finish, for as long as `grace` allows.
    pub async fn run(self, listener: TcpListener, grace: Duration) {
        let stopping = self.app.stopping.clone();
        loop {
            let accepted = tokio::select! {
                () = stopping.cancelled() => break,
                accepted = self.accept(&listener) => accepted,
            };
            match accepted {
                Ok((stream, remote, seat)) => {
                    if let Some(seat) = self.seated(seat, remote) {
                        self.spawn(stream, remote, seat);
                    }
                }
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
        drop(listener);
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                "{} connections were closed before they finished",
                self.tasks.len()
            );
        }
        self.cut.cancel();
        self.tasks.wait().await;
    }

    /// The next connection, once there is a place for it.
    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> std::io::Result<(TcpStream, SocketAddr, Seat)> {
        let seat = self.seats.free().await?;
        let (stream, remote) = listener.accept().await?;
        Ok((stream, remote, seat))
    }

    /// Whoever may speak for many takes any number of places, an address of its own only so many.
    fn seated(&self, seat: Seat, remote: SocketAddr) -> Option<Seat> {
        if self.app.gate.speaks_for_many(remote.ip()) {
            return Some(seat);
        }
        let given = self.seats.give(seat, remote.ip().to_canonical());
        if given.is_none() {
            tracing::debug!(%remote, "a connection is closed: too many connections from its address");
        }
        given
    }

    fn spawn(&self, stream: TcpStream, remote: SocketAddr, seat: Seat) {
        let local = stream.local_addr().unwrap_or(remote);
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%remote, "cannot set TCP_NODELAY: {error}");
        }
        let watch = Arc::new(ConnectionWatch::new());
        let entry = Entry {
            app: Arc::clone(&self.app),
            router: self.router.clone(),
            watch: Arc::clone(&watch),
            spent: Arc::default(),
            local,
            remote,
        };
        let (tls, cut) = (self.tls.clone(), self.cut.clone());
        self.tasks.spawn(async move {
            let _seat = seat;
            match tls {
                None => serve(Watched::new(stream, watch), entry, cut).await,
                Some(tls) => match tokio::time::timeout(HANDSHAKE_WITHIN, tls.accept(stream)).await
                {
                    Ok(Ok(stream)) => serve(Watched::new(stream, watch), entry, cut).await,
                    Ok(Err(error)) => tracing::debug!(%remote, "the TLS handshake failed: {error}"),
                    Err(_) => tracing::debug!(%remote, "the TLS handshake timed out"),
                },
            }
        });
    }
}

async fn serve<S>(stream: S, entry: Entry, cut: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (remote, watch, stopping) = (
        entry.remote,
        Arc::clone(&entry.watch),
        entry.app.stopping.clone(),
    );
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), entry);
    let mut connection = std::pin::pin!(connection);
    let mut look = tokio::time::interval_at(tokio::time::Instant::now() + LOOK_EVERY, LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut leaving = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%remote, "a connection failed: {error}");
                }
                return;
            }
            () = stopping.cancelled(), if !leaving => {
                leaving = true;
                watch.hurries();
                connection.as_mut().graceful_shutdown();
            }
            () = cut.cancelled() => return,
            _ = look.tick() => match watch.look() {
                Verdict::Keep => {}
                Verdict::Idle => connection.as_mut().graceful_shutdown(),
                Verdict::Drop(why) => {
                    tracing::debug!(%remote, "a connection is dropped: {why}");
                    return;
                }
            },
        }
    }
}

/// What a connection's requests go through on their way to the router.
struct Entry {
    app: AppState,
    router: Router,
    watch: Arc<ConnectionWatch>,
    spent: Arc<Spent>,
    local: SocketAddr,
    remote: SocketAddr,
}

impl hyper::service::Service<Request<Incoming>> for Entry {
    type Response = Response;
    type Error = std::convert::Infallible;
    type Future = Serving;

    fn call(&self, mut request: Request<Incoming>) -> Serving {
        self.watch.serves();
        let watch = Arc::clone(&self.watch);
        if let Err(failure) = self.app.gate.check(&request, self.local) {
            return Serving {
                answer: Answer::Refused(Some(failure.into_response())),
                watch,
            };
        }
        let (gate, remote) = (&self.app.gate, self.remote.ip());
        let ip = gate.sender(request.headers(), remote);
        let tls = self.app.tls || gate.came_over_tls(request.headers(), remote);
        let spent = Arc::clone(&self.spent);
        request.extensions_mut().insert(Peer {
            ip,
            local: self.local,
            tls,
            spent,
        });
        let mut router = self.router.clone();
        Serving {
            answer: Answer::Routed(router.call(request.map(Body::new))),
            watch,
        }
    }
}

/// An answer in the making; the watch hears when it is there.
struct Serving {
    answer: Answer,
    watch: Arc<ConnectionWatch>,
}

enum Answer {
    Refused(Option<Response>),
    Routed(axum::routing::future::RouteFuture<std::convert::Infallible>),
}

impl Future for Serving {
    type Output = Result<Response, std::convert::Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = match &mut self.answer {
            Answer::Refused(response) => response
                .take()
                .expect("a future is not polled after its end"),
            Answer::Routed(routed) => {
                let Ok(response) = std::task::ready!(Pin::new(routed).poll(cx));
                response
            }
        };
        self.watch.served();
        if answered.headers().contains_key(header::CONNECTION) {
            self.watch.leaves_unread();
        }
        Poll::Ready(Ok(answered))
    }
}

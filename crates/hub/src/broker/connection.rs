//! One client's socket: reads frames, writes what is on its way, notices when nobody is there any more.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt as _, StreamExt as _};
use switchboard_core::MessageId;
use switchboard_wire::squidrun::frame::{Outbound, Welcome};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, error::CapacityError};

use super::listen::{Pipe, Shaken};
use super::session::{Ask, Session};
use super::socket::Socket;
use super::state::Broker;
use crate::stream::Ended;

/// Printed at a time.
const WRITE_BYTES: usize = 16 * 1024;
/// Requests of one connection that are being answered; then it waits before it is read on.
const ASKS_MAX: usize = 64;
/// To say the last words, and for the other side to hear them.
const FAREWELL: Duration = Duration::from_secs(1);
/// Where credentials are asked for: to show one.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);

struct Connection {
    broker: Arc<Broker>,
    ws: WebSocketStream<Pipe>,
    socket: Arc<Socket>,
    session: Session,
    /// What is being answered.
    asks: FuturesUnordered<Ask>,
    /// Messages in what is being written.
    mail: Vec<MessageId>,
    unflushed: bool,
    began_at: Instant,
    heard_at: Instant,
    pinged_at: Option<Instant>,
}

/// What there is to do.
enum Woken {
    Read(Option<Result<Message, Error>>),
    Flushed(Result<(), Error>),
    Outbox,
    Answered,
    Time,
    Token,
    Stopping,
}

/// How it ends.
enum End {
    /// Nobody is there to be told.
    Gone,
    Told(CloseCode, &'static str),
}

pub(super) async fn serve(broker: Arc<Broker>, shaken: Shaken) {
    let (now, id) = (Instant::now(), broker.next_client());
    let socket = Arc::new(Socket::new(id, broker.hub.wall().0));
    socket.tell(&Outbound::Welcome(Welcome { client_id: id }));
    let mut connection = Connection {
        session: Session::new(&broker, &socket, shaken.shown),
        broker,
        ws: shaken.ws,
        socket,
        asks: FuturesUnordered::new(),
        mail: Vec::new(),
        unflushed: false,
        began_at: now,
        heard_at: now,
        pinged_at: None,
    };
    let end = connection.run().await;
    connection.leave(end).await;
}

impl Connection {
    async fn run(&mut self) -> End {
        loop {
            if self.refill().is_err() {
                return End::Gone;
            }
            let woken = self.wait().await;
            if let Some(end) = self.on(woken).await {
                return end;
            }
        }
    }

    async fn on(&mut self, woken: Woken) -> Option<End> {
        match woken {
            Woken::Read(Some(Ok(message))) => self.read(message).await,
            Woken::Read(Some(Err(error))) => return Some(ended_by(&error)),
            Woken::Read(None) | Woken::Flushed(Err(_)) => return Some(End::Gone),
            Woken::Flushed(Ok(())) => {
                self.unflushed = false;
                let mail = std::mem::take(&mut self.mail);
                self.session.wrote(&mail);
            }
            Woken::Outbox => return self.socket.outbox.ended().map(|why| self.sent_away(why)),
            Woken::Answered => {}
            Woken::Time => return self.on_time(),
            Woken::Token => {
                if !self.session.is_still_known().await {
                    let why = "the token was revoked; reconnect with a valid one";
                    return Some(End::Told(CloseCode::Policy, why));
                }
            }
            Woken::Stopping => return Some(End::Told(CloseCode::Away, "the hub stops")),
        }
        None
    }

    async fn wait(&mut self) -> Woken {
        let due = self.due_at();
        let (ws, unflushed) = (&mut self.ws, self.unflushed);
        let reads = self.asks.len() < ASKS_MAX;
        let moved = poll_fn(|cx| {
            if unflushed && let Poll::Ready(done) = ws.poll_flush_unpin(cx) {
                return Poll::Ready(Woken::Flushed(done));
            }
            match reads {
                true => ws.poll_next_unpin(cx).map(Woken::Read),
                false => Poll::Pending,
            }
        });
        tokio::select! {
            woken = moved => woken,
            () = self.socket.outbox.rung() => Woken::Outbox,
            Some(()) = self.asks.next(), if !self.asks.is_empty() => Woken::Answered,
            () = sleep_until(due) => Woken::Time,
            () = self.session.is_to_be_looked_at() => Woken::Token,
            () = self.broker.stopping.cancelled() => Woken::Stopping,
        }
    }

    async fn read(&mut self, message: Message) {
        self.heard_at = Instant::now();
        self.pinged_at = None;
        let bytes: Bytes = match message {
            Message::Text(text) => text.into(),
            Message::Binary(bytes) => bytes,
            // Pongs are sent, and closing is answered, by themselves.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => return,
        };
        self.socket.seen(self.broker.hub.wall().0);
        let ask = Box::pin(self.session.take(&bytes)).await;
        self.asks.extend(ask);
    }

    /// Prints what waits, once everything before it is written.
    fn refill(&mut self) -> Result<(), Error> {
        let mut bytes = 0;
        while !self.unflushed || bytes > 0 {
            let Some(frame) = self.socket.outbox.next() else {
                break;
            };
            bytes += frame.text.len();
            self.mail.extend(frame.mail);
            self.unflushed = true;
            self.ws.start_send_unpin(Message::Text(frame.text))?;
            if bytes >= WRITE_BYTES {
                break;
            }
        }
        Ok(())
    }

    fn due_at(&self) -> Instant {
        let every = self.broker.config.ping_every;
        let due = match self.pinged_at {
            Some(pinged) => pinged + every,
            None => self.heard_at + every,
        };
        match self.session.is_known() {
            true => due,
            false => due.min(self.began_at + KNOWN_WITHIN),
        }
    }

    fn on_time(&mut self) -> Option<End> {
        let now = Instant::now();
        if !self.session.is_known() && now >= self.began_at + KNOWN_WITHIN {
            let why = "nobody registered with a valid token";
            return Some(End::Told(CloseCode::Policy, why));
        }
        if now < self.due_at() {
            return None;
        }
        if self.pinged_at.replace(now).is_some() {
            // Half open: neither the ping was answered nor anything else was heard.
            return Some(End::Gone);
        }
        self.unflushed = true;
        let ping = Message::Ping(Bytes::new());
        self.ws.start_send_unpin(ping).is_err().then_some(End::Gone)
    }

    fn sent_away(&self, why: Ended) -> End {
        match why {
            Ended::Slow => {
                let counted = &self.broker.tally.slow;
                counted.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    "client {} of the broker reads too slowly; its connection is closed, its mail waits",
                    self.socket.id
                );
                End::Gone
            }
            Ended::Gone | Ended::Replaced | Ended::Left => {
                End::Told(CloseCode::Normal, "this role was deregistered; reconnect")
            }
        }
    }

    /// Gives back what was not written, finishes what was asked, and says the last words.
    async fn leave(mut self, end: End) {
        self.session.leave();
        // It waits for whoever comes next.
        drop(self.socket.outbox.unsent_mail());
        let asked = async { while self.asks.next().await.is_some() {} };
        let _ = timeout(FAREWELL, asked).await;
        if let End::Told(code, reason) = end {
            let reason = reason.into();
            let _ = timeout(FAREWELL, self.say_all(CloseFrame { code, reason })).await;
        }
    }

    async fn say_all(&mut self, last: CloseFrame) -> Result<(), Error> {
        while let Some(frame) = self.socket.outbox.next() {
            self.ws.start_send_unpin(Message::Text(frame.text))?;
        }
        self.ws.close(Some(last)).await?;
        // A socket that is closed with something unread may take the last words back.
        let mut rest = [0; 4096];
        while self.ws.get_mut().read(&mut rest).await? > 0 {}
        Ok(())
    }
}

fn ended_by(error: &Error) -> End {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => {
            End::Told(CloseCode::Size, "a frame may have at most 1 MiB")
        }
        Error::Utf8(_) => End::Told(CloseCode::Invalid, "text must be UTF-8"),
        Error::Protocol(_) => End::Told(CloseCode::Protocol, "this is not WebSocket"),
        _ => End::Gone,
    }
}

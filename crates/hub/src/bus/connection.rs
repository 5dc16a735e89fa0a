//! One connection from its first byte to its last: feeds the session, carries out what it says, and writes what waits.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::MessageId;
use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::codec::{Line, Lines};
use switchboard_wire::agentbus::envelope::FrameWriter;
use switchboard_wire::agentbus::message::{Hello, HelloAuth, Inbound};
use switchboard_wire::agentbus::session::{Accepted, CloseReason, Peer, Session, Step};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until, timeout};

use super::authority::{Identity, Refused};
use super::frame::{Frame, Outbox};
use super::operator::Operator;
use super::pipe;
use super::proof::Proof;
use super::server::BusState;
use super::worker::{Errand, Worker};
use crate::auth::Vigil;
use crate::stream::Ended;

/// What a worker may leave unread: the largest task and the messages that are handed over at once, in any spelling.
const WORKER_BUFFER_BYTES: usize = 4 * 1024 * 1024;
/// Taken out of the queue and printed at a time.
const WRITE_BYTES: usize = 32 * 1024;
/// So much at once is no ordinary worker.
const FLOOD_BYTES: usize = 8 * 1024;
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// A buffer that was larger is given back.
const BUFFER_KEPT: usize = 4 * 1024;

/// Who is at the other end.
enum Who {
    Unknown,
    Worker(Box<Worker>),
    Operator(Operator),
}

struct Connection<S> {
    bus: Arc<BusState>,
    identity: Option<Identity>,
    /// What the hello showed, where a certificate does not tell who it is.
    vigil: Option<Vigil>,
    session: Session,
    writer: FrameWriter,
    outbox: Arc<Outbox>,
    socket_out: WriteHalf<S>,
    out: Vec<u8>,
    written: usize,
    /// Something was written that the socket may not have yet.
    unflushed: bool,
    /// Messages to the agent that are handed over once `out` is written.
    mail: Vec<MessageId>,
    who: Who,
    closing: Option<CloseReason>,
}

/// What woke the connection.
enum Woken {
    Read(std::io::Result<Vec<u8>>),
    Wrote(std::io::Result<usize>),
    Outbox,
    Time,
    Worker(Errand),
    Certificate(Refused),
    /// Its token may have been revoked.
    Token,
    Stopping,
}

pub(super) async fn serve<S>(bus: Arc<BusState>, socket: S, identity: Option<Identity>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut reader, socket_out) = tokio::io::split(socket);
    let mut connection = Connection {
        session: Session::new(Arc::clone(&bus.limits), bus.millis()),
        writer: FrameWriter::new(bus.sender()),
        outbox: Arc::new(Outbox::new(WORKER_BUFFER_BYTES)),
        bus,
        identity,
        vigil: None,
        socket_out,
        out: Vec::new(),
        written: 0,
        unflushed: false,
        mail: Vec::new(),
        who: Who::Unknown,
        closing: None,
    };
    connection.run(&mut reader).await;
    let bus = Arc::clone(&connection.bus);
    let was_told = connection.closing.is_some();
    connection.leave().await;
    if was_told {
        // A socket that is closed with something unread may take the last words back.
        tokio::select! {
            _ = timeout(FAREWELL, drain(&mut reader)) => {}
            () = bus.stopping.cancelled() => {}
        }
    }
}

async fn drain<S: AsyncRead + AsyncWrite>(reader: &mut ReadHalf<S>) {
    while pipe::read(reader)
        .await
        .is_ok_and(|chunk| !chunk.is_empty())
    {}
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self, reader: &mut ReadHalf<S>) {
        let mut lines = Lines::new(self.bus.config.max_message_bytes);
        while self.closing.is_none() {
            self.refill();
            match self.wait(reader).await {
                Woken::Read(Ok(chunk)) if chunk.is_empty() => return,
                Woken::Read(Ok(chunk)) => {
                    self.lines(&mut lines, &chunk).await;
                    // Who floods the bus does not keep the others from their turn.
                    if chunk.len() >= FLOOD_BYTES {
                        tokio::task::yield_now().await;
                    }
                }
                Woken::Read(Err(_)) | Woken::Wrote(Err(_)) => return,
                Woken::Wrote(Ok(count)) => self.wrote(count).await,
                Woken::Outbox => match self.outbox.ended() {
                    None => {}
                    Some(Ended::Replaced) => {
                        let step = self.session.replaced();
                        self.carry_out(step);
                    }
                    Some(Ended::Slow) => {
                        self.drop_slow();
                        return;
                    }
                    Some(Ended::Gone) => {
                        let why =
                            "sender.id: this agent was deregistered; reconnect with a new hello";
                        let step = self.session.refuse(why);
                        self.carry_out(step);
                    }
                    Some(Ended::Left) => self.closing = Some(CloseReason::Left),
                },
                Woken::Time => {
                    let step = self.session.tick(self.bus.millis());
                    self.carry_out(step);
                    if let Who::Worker(worker) = &mut self.who {
                        Box::pin(worker.on_time()).await;
                    }
                }
                Woken::Worker(errand) => {
                    if let Who::Worker(worker) = &mut self.who {
                        Box::pin(worker.on(&self.bus, errand)).await;
                    }
                }
                Woken::Certificate(refused) => {
                    let step = self.session.refuse(refused.to_string());
                    self.carry_out(step);
                }
                Woken::Token => {
                    let (auth, hub) = (&self.bus.auth, &self.bus.hub);
                    if let Some(vigil) = self.vigil.as_mut()
                        && !vigil.holds(auth, hub).await
                    {
                        let why = format!("{}; reconnect with a valid one", vigil.what_ended());
                        let step = self.session.refuse(why);
                        self.carry_out(step);
                    }
                }
                Woken::Stopping => return,
            }
        }
    }

    async fn wait(&mut self, reader: &mut ReadHalf<S>) -> Woken {
        let mut due = self.session.due_at().map(|due| {
            let ahead = due.saturating_sub(self.bus.millis());
            Instant::now() + Duration::from_millis(ahead)
        });
        if let Who::Worker(worker) = &self.who
            && let Some(at) = worker.due_at()
        {
            due = Some(due.map_or(at, |due| due.min(at)));
        }
        let ahead = &self.out[self.written..];
        let writes = !ahead.is_empty() || self.unflushed;
        let worker = async {
            match &mut self.who {
                Who::Worker(worker) => worker.next().await,
                Who::Unknown | Who::Operator(_) => std::future::pending().await,
            }
        };
        let certificate = async {
            match (&self.bus.authority, &self.identity) {
                (Some(authority), Some(identity)) => authority.ended(identity).await,
                _ => std::future::pending().await,
            }
        };
        let token = async {
            match &mut self.vigil {
                Some(vigil) => vigil.rung().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = pipe::read(reader) => Woken::Read(read),
            wrote = pipe::write(&mut self.socket_out, ahead), if writes => Woken::Wrote(wrote),
            () = self.outbox.rung() => Woken::Outbox,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Woken::Time,
            errand = worker => Woken::Worker(errand),
            refused = certificate => Woken::Certificate(refused),
            () = token => Woken::Token,
            () = self.bus.stopping.cancelled() => Woken::Stopping,
        }
    }

    async fn lines(&mut self, lines: &mut Lines, chunk: &[u8]) {
        let mut feed = lines.feed(chunk);
        while let Some(line) = feed.next() {
            self.bus.tally.frame();
            let now = self.bus.millis();
            let mut step = match line {
                Line::Whole(line) => self.session.line(line, now),
                Line::Oversize { .. } => self.session.oversize(now),
            };
            let accepted = step.accept.take();
            self.carry_out(step);
            if let Some(accepted) = accepted {
                self.take(accepted).await;
            }
            if self.closing.is_some() {
                return;
            }
        }
    }

    async fn take(&mut self, accepted: Accepted<'_>) {
        match &mut self.who {
            Who::Worker(worker) => match accepted.message {
                Inbound::Heartbeat(beat) => {
                    let line = accepted.envelope.line();
                    if let Some(deed) = worker.heartbeat(&self.bus, &beat.state, line) {
                        Box::pin(worker.after_beat(&self.bus, deed)).await;
                    }
                }
                message => {
                    let envelope = &accepted.envelope;
                    Box::pin(worker.take(&self.bus, envelope, message)).await;
                }
            },
            Who::Operator(operator) => {
                let seq = accepted.envelope.seq;
                Box::pin(operator.take(&self.bus, seq, accepted.message)).await;
            }
            Who::Unknown => Box::pin(self.greet(accepted)).await,
        }
    }

    /// The hello: who it is, and whether it may come in.
    async fn greet(&mut self, accepted: Accepted<'_>) {
        let (Inbound::Hello(hello), Some(peer)) = (accepted.message, self.session.peer().cloned())
        else {
            return;
        };
        let entered = match self.prove(&peer, hello.auth.as_ref()).await {
            Ok(proof) => self.enter(&hello, &peer, proof).await,
            Err(why) => Err(why),
        };
        if let Err(why) = entered {
            let step = self.session.refuse(why);
            self.carry_out(step);
        }
    }

    async fn enter(
        &mut self,
        hello: &Hello,
        peer: &Peer,
        proof: Option<Proof>,
    ) -> Result<(), String> {
        match peer.role {
            Role::Operator => {
                if let Some(proof) = &proof {
                    proof.spend(&self.bus).await?;
                }
                self.session.welcomed(self.bus.millis());
                let bytes_max = self.bus.config.operator_buffer_bytes;
                self.outbox.set_bytes_max(bytes_max);
                let operator = Operator::enter(&self.bus, peer, &self.outbox);
                self.who = Who::Operator(operator);
                super::snapshot::send(&self.bus, &self.outbox).await;
            }
            Role::Worker => {
                let nonce = proof.as_ref().and_then(|proof| proof.nonce.clone());
                let worker = Worker::join(&self.bus, hello, peer, nonce, &self.outbox).await?;
                self.session.welcomed(self.bus.millis());
                self.who = Who::Worker(Box::new(worker));
                if let Who::Worker(worker) = &mut self.who {
                    worker.begin(&self.bus).await;
                }
            }
            Role::Director => {}
        }
        self.vigil = proof.and_then(|proof| proof.vigil);
        Ok(())
    }

    /// Who it is: by its certificate, or by what it signed its hello with.
    async fn prove(&self, peer: &Peer, given: Option<&HelloAuth>) -> Result<Option<Proof>, String> {
        match &self.identity {
            Some(identity) => check_identity(identity, peer.role, &peer.id).map(|()| None),
            None => Proof::of(&self.bus, peer, given).await.map(Some),
        }
    }

    fn carry_out(&mut self, step: Step<'_>) {
        self.bus.tally.count(step.flags);
        match (step.send, step.close) {
            (Some(last), Some(_)) => self.outbox.push_last(Frame::Message(last)),
            (Some(message), None) => {
                self.outbox.push(Frame::Message(message));
            }
            (None, _) => {}
        }
        if let Some(reason) = step.close {
            self.closing = Some(reason);
        }
    }

    /// Prints what waits, once everything before it is written.
    fn refill(&mut self) {
        if self.written < self.out.len() {
            return;
        }
        self.written = 0;
        if self.out.capacity() > BUFFER_KEPT {
            self.out = Vec::new();
        } else {
            self.out.clear();
        }
        let now = self.bus.utc();
        while self.out.len() < WRITE_BYTES
            && let Some(frame) = self.outbox.next()
        {
            frame.print(&mut self.writer, now, &mut self.out, &mut self.mail);
        }
    }

    /// So many bytes went out; none if the socket has all of it.
    async fn wrote(&mut self, count: usize) {
        self.written += count;
        self.unflushed = count > 0;
        if self.unflushed || self.mail.is_empty() {
            return;
        }
        let mail = std::mem::take(&mut self.mail);
        if let Who::Worker(worker) = &mut self.who {
            Box::pin(worker.handed(mail)).await;
        }
    }

    fn drop_slow(&self) {
        let id = self.session.peer().map_or("", |peer| &peer.id);
        self.bus
            .tally
            .slow
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        tracing::warn!("{id} reads too slowly; its connection is closed, it may reconnect");
    }

    /// Says the last words, and gives back what others may have.
    async fn leave(mut self) {
        let mut unsent = self.outbox.unsent_mail();
        if let Some(reason) = self.closing {
            let _ = timeout(FAREWELL, self.say_all()).await;
            let id = self.session.peer().map_or("", |peer| &peer.id);
            if reason != CloseReason::Left {
                tracing::info!(agent.id = id, reason = %reason, "a connection of the bus was closed: {reason}");
            }
        }
        let _ = timeout(FAREWELL, self.socket_out.shutdown()).await;
        unsent.append(&mut self.mail);
        match self.who {
            Who::Unknown => {}
            Who::Worker(worker) => worker.leave(&self.bus, unsent).await,
            Who::Operator(operator) => operator.leave(&self.bus),
        }
    }

    /// Everything that waits, up to the last words.
    async fn say_all(&mut self) -> std::io::Result<()> {
        loop {
            self.refill();
            if self.out.is_empty() {
                return Ok(());
            }
            self.socket_out.write_all(&self.out[self.written..]).await?;
            self.written = self.out.len();
        }
    }
}

/// agentbus.security.mtls_identity: the certificate says who it is, and as what.
fn check_identity(identity: &Identity, role: Role, id: &str) -> Result<(), String> {
    if identity.name.as_str() != id {
        return Err(format!(
            "sender.id: the certificate is that of {}",
            identity.name
        ));
    }
    if identity.role.as_str() != role.as_str() {
        return Err(format!(
            "sender.role: the role in the certificate is {}",
            identity.role
        ));
    }
    Ok(())
}

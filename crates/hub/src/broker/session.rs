//! What a client asks for, frame by frame.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use switchboard_core::verb::Speaker;
use switchboard_core::{MessageId, USER};
use switchboard_wire::squidrun::frame::{self, Inbound, NotAFrame, Outbound, Register};
use switchboard_wire::squidrun::{CLI, Saying, to_wire};
use tokio::time::Instant;

use super::desk::Desk;
use super::proof::prove;
use super::socket::{Frame, Socket};
use super::state::Broker;
use crate::auth::Vigil;
use crate::squidrun::Told;

/// A larger frame is not read.
const FRAME_BYTES_MAX: usize = 256 * 1024;
const FRAMES_PER_SECOND: u32 = 50;
const SECOND: Duration = Duration::from_secs(1);

/// Something that is answered when it is done; the answer goes to the socket by itself.
pub(super) type Ask = BoxFuture<'static, ()>;

pub(super) struct Session {
    broker: Arc<Broker>,
    socket: Arc<Socket>,
    /// The credential of the handshake.
    shown: Option<Box<[u8]>>,
    speaker: Speaker,
    /// Absent until it has registered.
    seat: Option<Seat>,
    rate: Rate,
}

/// What a connection that registered has.
struct Seat {
    /// Of a role. Who is none gets nothing.
    desk: Option<Arc<Desk>>,
    vigil: Option<Vigil>,
}

/// Frames of the second that runs.
struct Rate {
    since: Instant,
    count: u32,
}

impl Rate {
    fn takes_one_more(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.since) >= SECOND {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= FRAMES_PER_SECOND
    }
}

impl Session {
    pub fn new(broker: &Arc<Broker>, socket: &Arc<Socket>, shown: Option<Box<[u8]>>) -> Session {
        Session {
            broker: Arc::clone(broker),
            socket: Arc::clone(socket),
            shown,
            speaker: Speaker::Other(CLI.into()),
            seat: None,
            rate: Rate {
                since: Instant::now(),
                count: 0,
            },
        }
    }

    /// Whether it showed who it is, where that is asked for.
    pub fn is_known(&self) -> bool {
        self.seat.is_some() || !self.broker.auth.is_asked_for()
    }

    /// One frame. What takes a while is handed back.
    pub async fn take(&mut self, bytes: &[u8]) -> Option<Ask> {
        let tally = &self.broker.tally;
        tally.frames.fetch_add(1, Ordering::Relaxed);
        let refusal = if bytes.len() > FRAME_BYTES_MAX {
            Some(Outbound::too_large())
        } else if self.broker.is_limited && !self.rate.takes_one_more() {
            Some(Outbound::too_many())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            tally.refused.fetch_add(1, Ordering::Relaxed);
            self.socket.tell(&refusal);
            return None;
        }
        match frame::read(bytes) {
            Ok(Inbound::Register(register)) => {
                Box::pin(self.register(register)).await;
                None
            }
            Ok(_) | Err(NotAFrame::Wrong(_)) if !self.is_known() => {
                let why = "register first, with a token of your role";
                self.socket.tell(&Outbound::error(why));
                None
            }
            Ok(inbound) => self.ask(inbound),
            Err(NotAFrame::Wrong(wrong)) => {
                tally.refused.fetch_add(1, Ordering::Relaxed);
                let answer = to_wire::wrong(*wrong, self.broker.hub.wall());
                self.socket.tell(&answer);
                None
            }
            Err(NotAFrame::Noise) => None,
        }
    }

    fn ask(&mut self, inbound: Inbound) -> Option<Ask> {
        let (broker, socket) = (Arc::clone(&self.broker), Arc::clone(&self.socket));
        match inbound {
            Inbound::HealthCheck(asked) => {
                self.sends();
                Some(async move { socket.tell(&broker.health(asked).await) }.boxed())
            }
            Inbound::BackgroundAgent(asked) => {
                self.sends();
                let by = self.speaker.id().clone();
                Some(async move { broker.background_agent(&by, asked, &socket).await }.boxed())
            }
            Inbound::Other { request_id, .. } => self.unsupported(request_id),
            Inbound::Send(spoken) => {
                let asks = spoken.ack_required;
                self.say(Saying::by_send(spoken, self.speaker.clone()), asks)
            }
            Inbound::Broadcast(spoken) => {
                let asks = spoken.ack_required;
                self.say(Saying::by_broadcast(spoken, self.speaker.clone()), asks)
            }
            Inbound::Receipt(receipt) => {
                let (desk, by) = (self.desk().cloned(), self.speaker.id().clone());
                let received = async move { broker.received(&by, desk.as_deref(), receipt).await };
                Some(received.boxed())
            }
            Inbound::DeliveryCheck(asked) => {
                let checked = async move { socket.tell(&broker.delivery_check(asked).await) };
                Some(checked.boxed())
            }
            Inbound::CommsEvent(event) => {
                let told = Told {
                    id: broker.ids.fresh("comms"),
                    by: self.speaker.id().clone(),
                    event,
                    at: broker.hub.wall(),
                };
                // Where nobody keeps the journal, nobody listens.
                let _ = broker.told.send(told);
                None
            }
            // That was seen to.
            Inbound::Register(_) => None,
        }
    }

    /// It is said; its sender hears what became of it, if it asks.
    fn say(&self, saying: Saying, asks: bool) -> Option<Ask> {
        self.sends();
        let (broker, socket) = (Arc::clone(&self.broker), Arc::clone(&self.socket));
        let said = async move {
            let ack = broker.answer(saying, asks).await;
            if asks {
                socket.tell(&Outbound::SendAck(ack));
            }
        };
        Some(said.boxed())
    }

    fn unsupported(&self, request_id: Option<String>) -> Option<Ask> {
        if let Some(id) = request_id {
            let answer = Outbound::unsupported(id, self.broker.hub.wall());
            self.socket.tell(&answer);
        }
        None
    }

    /// It does what send scripts do.
    fn sends(&self) {
        if self.socket.sends()
            && let Some(desk) = self.desk()
        {
            desk.looks_again();
        }
    }

    async fn register(&mut self, register: Register) {
        let speaker = self.broker.roles().speaker(&register.role);
        let shown = match &register.token {
            Some(token) => Some(format!("Bearer {}", token.0).into_bytes().into()),
            None => self.shown.clone(),
        };
        let vigil = match prove(&self.broker, shown.as_deref(), speaker.id()).await {
            Ok(vigil) => vigil,
            Err(why) => return self.socket.tell(&Outbound::error(why)),
        };
        let answer = to_wire::registered(register, self.broker.roles());
        let reads = match &speaker {
            Speaker::Role(id) => Some(id),
            // The person, who has a mailbox.
            Speaker::Other(id) => (id.as_str() == USER).then_some(id),
            Speaker::Slot { .. } => None,
        };
        let desk = match (reads, self.desk()) {
            (Some(role), Some(desk)) if desk.role == *role => Some(Arc::clone(desk)),
            (Some(role), _) => {
                self.leave();
                match self.broker.enter(role, &self.socket).await {
                    Ok(desk) => Some(desk),
                    Err(why) => return self.socket.tell(&Outbound::error(why)),
                }
            }
            (None, _) => {
                self.leave();
                None
            }
        };
        if self.seat.is_none() {
            self.broker.come(speaker.id(), &self.socket);
        }
        self.speaker = speaker;
        // Its mail comes after the word that it is registered.
        match &desk {
            Some(desk) => desk.seat(&self.socket, Some(Frame::of(&answer))),
            None => self.socket.tell(&answer),
        }
        self.seat = Some(Seat { desk, vigil });
    }

    /// So many messages were written.
    pub fn wrote(&self, mail: &[MessageId]) {
        if let Some(desk) = self.desk() {
            desk.wrote(&self.socket, mail);
        }
    }

    pub async fn is_to_be_looked_at(&mut self) {
        let vigil = self.seat.as_mut().and_then(|seat| seat.vigil.as_mut());
        match vigil {
            Some(vigil) => vigil.rung().await,
            None => std::future::pending().await,
        }
    }

    pub async fn is_still_known(&mut self) -> bool {
        let (auth, hub) = (&self.broker.auth, &self.broker.hub);
        match self.seat.as_mut().and_then(|seat| seat.vigil.as_mut()) {
            Some(vigil) => vigil.holds(auth, hub).await,
            None => true,
        }
    }

    /// It is nobody any more.
    pub fn leave(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.broker.go(self.speaker.id(), &self.socket);
            if let Some(desk) = seat.desk {
                desk.left(&self.socket);
            }
        }
    }

    fn desk(&self) -> Option<&Arc<Desk>> {
        self.seat.as_ref().and_then(|seat| seat.desk.as_ref())
    }
}

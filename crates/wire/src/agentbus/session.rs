//! One connection as the director sees it: each line, each tick, and what is to be done about it.
//!
//! No socket and no clock: `now` is any count of milliseconds that does not go back. The hub feeds lines, answers the
//! hello with [`Session::welcomed`] or [`Session::refuse`] before it feeds the next one, carries out each [`Step`] in
//! the order of its fields, and calls [`Session::tick`] at [`Session::due_at`].
//!
//! A frame's number is used once its envelope is sound; it is a sign of life once everything in it is.

mod guard;
mod limits;
mod step;

use std::sync::Arc;
use std::time::Duration;

use super::envelope::{self, Envelope};
use super::fault::{Fault, Flag};
use super::message::{
    Hello, Inbound, MessageType, ProtocolIncompatibility, SYNC_MAIN_AND_RESTART, WorkerProbe,
};
use super::version::{Agreed, Version};
use super::words::Role;

pub use limits::{
    FAULTS_MAX, FAULTS_WITHIN, HEARTBEAT_EVERY, HEARTBEAT_TTL, HELLO_WITHIN, LATE_AFTER, Limits,
};
pub use step::{Accepted, CloseReason, Step};

use guard::{Admitted, Bucket, Faults};
pub use guard::{FRAMES_BURST, FRAMES_PER_SECOND, Rate};

/// Who is on the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub role: Role,
    pub id: Box<str>,
    /// What both sides speak.
    pub agreed: Agreed,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    limits: Arc<Limits>,
    state: State,
    peer: Option<Peer>,
    last_seq: u64,
    heard_at: u64,
    probed: bool,
    /// Asked after the hub was away: so long the answer is waited for.
    waits_until: Option<u64>,
    faults: Faults,
    bucket: Bucket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    AwaitingHello {
        until: u64,
    },
    /// The hub has the hello and has not answered.
    Deciding,
    Open,
    Closed,
}

impl Session {
    /// A connection that was accepted now.
    pub fn new(limits: Arc<Limits>, now: u64) -> Self {
        Self {
            state: State::AwaitingHello {
                until: now.saturating_add(millis(limits.hello_within)),
            },
            peer: None,
            last_seq: 0,
            heard_at: now,
            probed: false,
            waits_until: None,
            faults: Faults::default(),
            bucket: Bucket::new(limits.rate, now),
            limits,
        }
    }

    /// Who is on the other side, once it said hello.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Whether it was welcomed and nothing ended it since.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// When the last sound frame came.
    pub fn heard_at(&self) -> u64 {
        self.heard_at
    }

    /// A line came in.
    pub fn line<'a>(&mut self, line: &'a [u8], now: u64) -> Step<'a> {
        if self.is_closed() {
            return Step::default();
        }
        match self.bucket.admit(now) {
            Admitted::Yes => {}
            Admitted::Dropped => return Step::flagged(Flag::RateLimited),
            Admitted::FirstDropped => {
                let fault = Fault::new(Flag::RateLimited, "too many frames; slow down");
                return Step::refused(fault);
            }
            Admitted::Ignored => {
                let fault = Fault::new(
                    Flag::RateLimited,
                    "too many frames; the rate limit was exceeded for too long",
                );
                return self.end(fault, CloseReason::RateLimited);
            }
        }
        match envelope::decode(line) {
            Ok(envelope) => match self.state {
                State::AwaitingHello { .. } => self.first(envelope, now),
                State::Open => self.next(envelope, now),
                State::Deciding | State::Closed => self.fault(
                    Flag::HelloRequired,
                    "wait for the answer to the hello before sending more",
                    now,
                ),
            },
            Err(fault) => self.unsound(fault, now),
        }
    }

    /// A line was longer than the director takes.
    pub fn oversize(&mut self, now: u64) -> Step<'static> {
        if self.is_closed() {
            return Step::default();
        }
        let fault = Fault::new(Flag::TooLarge, "the line is longer than max_message_bytes");
        self.unsound(fault, now)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64) -> Step<'static> {
        match self.state {
            State::AwaitingHello { until } if now >= until => {
                let within = self.limits.hello_within.as_secs_f64();
                let message = format!("no hello within {within} seconds");
                self.end(Fault::new(Flag::HelloLate, message), CloseReason::HelloLate)
            }
            State::Open if self.is_worker() => self.watch(now),
            State::AwaitingHello { .. } | State::Deciding | State::Open | State::Closed => {
                Step::default()
            }
        }
    }

    /// When to call [`Session::tick`] next, if nothing else happens.
    pub fn due_at(&self) -> Option<u64> {
        match self.state {
            State::AwaitingHello { until } => Some(until),
            State::Open if self.is_worker() => {
                let after = if self.probed {
                    millis(self.limits.silent_after).saturating_add(1)
                } else {
                    millis(self.limits.probe_after())
                };
                let due = self.heard_at.saturating_add(after);
                Some(self.waits_until.unwrap_or(due))
            }
            State::Deciding | State::Open | State::Closed => None,
        }
    }

    /// The hub welcomes the sender of the hello.
    pub fn welcomed(&mut self, now: u64) {
        if self.state == State::Deciding {
            self.state = State::Open;
            self.heard_at = now;
        }
    }

    /// The hub turns the sender away, or puts it out later.
    pub fn refuse(&mut self, message: impl Into<String>) -> Step<'static> {
        self.end(Fault::new(Flag::Refused, message), CloseReason::Refused)
    }

    /// A newer connection has the same id; the newer one wins.
    pub fn replaced(&mut self) -> Step<'static> {
        let message = "a newer connection has the same sender.id";
        self.end(Fault::new(Flag::Replaced, message), CloseReason::Replaced)
    }

    fn is_worker(&self) -> bool {
        self.peer
            .as_ref()
            .is_some_and(|peer| peer.role == Role::Worker)
    }

    fn watch(&mut self, now: u64) -> Step<'static> {
        let due = self.due_at().unwrap_or(now);
        if now < due {
            return Step::default();
        }
        let every = millis(self.limits.heartbeat_every);
        let limit = millis(self.limits.silent_after);
        let quiet = now.saturating_sub(self.heard_at);
        if now - due > millis(LATE_AFTER) {
            // What it said meanwhile may still wait to be read.
            self.waits_until = Some(now.saturating_add(every));
            return self.probe(quiet, every);
        }
        if quiet > limit {
            self.state = State::Closed;
            return Step {
                flags: Flag::Silent.into(),
                close: Some(CloseReason::Silent),
                ..Step::default()
            };
        }
        self.probe(quiet, limit - quiet)
    }

    fn probe(&mut self, quiet: u64, answer_within: u64) -> Step<'static> {
        self.probed = true;
        let probe = WorkerProbe {
            reason: format!("no heartbeat for {} seconds", quiet / 1000),
            answer_within_seconds: answer_within.div_ceil(1000),
        };
        Step {
            send: Some(Box::new(probe.into())),
            ..Step::default()
        }
    }

    /// The first frame is a hello that can be answered, or the last one.
    fn first<'a>(&mut self, envelope: Envelope<'a>, now: u64) -> Step<'a> {
        let seq = Some(envelope.seq);
        match self.greet(&envelope) {
            Ok((hello, peer)) => {
                self.peer = Some(peer);
                self.last_seq = envelope.seq;
                self.heard_at = now;
                self.state = State::Deciding;
                Step {
                    accept: Some(Accepted {
                        envelope,
                        message: hello.into(),
                    }),
                    ..Step::default()
                }
            }
            Err(Turned::Away(fault)) => self.end(fault.about(seq), CloseReason::NoHello),
            Err(Turned::Incompatible(message)) => {
                self.state = State::Closed;
                Step {
                    flags: Flag::Incompatible.into(),
                    send: Some(Box::new(message.into())),
                    close: Some(CloseReason::Incompatible),
                    ..Step::default()
                }
            }
        }
    }

    fn greet(&self, envelope: &Envelope<'_>) -> Result<(Hello, Peer), Turned> {
        let away = |flag, message: String| Turned::Away(Fault::new(flag, message));
        if envelope.message_type != MessageType::ProtocolHello.as_str() {
            let message = "the first frame must be protocol_hello.v1".to_owned();
            return Err(away(Flag::HelloRequired, message));
        }
        let role = envelope.sender.role;
        if !MessageType::ProtocolHello.may_come_from(role) {
            let message = format!("nobody may connect as {role}");
            return Err(away(Flag::RoleForbidden, message));
        }
        let hello: Hello = super::message::read(envelope.payload)
            .and_then(|hello: Hello| hello.check_for(role).map(|()| hello))
            .map_err(|malformed| away(Flag::BadPayload, malformed.to_string()))?;
        if let Some(worker) = &hello.worker {
            let (field, id) = ("worker.worker_id", &envelope.sender.id);
            speaks_for_itself(field, &worker.worker_id, id).map_err(Turned::Away)?;
        }
        let agreed = self.agree(&hello.protocol_version)?;
        let peer = Peer {
            role,
            id: envelope.sender.id.as_str().into(),
            agreed,
        };
        Ok((hello, peer))
    }

    fn agree(&self, theirs: &str) -> Result<Agreed, Turned> {
        let ours = self.limits.version;
        let agreed = theirs.parse().ok().and_then(|theirs| ours.agree(theirs));
        agreed.ok_or_else(|| {
            let reason = match theirs.parse::<Version>() {
                Ok(_) => {
                    format!("the director speaks version {ours}, which is another major version")
                }
                Err(not) => format!("protocol_version: {not}"),
            };
            Turned::Incompatible(ProtocolIncompatibility {
                reason,
                expected_protocol_version: ours.to_string(),
                sender_protocol_version: theirs.to_owned(),
                required_action: SYNC_MAIN_AND_RESTART.to_owned(),
            })
        })
    }

    /// A frame after the welcome.
    fn next<'a>(&mut self, envelope: Envelope<'a>, now: u64) -> Step<'a> {
        let seq = envelope.seq;
        if seq <= self.last_seq {
            let message = format!("seq: {seq} is not greater than {}", self.last_seq);
            let fault = Fault::new(Flag::BadSeq, message).about(Some(seq));
            return self.count(fault, now);
        }
        let gap = seq - self.last_seq > 1;
        self.last_seq = seq;
        let step = match self.judge(&envelope) {
            Ok(message) => Step {
                accept: Some(Accepted { envelope, message }),
                ..Step::default()
            },
            Err(fault) if fault.flag == Flag::UnknownType => Step::flagged(Flag::UnknownType),
            Err(fault) => {
                let step = self.count(fault.about(Some(seq)), now);
                return step.with_gap(gap);
            }
        };
        self.heard_at = now;
        (self.probed, self.waits_until) = (false, None);
        step.with_gap(gap)
    }

    /// Who may say what, and whether it is said well.
    fn judge<'a>(&self, envelope: &Envelope<'a>) -> Result<Inbound<'a>, Fault> {
        let peer = self.peer.as_ref().expect("an open session has its peer");
        let sender = &envelope.sender;
        if sender.role != peer.role {
            let message = format!("sender.role: the role of this connection is {}", peer.role);
            return Err(Fault::new(Flag::RoleForbidden, message));
        }
        if *sender.id != *peer.id {
            let message = format!("sender.id: this connection is that of {}", peer.id);
            return Err(Fault::new(Flag::SenderChanged, message));
        }
        let Ok(message_type) = envelope.message_type.parse::<MessageType>() else {
            return Err(Fault::new(Flag::UnknownType, "message_type: unknown"));
        };
        if message_type == MessageType::ProtocolHello {
            let message = "the hello was already sent and answered";
            return Err(Fault::new(Flag::HelloAgain, message));
        }
        if !message_type.may_come_from(peer.role) {
            let message = format!("{message_type} must not come from role {}", peer.role);
            return Err(Fault::new(Flag::RoleForbidden, message));
        }
        let message = Inbound::read(message_type, envelope.payload)
            .ok_or_else(|| Fault::new(Flag::RoleForbidden, "must not be sent to a director"))?
            .map_err(|malformed| Fault::new(Flag::BadPayload, malformed.to_string()))?;
        if let Inbound::AgentMessage(mail) = &message {
            speaks_for_itself("from", &mail.from, &peer.id)?;
        }
        if let Inbound::WorkerError(said) = &message {
            speaks_for_itself("error.worker_id", &said.error.worker_id, &peer.id)?;
        }
        Ok(message)
    }

    /// A line that is no frame: the end before the welcome, a fault after it.
    fn unsound(&mut self, fault: Fault, now: u64) -> Step<'static> {
        match self.state {
            State::AwaitingHello { .. } => {
                let reason = if fault.flag == Flag::UnknownSchema {
                    CloseReason::UnknownSchema
                } else {
                    CloseReason::NoHello
                };
                self.end(fault, reason)
            }
            State::Deciding | State::Open | State::Closed => {
                if fault.flag == Flag::UnknownSchema {
                    return self.end(fault, CloseReason::UnknownSchema);
                }
                self.count(fault, now)
            }
        }
    }

    fn fault(&mut self, flag: Flag, message: &str, now: u64) -> Step<'static> {
        self.count(Fault::new(flag, message), now)
    }

    /// Refuses one frame; too many of them end the connection.
    fn count(&mut self, fault: Fault, now: u64) -> Step<'static> {
        let many = self.faults.add(
            now,
            self.limits.faults_max,
            millis(self.limits.faults_within),
        );
        if many {
            return self.end(fault, CloseReason::Abuse);
        }
        Step::refused(fault)
    }

    fn end(&mut self, fault: Fault, reason: CloseReason) -> Step<'static> {
        if self.is_closed() {
            return Step::default();
        }
        self.state = State::Closed;
        Step {
            close: Some(reason),
            ..Step::refused(fault)
        }
    }
}

/// Whoever a payload names as its sender is the sender of the envelope.
fn speaks_for_itself(field: &str, named: &str, id: &str) -> Result<(), Fault> {
    if named == id {
        return Ok(());
    }
    let message = format!("payload.{field}: must be the sender.id {id}");
    Err(Fault::new(Flag::RoleForbidden, message))
}

/// What becomes of a first frame that is not taken.
enum Turned {
    Away(Fault),
    Incompatible(ProtocolIncompatibility),
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

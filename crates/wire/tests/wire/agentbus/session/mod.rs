//! The director's side of a connection, in virtual time.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_wire::agentbus::message::{Inbound, Outbound, ProtocolError};
use switchboard_wire::agentbus::session::{CloseReason, Limits, Session, Step};
use switchboard_wire::agentbus::{ErrorCode, Flag};

mod frames;
mod time;

use super::{golden, set};

const SECOND: u64 = 1000;

struct Wire {
    session: Session,
    now: u64,
}

impl Wire {
    fn new(limits: Limits) -> Self {
        Self {
            session: Session::new(Arc::new(limits), 0),
            now: 0,
        }
    }

    /// A worker that was welcomed; its hello had the number 1.
    fn open() -> Self {
        let mut wire = Self::new(Limits::default());
        wire.welcome();
        wire
    }

    fn welcome(&mut self) {
        let seen = self.say(&hello());
        assert_eq!(seen.accepted.as_deref(), Some("hello"));
        self.session.welcomed(self.now);
        assert!(self.session.is_open());
    }

    fn say(&mut self, frame: &Value) -> Seen {
        self.bytes(frame.to_string().as_bytes())
    }

    fn bytes(&mut self, line: &[u8]) -> Seen {
        Seen::of(self.session.line(line, self.now))
    }

    fn tick_at(&mut self, now: u64) -> Seen {
        self.now = now;
        Seen::of(self.session.tick(now))
    }
}

/// A step, without what it borrows.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    accepted: Option<String>,
    seq: Option<u64>,
    flags: Vec<Flag>,
    error: Option<ProtocolError>,
    sent: Option<String>,
    close: Option<CloseReason>,
}

impl Seen {
    fn of(step: Step<'_>) -> Self {
        let mut seen = Seen {
            flags: step.flags.iter().collect(),
            close: step.close,
            ..Seen::default()
        };
        if let Some(accepted) = step.accept {
            seen.seq = Some(accepted.envelope.seq);
            seen.accepted = Some(match accepted.message {
                Inbound::Hello(_) => "hello".to_owned(),
                Inbound::Heartbeat(beat) => format!("beat {}", beat.state.stage),
                other => format!("{other:?}").chars().take(12).collect(),
            });
        }
        match step.send.map(|message| *message) {
            Some(Outbound::Error(error)) => seen.error = Some(error),
            Some(other) => seen.sent = Some(serde_json::to_string(&other).expect("JSON")),
            None => {}
        }
        seen
    }

    fn code(&self) -> Option<ErrorCode> {
        self.error.as_ref().map(|error| error.code)
    }
}

fn hello() -> Value {
    golden("protocol_hello.v1")
}

fn operator_hello() -> Value {
    let mut hello = golden("protocol_hello.v1.operator");
    set(&mut hello, "/seq", json!(1));
    hello
}

fn beat(seq: u64) -> Value {
    let mut beat = golden("heartbeat.v1");
    set(&mut beat, "/seq", json!(seq));
    beat
}

fn with(mut frame: Value, pointer: &str, value: Value) -> Value {
    set(&mut frame, pointer, value);
    frame
}

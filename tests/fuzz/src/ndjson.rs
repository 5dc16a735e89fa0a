//! Anything at all on a connection of the bus.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::codec::{Line, Lines};
use switchboard_wire::agentbus::envelope::{self, FrameWriter};
use switchboard_wire::agentbus::message::{Inbound, Message as _};
use switchboard_wire::agentbus::session::{Accepted, Limits, Peer, Rate, Session, Step};

/// The longest line that is taken.
pub const LINE_BYTES_MAX: usize = 4096;

pub fn check(bytes: &[u8]) {
    let mut accepted = None;
    for size in [1, 7, 100, bytes.len().max(1)] {
        let mut watched = Watched::new();
        bytes.chunks(size).for_each(|chunk| watched.feed(chunk));
        let first = accepted.get_or_insert_with(|| watched.accepted.clone());
        assert_eq!(*first, watched.accepted, "it depends on how bytes arrive");
        watched.silence();
    }
}

/// A connection that notes what must never happen.
pub struct Watched {
    lines: Lines,
    session: Session,
    now: u64,
    /// The numbers of the frames that came through.
    pub accepted: Vec<u64>,
    pub sent: usize,
    pub closed: bool,
}

impl Default for Watched {
    fn default() -> Self {
        Self::new()
    }
}

impl Watched {
    pub fn new() -> Self {
        let limits = Limits {
            rate: Some(Rate {
                per_second: 100,
                burst: 50,
            }),
            silent_after: Duration::from_secs(90),
            ..Limits::default()
        };
        Self {
            lines: Lines::new(LINE_BYTES_MAX),
            session: Session::new(Arc::new(limits), 0),
            now: 0,
            accepted: Vec::new(),
            sent: 0,
            closed: false,
        }
    }

    pub fn feed(&mut self, chunk: &[u8]) {
        let mut lines = std::mem::replace(&mut self.lines, Lines::new(0));
        let mut feed = lines.feed(chunk);
        while let Some(line) = feed.next() {
            let step = match line {
                Line::Whole(line) => self.session.line(line, self.now),
                Line::Oversize { .. } => self.session.oversize(self.now),
            };
            if note(&step, &mut self.accepted, &mut self.sent, &mut self.closed) {
                self.session.welcomed(self.now);
            }
        }
        assert!(lines.held_bytes() <= LINE_BYTES_MAX + 1);
        self.lines = lines;
    }

    pub fn wait(&mut self, millis: u64) {
        self.now += millis;
        let step = self.session.tick(self.now);
        note(&step, &mut self.accepted, &mut self.sent, &mut self.closed);
        assert_eq!(self.closed, self.session.is_closed());
        if let Some(due) = self.session.due_at() {
            assert!(due > self.now, "{due} is not after {}", self.now);
        }
    }

    /// Nothing more is said, and the hub looks whenever it is time to: it ends for all but operators, who may be silent.
    pub fn silence(&mut self) {
        while let Some(due) = self.session.due_at() {
            self.wait(due - self.now);
        }
        let is_operator = |peer: &Peer| peer.role == Role::Operator;
        assert!(self.closed || self.session.peer().is_some_and(is_operator));
    }
}

/// Whether a hello is to be welcomed.
fn note(step: &Step<'_>, accepted: &mut Vec<u64>, sent: &mut usize, closed: &mut bool) -> bool {
    assert!(
        !*closed || (step.accept.is_none() && step.send.is_none() && step.close.is_none()),
        "something after the end: {step:?}"
    );
    *closed |= step.close.is_some();
    *sent += usize::from(step.send.is_some());
    let Some(frame) = &step.accept else {
        return false;
    };
    let is_hello = matches!(frame.message, Inbound::Hello(_));
    assert_eq!(
        is_hello,
        accepted.is_empty(),
        "the first and only the first is a hello"
    );
    let last = accepted.last();
    assert!(last.is_none_or(|last| *last < frame.envelope.seq));
    accepted.push(frame.envelope.seq);
    same_when_passed_on(frame);
    is_hello
}

/// A frame that is passed on, or written anew, is one line and the same to whoever reads it.
fn same_when_passed_on(frame: &Accepted<'_>) {
    let mut writer = FrameWriter::new(frame.envelope.sender.clone().into_owned());
    let mut out = Vec::new();
    writer.pass_on(&frame.envelope, &mut out);
    writer.write(frame.envelope.sent_at, &frame.message, &mut out);
    let lines: Vec<&[u8]> = out.split_inclusive(|byte| *byte == b'\n').collect();
    let [passed, written] = lines[..] else {
        panic!("not two lines: {}", String::from_utf8_lossy(&out));
    };
    for (line, seq) in [(passed, 1), (written, 2)] {
        let read = envelope::decode(line.trim_ascii_end()).unwrap();
        assert_eq!(read.seq, seq);
        assert_eq!(read.sender, frame.envelope.sender);
        assert_eq!(read.sent_at, frame.envelope.sent_at);
        assert_eq!(&*read.message_type, frame.message.message_type().as_str());
        let message = Inbound::decode(&read).unwrap().unwrap();
        assert_eq!(message, frame.message);
    }
}

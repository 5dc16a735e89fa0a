//! Anything at all on a connection: the kept corpus first, then random frames, bytes and times.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use switchboard_wire::agentbus::codec::{Line, Lines};
use switchboard_wire::agentbus::message::Inbound;
use switchboard_wire::agentbus::session::{Limits, Rate, Session, Step};

use super::{corpus, golden, golden_names, set};

const MAX: usize = 4096;

/// A connection that notes what must never happen.
struct Watched {
    lines: Lines,
    session: Session,
    now: u64,
    accepted: Vec<u64>,
    sent: usize,
    closed: bool,
}

impl Watched {
    fn new() -> Self {
        let limits = Limits {
            rate: Some(Rate {
                per_second: 100,
                burst: 50,
            }),
            silent_after: Duration::from_secs(90),
            ..Limits::default()
        };
        Self {
            lines: Lines::new(MAX),
            session: Session::new(Arc::new(limits), 0),
            now: 0,
            accepted: Vec::new(),
            sent: 0,
            closed: false,
        }
    }

    fn feed(&mut self, chunk: &[u8]) {
        let mut lines = std::mem::replace(&mut self.lines, Lines::new(0));
        let mut feed = lines.feed(chunk);
        while let Some(line) = feed.next() {
            let step = match line {
                Line::Whole(line) => self.session.line(line, self.now),
                Line::Oversize { .. } => self.session.oversize(self.now),
            };
            let welcomed = note(&step, &mut self.accepted, &mut self.sent, &mut self.closed);
            if welcomed {
                self.session.welcomed(self.now);
            }
        }
        assert!(lines.held_bytes() <= MAX + 1);
        self.lines = lines;
    }

    /// Nothing more is said, and the hub looks whenever it is time to.
    fn silence(&mut self) {
        while let Some(due) = self.session.due_at() {
            self.wait(due - self.now);
        }
    }

    fn wait(&mut self, millis: u64) {
        self.now += millis;
        let step = self.session.tick(self.now);
        note(&step, &mut self.accepted, &mut self.sent, &mut self.closed);
        assert_eq!(self.closed, self.session.is_closed());
        if let Some(due) = self.session.due_at() {
            assert!(due > self.now, "{due} is not after {}", self.now);
        }
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
    assert!(
        accepted
            .last()
            .is_none_or(|last| *last < frame.envelope.seq)
    );
    accepted.push(frame.envelope.seq);
    is_hello
}

#[test]
fn the_kept_corpus_is_taken_in_any_chunks() {
    // How many frames each file brings through.
    let expected = [
        ("arrays_and_scalars", 2),
        ("binary", 0),
        ("clock_skew", 3),
        ("deep_json", 1),
        ("empty_lines_and_crlf", 2),
        ("flood_of_faults", 1),
        ("hello_replayed", 2),
        ("hello_then_beats", 4),
        ("http_request", 0),
        ("huge_numbers", 2),
        ("invalid_utf8", 1),
        ("length_prefixed", 0),
        ("no_newline_at_all", 0),
        ("other_schema", 1),
        ("oversize_line_between_good_ones", 2),
        ("repeated_members", 1),
        ("role_words", 1),
        ("sender_changes", 2),
        ("seq_repeats_and_steps_back", 4),
        ("tls_client_hello", 0),
        ("unfinished_tail", 2),
    ];
    let files = corpus();
    for (name, accepted) in expected {
        assert!(files.iter().any(|(file, _)| file == name), "{name} is gone");
        for (file, bytes) in &files {
            if file != name {
                continue;
            }
            for size in [1, 7, 100, 1 << 20] {
                let mut watched = Watched::new();
                for chunk in bytes.chunks(size) {
                    watched.feed(chunk);
                }
                assert_eq!(watched.accepted.len(), accepted, "{name} by {size}");
            }
        }
    }
    for (name, bytes) in files {
        let mut watched = Watched::new();
        watched.feed(&bytes);
        watched.silence();
        assert!(watched.closed, "{name}: silence ends every connection");
    }
}

#[derive(Clone, Debug)]
enum Move {
    Frame(String, u64),
    Bent(String, u64, prop::sample::Index, u8),
    Bytes(Vec<u8>),
    Long(usize),
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let name = || prop::sample::select(golden_names());
    let seq = || prop_oneof![0_u64..40, any::<u64>()];
    let one = prop_oneof![
        4 => (name(), seq()).prop_map(|(name, seq)| Move::Frame(name, seq)),
        2 => (Just("heartbeat.v1".to_owned()), seq()).prop_map(|(name, seq)| Move::Frame(name, seq)),
        2 => (name(), seq(), any::<prop::sample::Index>(), any::<u8>())
            .prop_map(|(name, seq, at, byte)| Move::Bent(name, seq, at, byte)),
        2 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Move::Bytes),
        1 => (0..3 * MAX).prop_map(Move::Long),
        2 => (0_u64..100_000).prop_map(Move::Wait),
    ];
    (any::<bool>(), prop::collection::vec(one, 0..60)).prop_map(|(greeted, mut moves)| {
        if greeted {
            moves.insert(0, Move::Frame("protocol_hello.v1".to_owned(), 0));
        }
        moves
    })
}

fn line(name: &str, seq: u64) -> Vec<u8> {
    let mut frame = golden(name);
    set(&mut frame, "/seq", json!(seq));
    let mut line = frame.to_string().into_bytes();
    line.push(b'\n');
    line
}

proptest! {
    #[test]
    fn no_connection_does_what_it_must_not(moves in moves(), size in 1_usize..5000) {
        let mut watched = Watched::new();
        for next in moves {
            let bytes = match next {
                Move::Frame(name, seq) => line(&name, seq),
                Move::Bent(name, seq, at, byte) => {
                    let mut bytes = line(&name, seq);
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                    bytes
                }
                Move::Bytes(bytes) => bytes,
                Move::Long(len) => vec![b'x'; len],
                Move::Wait(millis) => {
                    watched.wait(millis);
                    continue;
                }
            };
            for chunk in bytes.chunks(size) {
                watched.feed(chunk);
            }
        }
        watched.silence();
        // An operator is not watched for silence; anyone else is gone by now.
        let operator = watched.session.peer().is_some_and(|peer| &*peer.id == "operator-1");
        prop_assert!(watched.closed || operator);
    }

    #[test]
    fn random_bytes_are_never_a_frame(bytes in prop::collection::vec(any::<u8>(), 0..2000), size in 1_usize..300) {
        let mut watched = Watched::new();
        for chunk in bytes.chunks(size) {
            watched.feed(chunk);
        }
        prop_assert!(watched.accepted.is_empty());
        prop_assert!(watched.sent <= 1);
    }
}

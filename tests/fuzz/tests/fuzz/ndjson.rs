//! Frames in a row, with pauses between them; and how many of each kept file come through.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use switchboard_fuzz::ndjson::{LINE_BYTES_MAX, Watched};

use crate::{corpus, files, root};

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
    let files = corpus("ndjson");
    for (name, accepted) in expected {
        let (_, bytes) = files.iter().find(|(file, _)| file == name).expect(name);
        let mut watched = Watched::new();
        watched.feed(bytes);
        assert_eq!(watched.accepted.len(), accepted, "{name}");
    }
}

#[derive(Clone, Debug)]
enum Move {
    Frame(Value, u64),
    Bent(Value, u64, Index, u8),
    Bytes(Vec<u8>),
    Long(usize),
    Wait(u64),
}

impl Move {
    fn bytes(self) -> Vec<u8> {
        match self {
            Move::Frame(frame, seq) => line(frame, seq),
            Move::Bent(frame, seq, at, byte) => {
                let mut bytes = line(frame, seq);
                let at = at.index(bytes.len());
                bytes[at] = byte;
                bytes
            }
            Move::Bytes(bytes) => bytes,
            Move::Long(len) => vec![b'x'; len],
            Move::Wait(_) => Vec::new(),
        }
    }
}

fn line(mut frame: Value, seq: u64) -> Vec<u8> {
    frame["seq"] = seq.into();
    format!("{frame}\n").into_bytes()
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let golden = |name: &str| -> Vec<Value> {
        let all = files(&root("crates/wire/golden/agentbus"));
        let of = all.iter().filter(|(file, _)| file.starts_with(name));
        of.map(|(_, bytes)| serde_json::from_slice(bytes).unwrap())
            .collect()
    };
    let any_frame = prop::sample::select(golden(""));
    let beat = prop::sample::select(golden("heartbeat.v1"));
    let [hello] = &golden("protocol_hello.v1.json")[..] else {
        panic!("there is one hello of a worker");
    };
    let hello = Move::Frame(hello.clone(), 0);
    let seq = || prop_oneof![0_u64..40, any::<u64>()];
    let one = prop_oneof![
        4 => (any_frame.clone(), seq()).prop_map(|(frame, seq)| Move::Frame(frame, seq)),
        2 => (beat, seq()).prop_map(|(frame, seq)| Move::Frame(frame, seq)),
        2 => (any_frame, seq(), any::<Index>(), any::<u8>())
            .prop_map(|(frame, seq, at, byte)| Move::Bent(frame, seq, at, byte)),
        2 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Move::Bytes),
        1 => (0..3 * LINE_BYTES_MAX).prop_map(Move::Long),
        2 => (0_u64..100_000).prop_map(Move::Wait),
    ];
    (any::<bool>(), prop::collection::vec(one, 0..60)).prop_map(move |(greeted, mut moves)| {
        if greeted {
            moves.insert(0, hello.clone());
        }
        moves
    })
}

/// The same without the pauses.
pub fn frames() -> BoxedStrategy<Vec<u8>> {
    let bytes = |moves: Vec<Move>| moves.into_iter().flat_map(Move::bytes).collect();
    moves().prop_map(bytes).boxed()
}

proptest! {
    #[test]
    fn no_connection_does_what_it_must_not(moves in moves(), size in 1_usize..5000) {
        let mut watched = Watched::new();
        for next in moves {
            if let Move::Wait(millis) = next {
                watched.wait(millis);
                continue;
            }
            next.bytes().chunks(size).for_each(|chunk| watched.feed(chunk));
        }
        watched.silence();
    }

    #[test]
    fn random_bytes_are_never_a_frame(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut watched = Watched::new();
        watched.feed(&bytes);
        prop_assert!(watched.accepted.is_empty());
        prop_assert!(watched.sent <= 1);
    }
}

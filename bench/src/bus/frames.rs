//! Frames as workers and operators send them: printed once by the hub's own codec, then renumbered in place, so that sending
//! costs the generator next to nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memmem;
use switchboard_wire::agentbus::envelope::{Header, Sender, encode};
use switchboard_wire::agentbus::message::{
    BranchState, CAPABILITY_ASSIGN, CatalogRefreshRequest, Heartbeat, Hello, HelloRepo,
    HelloWorker, Message, StepProgress, WorkerState,
};
use switchboard_wire::agentbus::{PROTOCOL_VERSION, Role, Stage, Text, UtcTime};

/// The number of a hello; those after it have as many digits.
pub const FIRST_SEQ: u64 = 1_000_000_000;
const SEQ_DIGITS: usize = 10;
const SEQ_NAME: &str = r#""seq":"#;
/// What a heartbeat's step says before its stamp.
const STEP: &str = "beat ";
const STAMP_DIGITS: usize = 16;
/// The issue of workers that only report; the hub has no such task.
const ISSUE: u64 = 21;

/// What a worker is on the bus for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Tells what it does, and wants nothing.
    Reports,
    /// Stands in the queue for a task.
    Waits,
}

impl Manner {
    pub fn name(self) -> &'static str {
        match self {
            Self::Reports => "only report",
            Self::Waits => "wait for tasks",
        }
    }

    fn capabilities(self) -> Vec<String> {
        let mut listed = vec!["rust".to_owned()];
        if self == Self::Waits {
            listed.push(CAPABILITY_ASSIGN.to_owned());
        }
        listed
    }

    fn state(self, step: String, percent: f64) -> WorkerState<'static> {
        let (stage, issue_number) = match self {
            Self::Reports => (Stage::Code, ISSUE),
            Self::Waits => (Stage::Start, 0),
        };
        WorkerState {
            stage,
            issue_number,
            attempt: 1,
            progress: Some(StepProgress {
                step: Text::from(step),
                percent,
            }),
            repo: Some(BranchState {
                branch_name: Some(Text::from("agent/one-function")),
                base_branch: Some(Text::from("main")),
                ..BranchState::default()
            }),
            last_error_id: None,
            last_update_at: now(),
        }
    }
}

/// The name of the bench's worker with this number.
pub fn worker_name(number: usize) -> String {
    format!("worker-{number}")
}

/// What a worker says first.
pub fn worker_hello(id: &str, manner: Manner) -> Vec<u8> {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION.to_string(),
        capabilities: manner.capabilities(),
        worker: Some(HelloWorker {
            worker_id: id.to_owned(),
            ..HelloWorker::default()
        }),
        repo: Some(HelloRepo::default()),
        auth: None,
    };
    print(Role::Worker, id, FIRST_SEQ, &hello)
}

/// What an operator says first.
pub fn operator_hello(id: &str) -> Vec<u8> {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION.to_string(),
        capabilities: Vec::new(),
        worker: None,
        repo: None,
        auth: None,
    };
    print(Role::Operator, id, FIRST_SEQ, &hello)
}

/// One frame with its line's end.
pub fn print(role: Role, id: &str, seq: u64, message: &impl Message) -> Vec<u8> {
    let sender = Sender {
        role,
        id: Text::from(id),
        run_id: None,
    };
    let header = Header {
        sent_at: now(),
        sender: &sender,
        seq,
    };
    let mut out = Vec::new();
    encode(header, message.message_type().as_str(), message, &mut out);
    out
}

/// A worker's heartbeat, sent again and again under the next number and with a new stamp.
pub struct Beat {
    line: Vec<u8>,
    seq: u64,
    seq_at: usize,
    stamp_at: usize,
}

impl Beat {
    pub fn new(id: &str, manner: Manner) -> Self {
        let step = format!("{STEP}{}", "0".repeat(STAMP_DIGITS));
        let state = manner.state(step, 50.0);
        let line = print(Role::Worker, id, FIRST_SEQ, &Heartbeat { state });
        Self {
            seq_at: seq_at(&line),
            stamp_at: stamp_at(&line).expect("its step was just printed"),
            seq: FIRST_SEQ,
            line,
        }
    }

    /// The next one. A stamp has at most 16 digits.
    pub fn next(&mut self, stamp: u64) -> &[u8] {
        self.seq += 1;
        write_digits(&mut self.line[self.seq_at..][..SEQ_DIGITS], self.seq);
        write_digits(&mut self.line[self.stamp_at..][..STAMP_DIGITS], stamp);
        &self.line
    }
}

/// The stamp in a heartbeat, also in one that was passed on.
pub fn stamp_of(line: &[u8]) -> Option<u64> {
    let digits = line.get(stamp_at(line)?..)?.get(..STAMP_DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Many heartbeats of one worker and, at the end, a request that is answered once all of them are handled.
pub struct Block {
    bytes: Vec<u8>,
    seq: u64,
    seqs_at: Vec<usize>,
}

impl Block {
    /// Of so many frames, the last one included.
    pub fn new(id: &str, frames: usize) -> Self {
        let mut block = Self {
            bytes: Vec::new(),
            seq: FIRST_SEQ,
            seqs_at: Vec::with_capacity(frames),
        };
        for number in 1..frames {
            let step = format!("{STEP}{number}");
            let state = Manner::Reports.state(step, (number % 100) as f64);
            let beat = print(Role::Worker, id, FIRST_SEQ, &Heartbeat { state });
            block.push(&beat);
        }
        let request = CatalogRefreshRequest {
            have_version: None,
            have_hash: None,
        };
        block.push(&print(Role::Worker, id, FIRST_SEQ, &request));
        block
    }

    fn push(&mut self, frame: &[u8]) {
        self.seqs_at.push(self.bytes.len() + seq_at(frame));
        self.bytes.extend_from_slice(frame);
    }

    /// Gives every frame the number after that of the one before.
    pub fn renumber(&mut self) {
        for &at in &self.seqs_at {
            self.seq += 1;
            write_digits(&mut self.bytes[at..][..SEQ_DIGITS], self.seq);
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn now() -> UtcTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UtcTime(since.map_or(0, |since| since.as_millis() as i64))
}

fn seq_at(line: &[u8]) -> usize {
    let found = memmem::find(line, SEQ_NAME.as_bytes());
    found.expect("every frame has its number") + SEQ_NAME.len()
}

fn stamp_at(line: &[u8]) -> Option<usize> {
    const BEFORE: &str = r#""step":"beat "#;
    memmem::find(line, BEFORE.as_bytes()).map(|at| at + BEFORE.len())
}

fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::agentbus::envelope::decode;
    use switchboard_wire::agentbus::message::Inbound;

    use super::*;

    #[test]
    fn each_beat_is_a_sound_frame_under_the_next_number() {
        for manner in [Manner::Reports, Manner::Waits] {
            let mut beat = Beat::new("worker-7", manner);
            for (seq, stamp) in [(1, 0), (2, 1_234_567), (3, 9_999_999_999_999_999)] {
                let line = beat.next(stamp);
                let envelope = decode(line.trim_ascii_end()).expect("an envelope");
                assert_eq!(envelope.seq, FIRST_SEQ + seq);
                let read = Inbound::decode(&envelope).expect("a worker may send it");
                assert!(matches!(read, Ok(Inbound::Heartbeat(_))));
                assert_eq!(stamp_of(line), Some(stamp));
            }
        }
    }

    #[test]
    fn a_block_goes_on_counting_from_one_sending_to_the_next() {
        let mut block = Block::new("worker-7", 3);
        let mut seq = FIRST_SEQ;
        for _ in 0..2 {
            block.renumber();
            let lines = block.bytes().trim_ascii_end().split(|byte| *byte == b'\n');
            let mut types = Vec::new();
            for line in lines {
                let envelope = decode(line).expect("an envelope");
                seq += 1;
                assert_eq!(envelope.seq, seq);
                types.push(envelope.message_type.as_str().to_owned());
            }
            let expected = ["heartbeat.v1", "heartbeat.v1", "catalog_refresh_request.v1"];
            assert_eq!(types, expected);
        }
    }

    #[test]
    fn both_hellos_are_what_a_director_wants_of_their_roles() {
        let hellos = [
            (worker_hello("w", Manner::Waits), Role::Worker, true),
            (worker_hello("w", Manner::Reports), Role::Worker, false),
            (operator_hello("o"), Role::Operator, false),
        ];
        for (line, role, assigns) in hellos {
            let envelope = decode(line.trim_ascii_end()).expect("an envelope");
            let Some(Ok(Inbound::Hello(hello))) = Inbound::decode(&envelope) else {
                panic!("no hello");
            };
            hello.check_for(role).expect("complete");
            assert_eq!(hello.can(CAPABILITY_ASSIGN), assigns);
        }
    }
}

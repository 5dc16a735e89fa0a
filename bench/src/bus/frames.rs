//! Frames as workers and operators send them: printed once, then renumbered in place, so that sending costs the generator next to
//! nothing.

use memchr::memmem;

/// The number of a hello; those after it have as many digits.
const FIRST_SEQ: u64 = 1_000_000_000;
const SEQ_DIGITS: usize = 10;
const SEQ_NAME: &str = r#""seq":"#;
/// What stands before a heartbeat's stamp, also in one that was passed on.
const STAMP_NAME: &str = r#""step":"beat "#;
const STAMP_DIGITS: usize = 16;

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

    /// Who reports names an issue of which the hub has no task.
    fn beat(self, id: &str, step: &str) -> String {
        let (stage, issue) = match self {
            Self::Reports => ("CODE", 21),
            Self::Waits => ("START", 0),
        };
        let state = format!(
            r#"{{"state":{{"stage":"{stage}","issue_number":{issue},"attempt":1,"progress":{{"step":"beat {step}","percent":50}},"repo":{{"branch_name":"agent/one-function","base_branch":"main"}},"last_update_at":"2026-01-19T10:00:00.000Z"}}}}"#
        );
        frame("worker", id, "heartbeat.v1", &state)
    }
}

/// The name of the bench's worker with this number.
pub fn worker_name(number: usize) -> String {
    format!("worker-{number}")
}

/// What a worker says first.
pub fn worker_hello(id: &str, manner: Manner) -> Vec<u8> {
    let capabilities = match manner {
        Manner::Reports => r#"["rust"]"#,
        Manner::Waits => r#"["rust","assign.v1"]"#,
    };
    let hello = format!(
        r#"{{"protocol_version":"0.1","capabilities":{capabilities},"worker":{{"worker_id":"{id}"}},"repo":{{}}}}"#
    );
    frame("worker", id, "protocol_hello.v1", &hello).into_bytes()
}

/// What an operator says first.
pub fn operator_hello(id: &str) -> Vec<u8> {
    let hello = r#"{"protocol_version":"0.1","capabilities":[]}"#;
    frame("operator", id, "protocol_hello.v1", hello).into_bytes()
}

/// One frame with its line's end.
fn frame(role: &str, id: &str, kind: &str, payload: &str) -> String {
    format!(
        "{{\"schema_version\":\"agentbus-envelope/v1\",\"message_type\":\"{kind}\",\"sent_at\":\"2026-01-19T10:00:00.000Z\",\
         \"sender\":{{\"role\":\"{role}\",\"id\":\"{id}\"}},{SEQ_NAME}{FIRST_SEQ},\"payload\":{payload}}}\n"
    )
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
        let line = manner.beat(id, &"0".repeat(STAMP_DIGITS)).into_bytes();
        Self {
            seq_at: behind(&line, SEQ_NAME).expect("every frame has its number"),
            stamp_at: behind(&line, STAMP_NAME).expect("its step was just printed"),
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
    let digits = line.get(behind(line, STAMP_NAME)?..)?.get(..STAMP_DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Many heartbeats of one worker and, at the end, a request that is answered once all of them are handled.
pub struct Block {
    pub bytes: Vec<u8>,
    seq: u64,
    seqs_at: Vec<usize>,
}

impl Block {
    /// Of so many frames, the last one included.
    pub fn new(id: &str, frames: usize) -> Self {
        let beats = (1..frames).map(|number| Manner::Reports.beat(id, &number.to_string()));
        let request = frame("worker", id, "catalog_refresh_request.v1", "{}");
        let bytes = beats.chain([request]).collect::<String>().into_bytes();
        let named = memmem::find_iter(&bytes, SEQ_NAME);
        Self {
            seqs_at: named.map(|at| at + SEQ_NAME.len()).collect(),
            seq: FIRST_SEQ,
            bytes,
        }
    }

    /// Gives every frame the number after that of the one before.
    pub fn renumber(&mut self) {
        for &at in &self.seqs_at {
            self.seq += 1;
            write_digits(&mut self.bytes[at..][..SEQ_DIGITS], self.seq);
        }
    }
}

fn behind(line: &[u8], name: &str) -> Option<usize> {
    memmem::find(line, name.as_bytes()).map(|at| at + name.len())
}

fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

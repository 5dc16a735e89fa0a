//! The envelope around every message: read with the field to blame, written as one line.
//!
//! A member that is named twice is refused; members that nobody here knows are let through, and stay where a frame is
//! passed on ([`Envelope::passed_on`]) or kept whole ([`Envelope::line`]).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, from_str};

use super::check;
use super::fault::{Fault, Flag};
use super::message::Message;
use super::text::Text;
use super::utc::UtcTime;
use super::words::Role;
use crate::malformed::{Malformed, parse, too_deep};
use crate::object::{Object, object};

/// The one version of the envelope.
pub const SCHEMA_VERSION: &str = "agentbus-envelope/v1";
/// The largest sequence number: beyond it a reader in JavaScript would lose count.
pub const SEQ_MAX: u64 = check::NUMBER_MAX;

/// A frame whose envelope is sound; its payload is still text.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    pub message_type: Text<'a>,
    /// The sender's clock; it orders nothing.
    pub sent_at: UtcTime,
    pub sender: Sender<'a>,
    pub seq: u64,
    pub payload: &'a RawValue,
    line: &'a str,
    seq_at: usize,
    seq_len: usize,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender<'a> {
    pub role: Role,
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    schema_version: Text<'a>,
    #[serde(borrow)]
    message_type: Text<'a>,
    sent_at: UtcTime,
    #[serde(borrow, deserialize_with = "object")]
    sender: Sender<'a>,
    #[serde(borrow)]
    seq: &'a RawValue,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// Reads one line.
pub fn decode(line: &[u8]) -> Result<Envelope<'_>, Fault> {
    let line = std::str::from_utf8(line).map_err(|error| {
        let place = error.valid_up_to();
        Fault::new(Flag::BadJson, format!("not UTF-8 at byte {place}"))
    })?;
    if too_deep(line.as_bytes()) {
        return Err(Fault::new(Flag::BadJson, "nested too deeply"));
    }
    match from_str::<Object<Raw<'_>>>(line) {
        Ok(Object(raw)) => check(line, raw).map_err(|malformed| explain(line, malformed)),
        Err(_) => Err(blame(line)),
    }
}

fn check<'a>(line: &'a str, raw: Raw<'a>) -> Result<Envelope<'a>, Malformed> {
    if raw.schema_version != SCHEMA_VERSION {
        return Err(Malformed::field("schema_version", "is not known"));
    }
    check::filled(
        "message_type",
        &raw.message_type,
        switchboard_core::limits::NAME_BYTES_MAX,
    )?;
    check_sender_id(&raw.sender.id)?;
    check::maybe_word("sender.run_id", raw.sender.run_id.as_deref())?;
    let digits = raw.seq.get();
    let seq = digits
        .parse()
        .ok()
        .filter(|seq| *seq <= SEQ_MAX)
        .ok_or_else(|| Malformed::field("seq", "expected a whole number from 0 to 2^53"))?;
    if !raw.payload.get().starts_with('{') {
        return Err(Malformed::field("payload", "expected an object"));
    }
    Ok(Envelope {
        message_type: raw.message_type,
        sent_at: raw.sent_at,
        sender: raw.sender,
        seq,
        payload: raw.payload,
        line,
        seq_at: digits.as_ptr() as usize - line.as_ptr() as usize,
        seq_len: digits.len(),
    })
}

/// Whether a sender may have this id.
pub fn check_sender_id(id: &str) -> Result<(), Malformed> {
    check::id("sender.id", id)
}

/// The slow way, for a line that is refused anyway.
fn blame(line: &str) -> Fault {
    if let Err(error) = from_str::<serde::de::IgnoredAny>(line) {
        return Fault::new(Flag::BadJson, format!("not valid JSON: {error}"));
    }
    let malformed = parse::<Raw<'_>>(line.as_bytes())
        .err()
        .unwrap_or_else(|| Malformed::whole("expected one JSON object"));
    explain(line, malformed)
}

/// Whatever else is wrong: an envelope of another version is none that could be judged here.
fn explain(line: &str, malformed: Malformed) -> Fault {
    let value: Value = from_str(line).unwrap_or_default();
    let fault = match value.get("schema_version").and_then(Value::as_str) {
        Some(version) if version != SCHEMA_VERSION => {
            let shown: String = version.chars().take(64).collect();
            let message =
                format!("schema_version: {shown:?} is not known; expected {SCHEMA_VERSION:?}");
            Fault::new(Flag::UnknownSchema, message)
        }
        Some(_) | None => Fault::new(Flag::BadEnvelope, malformed.to_string()),
    };
    fault.about(value.get("seq").and_then(Value::as_u64))
}

impl<'a> Envelope<'a> {
    /// The whole frame as it came.
    pub fn line(&self) -> &'a str {
        self.line
    }

    /// Writes the frame on under another number: everything else stays, also what nobody here knows.
    pub fn passed_on(&self, seq: u64, out: &mut Vec<u8>) {
        out.reserve(self.line.len() + 20);
        out.extend_from_slice(&self.line.as_bytes()[..self.seq_at]);
        out.extend_from_slice(seq.to_string().as_bytes());
        out.extend_from_slice(&self.line.as_bytes()[self.seq_at + self.seq_len..]);
        out.push(b'\n');
    }
}

impl Sender<'_> {
    /// Free of the line.
    pub fn into_owned(self) -> Sender<'static> {
        Sender {
            role: self.role,
            id: self.id.into_owned(),
            run_id: self.run_id.map(Text::into_owned),
        }
    }
}

/// What stands around a payload that is written.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    pub sent_at: UtcTime,
    pub sender: &'a Sender<'a>,
    pub seq: u64,
}

#[derive(Serialize)]
struct Written<'a, P: ?Sized> {
    schema_version: &'static str,
    message_type: &'a str,
    sent_at: UtcTime,
    sender: &'a Sender<'a>,
    seq: u64,
    payload: &'a P,
}

/// Appends one frame with its `\n`.
pub fn encode<P: Serialize + ?Sized>(
    header: Header<'_>,
    message_type: &str,
    payload: &P,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let written = Written {
        schema_version: SCHEMA_VERSION,
        message_type,
        sent_at: header.sent_at,
        sender: header.sender,
        seq: header.seq,
        payload,
    };
    serde_json::to_writer(&mut *out, &written).expect("messages print, and memory takes them");
    one_line(&mut out[start..]);
    out.push(b'\n');
}

/// JSON that is kept verbatim may have line breaks between its tokens; within strings there are none.
fn one_line(frame: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &frame[from..]) {
        frame[from + at] = b' ';
        from += at + 1;
    }
}

/// How many bytes of payload fit into a line of `max` bytes from this sender.
pub fn room(max: usize, message_type: &str, sender: &Sender<'_>) -> usize {
    let header = Header {
        sent_at: UtcTime(1),
        sender,
        seq: SEQ_MAX,
    };
    let mut frame = Vec::new();
    encode(header, message_type, &serde_json::Map::new(), &mut frame);
    // Of the empty frame, `{}` and the line's end do not count.
    max.saturating_sub(frame.len() - 3)
}

/// Numbers and writes the frames of one side of a connection.
#[derive(Clone, Debug)]
pub struct FrameWriter {
    sender: Sender<'static>,
    seq: u64,
}

impl FrameWriter {
    /// The first frame has the number 1.
    pub fn new(sender: Sender<'static>) -> Self {
        Self { sender, seq: 0 }
    }

    pub fn sender(&self) -> &Sender<'static> {
        &self.sender
    }

    /// The number of the last frame.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Appends one frame.
    pub fn write<M: Message>(&mut self, sent_at: UtcTime, message: &M, out: &mut Vec<u8>) {
        self.write_as(sent_at, message.message_type().as_str(), message, out);
    }

    /// Appends one frame whose payload may be any JSON object, such as one that was printed before.
    pub fn write_as<P: Serialize + ?Sized>(
        &mut self,
        sent_at: UtcTime,
        message_type: &str,
        payload: &P,
        out: &mut Vec<u8>,
    ) {
        self.seq += 1;
        let header = Header {
            sent_at,
            sender: &self.sender,
            seq: self.seq,
        };
        encode(header, message_type, payload, out);
    }

    /// Passes a frame of someone else on, under the next number.
    pub fn pass_on(&mut self, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
        self.seq += 1;
        envelope.passed_on(self.seq, out);
    }
}

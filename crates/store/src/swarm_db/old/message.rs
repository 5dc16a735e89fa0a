//! A message of an old file: what still waits for somebody comes along.

use switchboard_core::{Timestamp, limits};

use super::{Fields, Reason};

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: String,
    pub kind: String,
    pub from: String,
    pub to: String,
    pub payload: Option<String>,
    pub ack_required: bool,
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    Comes(Box<Message>),
    /// Read, run out, told to everyone of that day, or about a claim that is over.
    Past,
}

const CUSTOM: &str = "custom";
/// They speak of claims and leases, none of which comes along.
const OF_THE_MOMENT: [&str; 2] = ["task.handoff", "file.lock_request"];

impl Message {
    /// `now` stands in for instants that the file does not tell.
    pub fn read(fields: &Fields<'_>, now: Timestamp) -> Result<Fate, Reason> {
        let id = fields.own_id()?;
        let kind = fields.text("type", limits::ID_BYTES_MAX)?;
        let kind = kind.filter(|kind| is_kind(kind));
        let kind = kind.unwrap_or_else(|| CUSTOM.to_owned());
        let expires_at = fields.instant("expires_at")?;
        let read = fields.instant("delivered_at")?.is_some()
            || fields.instant("acknowledged_at")?.is_some();
        let Some(to) = fields.id("to_agent")? else {
            return Ok(Fate::Past);
        };
        let over = expires_at.is_some_and(|at| at <= now);
        if read || over || OF_THE_MOMENT.contains(&kind.as_str()) {
            return Ok(Fate::Past);
        }
        let from = fields.id("from_agent")?;
        Ok(Fate::Comes(Box::new(Message {
            from: from.ok_or_else(|| "it has no sender".to_owned())?,
            payload: fields.json("payload", limits::PAYLOAD_BYTES_MAX)?,
            ack_required: fields.yes("ack_required")?.unwrap_or(false),
            created_at: fields.instant("created_at")?.unwrap_or(now).min(now),
            id,
            kind,
            to,
            expires_at,
        })))
    }
}

/// Words joined by dots, as the hub takes them from anyone.
fn is_kind(text: &str) -> bool {
    let word = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        !part.is_empty() && part.bytes().all(plain)
    };
    text.contains('.') && text.split('.').all(word)
}

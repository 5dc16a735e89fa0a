//! What is wrong with a frame: told to its sender, counted here.

use super::message::ProtocolError;
use super::words::ErrorCode;
use crate::words::words;

words! {
    /// What is counted about connections.
    pub enum Flag {
        BadJson = "bad_json",
        BadEnvelope = "bad_envelope",
        BadPayload = "bad_payload",
        BadSeq = "bad_seq",
        SeqGap = "seq_gap",
        TooLarge = "too_large",
        UnknownType = "unknown_type",
        UnknownSchema = "unknown_schema",
        HelloRequired = "hello_required",
        HelloLate = "hello_late",
        HelloAgain = "hello_again",
        Incompatible = "incompatible",
        RoleForbidden = "role_forbidden",
        SenderChanged = "sender_changed",
        RateLimited = "rate_limited",
        Silent = "silent",
        Replaced = "replaced",
        Refused = "refused",
    }
}

/// A frame that is refused, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {message}")]
pub struct Fault {
    pub flag: Flag,
    /// For the sender: the field and what was expected there.
    pub message: String,
    /// The number of the frame, if it could be read.
    pub ref_seq: Option<u64>,
}

impl Fault {
    pub fn new(flag: Flag, message: impl Into<String>) -> Self {
        Self {
            flag,
            message: message.into(),
            ref_seq: None,
        }
    }

    /// Names the frame.
    pub fn about(mut self, seq: Option<u64>) -> Self {
        self.ref_seq = seq;
        self
    }

    /// The frame that tells the sender.
    pub fn into_error(self) -> ProtocolError {
        ProtocolError {
            code: self.flag.code(),
            message: self.message,
            ref_seq: self.ref_seq,
        }
    }
}

impl Flag {
    /// The code under which the sender hears of it.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::BadJson => ErrorCode::BadJson,
            Self::BadEnvelope
            | Self::BadPayload
            | Self::UnknownType
            | Self::UnknownSchema
            | Self::HelloAgain
            | Self::Incompatible
            | Self::SenderChanged => ErrorCode::BadEnvelope,
            Self::BadSeq | Self::SeqGap => ErrorCode::BadSeq,
            Self::TooLarge => ErrorCode::TooLarge,
            Self::HelloRequired | Self::HelloLate | Self::Silent => ErrorCode::HelloRequired,
            Self::RoleForbidden | Self::Refused => ErrorCode::RoleForbidden,
            Self::RateLimited => ErrorCode::RateLimited,
            Self::Replaced => ErrorCode::Replaced,
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A small set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    pub fn insert(&mut self, flag: Flag) {
        self.0 |= flag.bit();
    }

    pub fn contains(self, flag: Flag) -> bool {
        self.0 & flag.bit() != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL
            .iter()
            .copied()
            .filter(move |flag| self.contains(*flag))
    }
}

impl From<Flag> for Flags {
    fn from(flag: Flag) -> Self {
        Self(flag.bit())
    }
}

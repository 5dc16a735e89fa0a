//! What is to be done about a line or a tick.

use crate::agentbus::envelope::Envelope;
use crate::agentbus::fault::{Fault, Flag, Flags};
use crate::agentbus::message::{Inbound, Outbound};
use crate::words::words;

words! {
    /// Why a connection ends.
    pub enum CloseReason {
        HelloLate = "hello_late",
        NoHello = "no_hello",
        Incompatible = "incompatible",
        UnknownSchema = "unknown_schema",
        Abuse = "abuse",
        RateLimited = "rate_limited",
        Silent = "silent",
        Replaced = "replaced",
        Refused = "refused",
        Left = "left",
    }
}

/// What is to be done, in the order of the fields.
#[derive(Debug, Default)]
#[must_use]
pub struct Step<'a> {
    /// To be counted.
    pub flags: Flags,
    /// To be acted upon.
    pub accept: Option<Accepted<'a>>,
    /// To be sent.
    pub send: Option<Box<Outbound<'static>>>,
    /// The connection is over once everything is written.
    pub close: Option<CloseReason>,
}

/// A frame that is sound and allowed.
#[derive(Debug)]
pub struct Accepted<'a> {
    pub envelope: Envelope<'a>,
    pub message: Inbound<'a>,
}

impl<'a> Step<'a> {
    pub(super) fn flagged(flag: Flag) -> Self {
        Self {
            flags: flag.into(),
            ..Self::default()
        }
    }

    pub(super) fn refused(fault: Fault) -> Self {
        Self {
            flags: fault.flag.into(),
            send: Some(Box::new(fault.into_error().into())),
            ..Self::default()
        }
    }

    pub(super) fn with_gap(mut self, gap: bool) -> Self {
        if gap {
            self.flags.insert(Flag::SeqGap);
        }
        self
    }
}

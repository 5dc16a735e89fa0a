//! One client as others see it: what is on its way to it, and whether it stays.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use switchboard_core::MessageId;
use switchboard_wire::squidrun::frame::{self, Outbound};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::stream::{self, Outbox};

/// A send script is gone before; whoever is still there is a recipient.
pub(super) const YOUNG_FOR: Duration = Duration::from_secs(10);

/// What may be left unread before a connection is dropped.
const UNREAD_BYTES_MAX: usize = 1024 * 1024;

pub(super) struct Socket {
    pub id: u64,
    pub outbox: Outbox<Frame>,
    /// Until when it may turn out to be a passing sender.
    young_until: Instant,
    /// It sent something for others, or asked for somebody's health: what send scripts do, and nothing else.
    sends: AtomicBool,
    /// When it last sent a frame, by the wall clock in milliseconds.
    seen_ms: AtomicI64,
}

impl Socket {
    pub fn new(id: u64, now_ms: i64) -> Socket {
        Socket {
            id,
            outbox: Outbox::new(UNREAD_BYTES_MAX),
            young_until: Instant::now() + YOUNG_FOR,
            sends: AtomicBool::new(false),
            seen_ms: AtomicI64::new(now_ms),
        }
    }

    /// One of the hub's own, which is known to stay.
    pub fn resident(id: u64, now_ms: i64) -> Socket {
        Socket {
            young_until: Instant::now(),
            ..Socket::new(id, now_ms)
        }
    }

    pub fn young_until(&self) -> Instant {
        self.young_until
    }

    pub fn is_young(&self) -> bool {
        Instant::now() < self.young_until()
    }

    pub fn has_sent(&self) -> bool {
        self.sends.load(Ordering::Relaxed)
    }

    /// Registers its sender's role for a moment, and reads nothing but answers.
    pub fn is_passing(&self) -> bool {
        self.has_sent() && self.is_young()
    }

    /// Whether mail may be written to it.
    pub fn reads(&self) -> bool {
        !self.is_passing() && self.outbox.ended().is_none()
    }

    /// True if that is news.
    pub fn sends(&self) -> bool {
        !self.sends.swap(true, Ordering::Relaxed)
    }

    pub fn seen(&self, now_ms: i64) {
        self.seen_ms.store(now_ms, Ordering::Relaxed);
    }

    pub fn seen_ms(&self) -> i64 {
        self.seen_ms.load(Ordering::Relaxed)
    }

    pub fn tell(&self, outbound: &Outbound) {
        self.outbox.push(Frame::of(outbound));
    }
}

/// One frame in print. Its text is shared by all who get it.
pub(super) struct Frame {
    pub text: Utf8Bytes,
    /// The message that is handed over once this is written.
    pub mail: Option<MessageId>,
}

impl Frame {
    pub fn of(outbound: &Outbound) -> Frame {
        Frame {
            text: print(outbound),
            mail: None,
        }
    }
}

pub(super) fn print(outbound: &Outbound) -> Utf8Bytes {
    let mut out = Vec::with_capacity(512);
    frame::print(outbound, &mut out);
    Utf8Bytes::try_from(out).expect("JSON is UTF-8")
}

impl stream::Frame for Frame {
    fn bytes(&self) -> usize {
        const AROUND: usize = 64;
        AROUND + self.text.len()
    }

    fn mail(&self) -> Option<&MessageId> {
        self.mail.as_ref()
    }
}

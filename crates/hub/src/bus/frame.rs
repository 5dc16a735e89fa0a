//! What is sent to a connection of the bus, and how it is printed.

use std::sync::Arc;

use switchboard_core::MessageId;
use switchboard_wire::agentbus::UtcTime;
use switchboard_wire::agentbus::envelope::{self, FrameWriter};
use switchboard_wire::agentbus::message::Outbound;

use crate::stream;

pub(super) type Outbox = stream::Outbox<Frame>;

/// One thing to send.
pub(super) enum Frame {
    Message(Box<Outbound<'static>>),
    /// A line of somebody else, passed on under a number of this connection.
    Passed(Arc<str>),
    /// The last part of a message to this agent: once it is written, the message is handed over.
    Mail(Box<Outbound<'static>>, MessageId),
}

/// Puts a message on its way.
pub(super) fn send(outbox: &Outbox, message: impl Into<Outbound<'static>>) {
    outbox.push(Frame::Message(Box::new(message.into())));
}

impl Frame {
    /// Prints it; the message that is handed over once that is written goes into `mail`.
    pub fn print(
        self,
        writer: &mut FrameWriter,
        now: UtcTime,
        out: &mut Vec<u8>,
        mail: &mut Vec<MessageId>,
    ) {
        match self {
            Frame::Message(message) => writer.write(now, &*message, out),
            Frame::Mail(message, id) => {
                writer.write(now, &*message, out);
                mail.push(id);
            }
            Frame::Passed(line) => {
                // It was read once, so it can be read again.
                if let Ok(envelope) = envelope::decode(line.as_bytes()) {
                    writer.pass_on(&envelope, out);
                }
            }
        }
    }
}

impl stream::Frame for Frame {
    /// Messages are small unless they carry text.
    fn bytes(&self) -> usize {
        const ENVELOPE: usize = 512;
        ENVELOPE
            + match self {
                Frame::Passed(line) => line.len(),
                Frame::Message(message) | Frame::Mail(message, _) => text_bytes(message),
            }
    }

    fn mail(&self) -> Option<&MessageId> {
        match self {
            Frame::Mail(_, id) => Some(id),
            Frame::Message(_) | Frame::Passed(_) => None,
        }
    }
}

fn text_bytes(message: &Outbound<'_>) -> usize {
    match message {
        Outbound::TaskAssigned(task) => task.description.len() + 64 * task.files.len(),
        Outbound::AgentMessage(mail) => mail.body.get().len(),
        Outbound::Snapshot(snapshot) => {
            400 * snapshot.workers.len()
                + 8 * (snapshot.queue.eligible_issue_numbers.len()
                    + snapshot.queue.claimed_issue_numbers.len())
        }
        Outbound::CatalogSnapshot(catalog) => 300 * catalog.entries.len(),
        Outbound::CatalogDelta(delta) => 300 * delta.added.len() + 64 * delta.removed.len(),
        Outbound::EngramContent(engram) => engram.content.len(),
        _ => 0,
    }
}

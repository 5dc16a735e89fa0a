//! What is on its way to one connection: a queue that is bounded in bytes, filled by anyone, emptied by its connection.
//!
//! Whoever does not read fast enough loses the connection, never the memory of the hub or the time of others.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::MessageId;
use switchboard_wire::agentbus::UtcTime;
use switchboard_wire::agentbus::envelope::{self, FrameWriter};
use switchboard_wire::agentbus::message::Outbound;
use tokio::sync::Notify;

/// What may be left unread by one who gets a large message.
const READ_BUT_FOR: usize = 64 * 1024;

/// One thing to send.
pub(super) enum Frame {
    Message(Box<Outbound<'static>>),
    /// A line of somebody else, passed on under a number of this connection.
    Passed(Arc<str>),
    /// The last part of a message to this agent: once it is written, the message is handed over.
    Mail(Box<Outbound<'static>>, MessageId),
}

/// Why a connection is ended by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// A newer connection has the same id.
    Replaced,
    /// It did not read what was sent.
    Slow,
    /// Its agent was signed off.
    Gone,
    /// It said that it leaves.
    Left,
}

pub(super) struct Outbox {
    queue: Mutex<Queue>,
    bell: Notify,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<(Frame, usize)>,
    bytes: usize,
    bytes_max: usize,
    /// So many of the first frames end with one that was pushed whole.
    whole: usize,
    /// One was not taken because another was on its way.
    lacks_whole: bool,
    ended: Option<Ended>,
    /// The last words are among the frames.
    is_over: bool,
}

impl Outbox {
    pub fn new(bytes_max: usize) -> Self {
        let queue = Queue {
            bytes_max,
            ..Queue::default()
        };
        Outbox {
            queue: Mutex::new(queue),
            bell: Notify::new(),
        }
    }

    /// Who it is has turned out, and how much they may leave unread.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.queue.lock().bytes_max = bytes_max;
    }

    /// Whether almost everything was read; what can wait should wait until then.
    pub fn is_read(&self) -> bool {
        self.queue.lock().bytes <= READ_BUT_FOR
    }

    /// False if the connection is over, or is from now on.
    pub fn push(&self, frame: Frame) -> bool {
        let bytes = frame.bytes();
        let mut queue = self.queue.lock();
        if !queue.takes_more() {
            return false;
        }
        if queue.bytes + bytes > queue.bytes_max {
            queue.end(Ended::Slow);
        } else {
            queue.bytes += bytes;
            queue.frames.push_back((frame, bytes));
        }
        let goes_on = queue.ended.is_none();
        drop(queue);
        self.bell.notify_one();
        goes_on
    }

    /// The last words; they are taken in also after the end was decided, and nothing after them.
    pub fn push_last(&self, frame: Frame) {
        let mut queue = self.queue.lock();
        queue.frames.push_back((frame, 0));
        queue.is_over = true;
    }

    /// Everything at once, however much it is, to who has read almost everything before it. False to others: they get a
    /// later one.
    pub fn push_whole(&self, frames: impl IntoIterator<Item = Frame>) -> bool {
        let mut queue = self.queue.lock();
        if !queue.takes_more() || !queue.takes_whole() {
            queue.lacks_whole = true;
            return false;
        }
        queue.lacks_whole = false;
        // Not counted: it is one of a kind, and the next one waits for it.
        queue
            .frames
            .extend(frames.into_iter().map(|frame| (frame, 0)));
        queue.whole = queue.frames.len();
        drop(queue);
        self.bell.notify_one();
        true
    }

    /// Whether one was not taken; and if so, whether the next one would be.
    pub fn lacks_whole(&self) -> Option<bool> {
        let queue = self.queue.lock();
        let lacks = queue.lacks_whole && queue.takes_more();
        lacks.then(|| queue.takes_whole())
    }

    pub fn end(&self, why: Ended) {
        self.queue.lock().end(why);
        self.bell.notify_one();
    }

    /// Rung for every frame and for the end.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    pub fn ended(&self) -> Option<Ended> {
        self.queue.lock().ended
    }

    /// Moves what waits into `out`, up to about `bytes`, and the messages that are handed over once it is written
    /// into `mail`.
    pub fn take(
        &self,
        writer: &mut FrameWriter,
        now: UtcTime,
        bytes: usize,
        out: &mut Vec<u8>,
        mail: &mut Vec<MessageId>,
    ) {
        while out.len() < bytes {
            let frame = {
                let mut queue = self.queue.lock();
                let Some((frame, size)) = queue.frames.pop_front() else {
                    return;
                };
                queue.bytes -= size;
                queue.whole = queue.whole.saturating_sub(1);
                frame
            };
            match frame {
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

    /// Messages that will never be written. Everything else stays.
    pub fn unsent_mail(&self) -> Vec<MessageId> {
        let mut queue = self.queue.lock();
        let frames = std::mem::take(&mut queue.frames);
        let mut mail = Vec::new();
        for (frame, size) in frames {
            match frame {
                Frame::Mail(_, id) => {
                    queue.bytes -= size;
                    mail.push(id);
                }
                Frame::Message(_) | Frame::Passed(_) => queue.frames.push_back((frame, size)),
            }
        }
        mail
    }
}

impl Queue {
    fn takes_more(&self) -> bool {
        self.ended.is_none() && !self.is_over
    }

    fn takes_whole(&self) -> bool {
        self.bytes <= READ_BUT_FOR && self.whole == 0
    }

    fn end(&mut self, why: Ended) {
        self.ended.get_or_insert(why);
    }
}

impl Frame {
    /// About what it occupies. Messages are small unless they carry text.
    fn bytes(&self) -> usize {
        const ENVELOPE: usize = 512;
        ENVELOPE
            + match self {
                Frame::Passed(line) => line.len(),
                Frame::Message(message) | Frame::Mail(message, _) => text_bytes(message),
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

#[cfg(test)]
mod tests {
    use switchboard_wire::agentbus::message::WorkerProbe;

    use super::*;

    fn probe() -> Frame {
        let probe = WorkerProbe {
            reason: "quiet".to_owned(),
            answer_within_seconds: 15,
        };
        Frame::Message(Box::new(probe.into()))
    }

    #[test]
    fn who_does_not_read_loses_the_connection_and_holds_no_memory() {
        let outbox = Outbox::new(4 * 512);
        for _ in 0..4 {
            assert!(outbox.push(probe()));
        }
        assert_eq!(outbox.ended(), None);
        assert!(!outbox.push(probe()));
        assert_eq!(outbox.ended(), Some(Ended::Slow));
        assert!(!outbox.push(probe()), "nothing more is taken in");
        outbox.end(Ended::Replaced);
        assert_eq!(outbox.ended(), Some(Ended::Slow), "the first reason stands");
    }

    #[test]
    fn last_words_are_said_after_the_end_was_decided_and_mail_is_left_to_others() {
        let outbox = Outbox::new(4 * 512);
        let Frame::Message(letter) = probe() else {
            panic!("it is a message");
        };
        outbox.push(Frame::Mail(letter, "m".into()));
        outbox.end(Ended::Replaced);
        assert!(!outbox.push(probe()));
        outbox.push_last(probe());
        assert!(
            !outbox.push_whole([probe()]),
            "nothing follows the last words"
        );
        assert_eq!(outbox.unsent_mail(), ["m".into()]);
        assert_eq!(outbox.queue.lock().bytes, 0);
        assert_eq!(lines(&outbox), 1);
    }

    #[test]
    fn a_large_message_is_taken_whole_and_the_next_one_waits_until_it_is_read() {
        let outbox = Outbox::new(512);
        assert!(outbox.push_whole([probe(), probe(), probe()]));
        assert_eq!(outbox.lacks_whole(), None);
        assert!(!outbox.push_whole([probe()]));
        assert_eq!(outbox.lacks_whole(), Some(false));
        assert_eq!(lines(&outbox), 3);
        assert_eq!(outbox.lacks_whole(), Some(true));
        assert!(outbox.push_whole([probe()]));
        assert_eq!(outbox.lacks_whole(), None);
    }

    /// Takes everything that waits; how many lines it is.
    fn lines(outbox: &Outbox) -> usize {
        let sender = switchboard_wire::agentbus::envelope::Sender {
            role: switchboard_wire::agentbus::Role::Director,
            id: "director".into(),
            run_id: None,
        };
        let mut writer = FrameWriter::new(sender);
        let (mut out, mut mail) = (Vec::new(), Vec::new());
        outbox.take(&mut writer, UtcTime(1), usize::MAX, &mut out, &mut mail);
        out.iter().filter(|byte| **byte == b'\n').count()
    }
}

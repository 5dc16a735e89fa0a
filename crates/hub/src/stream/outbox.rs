//! What is on its way to one connection: a queue that is bounded in bytes, filled by anyone, emptied by its connection.
//!
//! Whoever does not read fast enough loses the connection, never the memory of the hub or the time of others.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::MessageId;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What may be left unread by one who gets a large message.
const READ_BUT_FOR: usize = 64 * 1024;

/// What is pushed whole comes no more often.
const WHOLE_EVERY: Duration = Duration::from_secs(1);

/// One thing to send, in whatever words.
pub(crate) trait Frame {
    /// About what it occupies.
    fn bytes(&self) -> usize;

    /// The message to this agent that is handed over once this is written.
    fn mail(&self) -> Option<&MessageId>;
}

/// Why a connection is ended by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A newer connection has the same id.
    Replaced,
    /// It did not read what was sent.
    Slow,
    /// Its agent was signed off.
    Gone,
    /// It said that it leaves.
    Left,
}

pub(crate) struct Outbox<F> {
    queue: Mutex<Queue<F>>,
    bell: Notify,
}

struct Queue<F> {
    frames: VecDeque<(F, usize)>,
    bytes: usize,
    bytes_max: usize,
    /// So many of the first frames end with one that was pushed whole.
    whole: usize,
    /// When the last one was.
    whole_at: Option<Instant>,
    /// Another is due, or was not taken.
    lacks_whole: bool,
    ended: Option<Ended>,
    /// The last words are among the frames.
    is_over: bool,
}

impl<F: Frame> Outbox<F> {
    pub fn new(bytes_max: usize) -> Self {
        let queue = Queue {
            frames: VecDeque::new(),
            bytes: 0,
            bytes_max,
            whole: 0,
            whole_at: None,
            lacks_whole: false,
            ended: None,
            is_over: false,
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
    pub fn push(&self, frame: F) -> bool {
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
    pub fn push_last(&self, frame: F) {
        let mut queue = self.queue.lock();
        queue.frames.push_back((frame, 0));
        queue.is_over = true;
    }

    /// Everything at once, however much it is, to who has read almost everything before it, and had the last one a while
    /// ago. False to others: they get a later one.
    pub fn push_whole(&self, frames: impl IntoIterator<Item = F>) -> bool {
        let mut queue = self.queue.lock();
        if !queue.takes_more() || !queue.takes_whole() {
            queue.lacks_whole = true;
            return false;
        }
        // Not counted: it is one of a kind, and the next one waits for it.
        queue
            .frames
            .extend(frames.into_iter().map(|frame| (frame, 0)));
        queue.whole = queue.frames.len();
        queue.whole_at = Some(Instant::now());
        drop(queue);
        self.bell.notify_one();
        true
    }

    /// The last one is out of date.
    pub fn owe_whole(&self) {
        self.queue.lock().lacks_whole = true;
    }

    /// Whether one is owed.
    pub fn lacks_whole(&self) -> bool {
        let queue = self.queue.lock();
        queue.lacks_whole && queue.takes_more()
    }

    /// Whether it takes one now. If so, it is owed no longer; what changes before it is pushed makes another one due.
    pub fn begin_whole(&self) -> bool {
        let mut queue = self.queue.lock();
        let takes_it = queue.takes_more() && queue.takes_whole();
        queue.lacks_whole = !takes_it;
        takes_it
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

    /// The next one to write.
    pub fn next(&self) -> Option<F> {
        let mut queue = self.queue.lock();
        let (frame, size) = queue.frames.pop_front()?;
        queue.bytes -= size;
        queue.whole = queue.whole.saturating_sub(1);
        Some(frame)
    }

    /// Messages that will never be written. Everything else stays.
    pub fn unsent_mail(&self) -> Vec<MessageId> {
        let mut queue = self.queue.lock();
        let frames = std::mem::take(&mut queue.frames);
        let mut mail = Vec::new();
        for (frame, size) in frames {
            match frame.mail() {
                Some(id) => {
                    queue.bytes -= size;
                    mail.push(id.clone());
                }
                None => queue.frames.push_back((frame, size)),
            }
        }
        mail
    }
}

impl<F> Queue<F> {
    fn takes_more(&self) -> bool {
        self.ended.is_none() && !self.is_over
    }

    fn takes_whole(&self) -> bool {
        let is_while_ago = |at: Instant| at.elapsed() >= WHOLE_EVERY;
        self.bytes <= READ_BUT_FOR && self.whole == 0 && self.whole_at.is_none_or(is_while_ago)
    }

    fn end(&mut self, why: Ended) {
        self.ended.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a kibibyte, and the message that it carries.
    struct Piece(Option<MessageId>);

    impl Frame for Piece {
        fn bytes(&self) -> usize {
            512
        }

        fn mail(&self) -> Option<&MessageId> {
            self.0.as_ref()
        }
    }

    fn probe() -> Piece {
        Piece(None)
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
        outbox.push(Piece(Some("m".into())));
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

    #[tokio::test(start_paused = true)]
    async fn a_large_message_is_taken_whole_and_the_next_one_waits_until_it_is_read_and_a_second_old()
     {
        let outbox = Outbox::new(512);
        assert!(outbox.begin_whole() && outbox.push_whole([probe(), probe(), probe()]));
        assert!(!outbox.lacks_whole());
        tokio::time::advance(WHOLE_EVERY).await;
        assert!(!outbox.push_whole([probe()]));
        assert!(outbox.lacks_whole() && !outbox.begin_whole());
        assert_eq!(lines(&outbox), 3);
        assert!(outbox.begin_whole() && !outbox.lacks_whole());
        outbox.owe_whole();
        assert!(outbox.push_whole([probe()]));
        assert_eq!(lines(&outbox), 1);
        assert!(outbox.lacks_whole(), "something changed meanwhile");
        tokio::time::advance(WHOLE_EVERY - Duration::from_millis(1)).await;
        assert!(!outbox.begin_whole() && outbox.lacks_whole());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(outbox.begin_whole() && outbox.push_whole([probe()]));
    }

    /// Takes everything that waits; how many they are.
    fn lines(outbox: &Outbox<Piece>) -> usize {
        std::iter::from_fn(|| outbox.next()).count()
    }
}

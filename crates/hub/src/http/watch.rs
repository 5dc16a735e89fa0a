//! A connection under watch: who sends no whole head, or takes no answer, is let go.
//!
//! The connection's task looks at the watch every few seconds, so that no request pays for a timer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A head that is not whole by then never will be.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// A reader that takes nothing for this long is gone.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// A refused sender is listened to for this long, and for this many bytes.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);
const DRAIN_BYTES: usize = 4 * 1024 * 1024;
/// A connection that nobody uses.
const IDLE_AFTER: Duration = Duration::from_secs(300);
/// How often the watch is looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What a connection is doing, and since when: milliseconds since it began, plus one; zero is "not".
#[derive(Debug)]
pub struct ConnectionWatch {
    began: Instant,
    head_since: AtomicU64,
    idle_since: AtomicU64,
    stalled_since: AtomicU64,
    draining_since: AtomicU64,
    /// An answer was given before the whole request was read.
    unread: AtomicBool,
    /// The hub stops: nobody is waited for.
    hurry: AtomicBool,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    head_within: Duration,
    stalled_after: Duration,
    drain_within: Duration,
    idle_after: Duration,
}

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    /// Nobody uses it; what is running may finish.
    Idle,
    Drop(&'static str),
}

impl ConnectionWatch {
    pub fn new() -> Self {
        let limits = Limits {
            head_within: HEAD_WITHIN,
            stalled_after: STALLED_AFTER,
            drain_within: DRAIN_WITHIN,
            idle_after: IDLE_AFTER,
        };
        ConnectionWatch {
            began: Instant::now(),
            // A connection that says nothing at all is held to the time for a head.
            head_since: AtomicU64::new(1),
            idle_since: AtomicU64::new(0),
            stalled_since: AtomicU64::new(0),
            draining_since: AtomicU64::new(0),
            unread: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
            limits,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    fn for_how_long(&self, since: &AtomicU64, now: u64) -> Option<Duration> {
        match since.load(Ordering::Relaxed) {
            0 => None,
            since => Some(Duration::from_millis(now.saturating_sub(since))),
        }
    }

    /// A whole head arrived; its request is being served.
    pub fn serves(&self) {
        self.head_since.store(0, Ordering::Relaxed);
        self.idle_since.store(0, Ordering::Relaxed);
    }

    /// The answer is made; the next head may come.
    pub fn served(&self) {
        self.idle_since.store(self.now(), Ordering::Relaxed);
    }

    /// The answer ends the connection, and something of the request was not read.
    pub fn leaves_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    pub fn hurries(&self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    /// Whether the other end may still be sending what nobody will read: then closing at once would take the answer
    /// away from it.
    fn must_drain(&self) -> bool {
        let refused =
            self.unread.load(Ordering::Relaxed) || self.head_since.load(Ordering::Relaxed) != 0;
        refused && !self.hurry.load(Ordering::Relaxed)
    }

    /// Bytes came in: if nothing is being served, they begin a head.
    fn arrived(&self) {
        if self.idle_since.load(Ordering::Relaxed) != 0 {
            self.idle_since.store(0, Ordering::Relaxed);
            self.head_since.store(self.now(), Ordering::Relaxed);
        }
    }

    fn wrote(&self, done: bool) {
        let stalled = self.stalled_since.load(Ordering::Relaxed) != 0;
        if done && stalled {
            self.stalled_since.store(0, Ordering::Relaxed);
        } else if !done && !stalled {
            self.stalled_since.store(self.now(), Ordering::Relaxed);
        }
    }

    pub fn look(&self) -> Verdict {
        self.look_at(self.now())
    }

    fn look_at(&self, now: u64) -> Verdict {
        let over = |since, limit| {
            self.for_how_long(since, now)
                .is_some_and(|span| span >= limit)
        };
        if over(&self.stalled_since, self.limits.stalled_after) {
            Verdict::Drop("it does not read the response")
        } else if over(&self.draining_since, self.limits.drain_within) {
            Verdict::Drop("it was refused and keeps sending")
        } else if over(&self.head_since, self.limits.head_within) {
            Verdict::Drop("it sent no complete request")
        } else if over(&self.idle_since, self.limits.idle_after) {
            Verdict::Idle
        } else {
            Verdict::Keep
        }
    }
}

/// A stream whose reads and writes are told to a watch.
pub struct Watched<S> {
    stream: S,
    watch: Arc<ConnectionWatch>,
    shut: bool,
    drained: usize,
}

impl<S> Watched<S> {
    pub fn new(stream: S, watch: Arc<ConnectionWatch>) -> Self {
        Watched {
            stream,
            watch,
            shut: false,
            drained: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> Watched<S> {
    /// Takes and throws away what still comes, up to a bound.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 8 * 1024];
        while self.drained < DRAIN_BYTES && self.watch.must_drain() {
            let mut buf = ReadBuf::new(&mut scratch);
            match std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => self.drained += buf.filled().len(),
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.watch.arrived();
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch.wrote(written.is_ready());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch.wrote(written.is_ready());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.shut {
            std::task::ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.shut = true;
            let now = self.watch.now();
            self.watch.draining_since.store(now, Ordering::Relaxed);
        }
        self.poll_drain(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: u64 = HEAD_WITHIN.as_millis() as u64;
    const STALL: u64 = STALLED_AFTER.as_millis() as u64;
    const IDLE: u64 = IDLE_AFTER.as_millis() as u64;

    #[test]
    fn a_connection_that_sends_no_whole_head_is_dropped() {
        let watch = ConnectionWatch::new();
        assert_eq!(watch.look_at(HEAD), Verdict::Keep);
        assert!(matches!(watch.look_at(HEAD + 1), Verdict::Drop(_)));
        watch.arrived();
        assert!(
            matches!(watch.look_at(HEAD + 1), Verdict::Drop(_)),
            "a trickle does not help"
        );
        watch.serves();
        assert_eq!(
            watch.look_at(HEAD * 100),
            Verdict::Keep,
            "a request may take its time"
        );
    }

    #[test]
    fn an_idle_connection_is_closed_late_and_a_second_head_is_timed_anew() {
        let watch = ConnectionWatch::new();
        watch.serves();
        watch.served();
        let idle = watch.idle_since.load(Ordering::Relaxed);
        assert_eq!(watch.look_at(idle + IDLE - 1), Verdict::Keep);
        assert_eq!(watch.look_at(idle + IDLE), Verdict::Idle);
        watch.arrived();
        let head = watch.head_since.load(Ordering::Relaxed);
        assert_eq!(watch.look_at(head + HEAD - 1), Verdict::Keep);
        assert!(matches!(watch.look_at(head + HEAD), Verdict::Drop(_)));
    }

    #[test]
    fn a_reader_that_takes_nothing_is_dropped_and_one_that_takes_a_little_is_not() {
        let watch = ConnectionWatch::new();
        watch.serves();
        watch.wrote(false);
        let stalled = watch.stalled_since.load(Ordering::Relaxed);
        assert_eq!(watch.look_at(stalled + STALL - 1), Verdict::Keep);
        assert!(matches!(watch.look_at(stalled + STALL), Verdict::Drop(_)));
        watch.wrote(true);
        assert_eq!(watch.look_at(stalled + STALL), Verdict::Keep);
    }
}

//! A connection under watch: who sends no whole head, or takes no answer, is let go.
//!
//! The connection's task looks at the watch every few seconds, so that no request pays for a timer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A head that is not whole by then never will be.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// A reader that takes nothing for this long is gone.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// A connection that nobody uses.
const IDLE_AFTER: Duration = Duration::from_secs(300);
/// How often the watch is looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What a connection is doing, and since when: milliseconds since it began, plus one; zero is "not".
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    head_since: AtomicU64,
    idle_since: AtomicU64,
    stalled_since: AtomicU64,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    head_within: Duration,
    stalled_after: Duration,
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

impl Watch {
    pub fn new() -> Self {
        let limits = Limits {
            head_within: HEAD_WITHIN,
            stalled_after: STALLED_AFTER,
            idle_after: IDLE_AFTER,
        };
        Watch {
            began: Instant::now(),
            // A connection that says nothing at all is held to the time for a head.
            head_since: AtomicU64::new(1),
            idle_since: AtomicU64::new(0),
            stalled_since: AtomicU64::new(0),
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
            Verdict::Drop("it takes no answer")
        } else if over(&self.head_since, self.limits.head_within) {
            Verdict::Drop("it sent no whole request")
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
    watch: Arc<Watch>,
}

impl<S> Watched<S> {
    pub fn new(stream: S, watch: Arc<Watch>) -> Self {
        Watched { stream, watch }
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
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
        Pin::new(&mut self.stream).poll_shutdown(cx)
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
        let watch = Watch::new();
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
        let watch = Watch::new();
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
        let watch = Watch::new();
        watch.serves();
        watch.wrote(false);
        let stalled = watch.stalled_since.load(Ordering::Relaxed);
        assert_eq!(watch.look_at(stalled + STALL - 1), Verdict::Keep);
        assert!(matches!(watch.look_at(stalled + STALL), Verdict::Drop(_)));
        watch.wrote(true);
        assert_eq!(watch.look_at(stalled + STALL), Verdict::Keep);
    }
}

//! Lines out of a stream of bytes, within bounds: complete ones are borrowed from the chunk they came in, only an
//! unfinished tail is kept, and a line beyond the bound is let go without being kept at all.
//!
//! A line ends with `\n`; a `\r` before it belongs to the ending. An empty line is no message and is skipped, so that
//! it can keep a connection warm. What follows the last `\n` is no line until its own `\n` comes.

use memchr::memchr;

/// A tail's buffer larger than this is given back once its line is done.
pub const TAIL_KEPT_BYTES: usize = 1024;

/// Splits one stream into lines of at most `max` bytes, not counting the ending.
#[derive(Debug)]
pub struct Lines {
    max: usize,
    tail: Vec<u8>,
    state: State,
    dropped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The tail holds the beginning of a line, or nothing.
    Reading,
    /// The tail was handed out as a whole line and is to be emptied.
    HandedOut,
    /// The present line passed the bound; everything up to its end is let go.
    Dropping,
}

/// What came out of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its ending; never empty.
    Whole(&'a [u8]),
    /// A line has passed the bound; told once, as soon as it is known.
    Oversize {
        /// How much of it had come by then.
        bytes_seen: usize,
    },
}

impl Lines {
    /// Lines of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            tail: Vec::new(),
            state: State::Reading,
            dropped: 0,
        }
    }

    /// Takes the next bytes; the lines they complete come from [`Feed::next`], which is to be called until it has none.
    pub fn feed<'a>(&'a mut self, chunk: &'a [u8]) -> Feed<'a> {
        Feed { lines: self, chunk }
    }

    /// Bytes of oversize lines that were let go so far.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped
    }

    /// Whether a line has begun and not ended.
    pub fn is_mid_line(&self) -> bool {
        match self.state {
            State::Reading => !self.tail.is_empty(),
            State::HandedOut => false,
            State::Dropping => true,
        }
    }

    /// Bytes of memory behind this one.
    pub fn held_bytes(&self) -> usize {
        self.tail.capacity()
    }

    /// A `\r` may turn out to be part of the ending, so one byte more is waited for.
    fn fits_unfinished(&self, len: usize, last: u8) -> bool {
        len <= self.max || (len == self.max + 1 && last == b'\r')
    }

    fn keep(&mut self, piece: &[u8]) {
        let len = self.tail.len() + piece.len();
        if len > self.tail.capacity() {
            // Doubling, but never beyond what a line may need.
            let room = len.next_power_of_two().min(self.max + 1).max(len);
            self.tail.reserve_exact(room - self.tail.len());
        }
        self.tail.extend_from_slice(piece);
    }

    fn empty_tail(&mut self) {
        if self.tail.capacity() > TAIL_KEPT_BYTES {
            self.tail = Vec::new();
        } else {
            self.tail.clear();
        }
        self.state = State::Reading;
    }

    fn let_go(&mut self, bytes: usize) {
        self.dropped = self
            .dropped
            .saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}

/// One chunk on its way through [`Lines`].
///
/// Not an `Iterator`: a line may lie in the tail's buffer, which is used again for the next one.
#[derive(Debug)]
pub struct Feed<'a> {
    lines: &'a mut Lines,
    chunk: &'a [u8],
}

impl Feed<'_> {
    /// The next line of this chunk.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Line<'_>> {
        if self.lines.state == State::HandedOut {
            self.lines.empty_tail();
        }
        loop {
            if self.chunk.is_empty() {
                return None;
            }
            let Some(at) = memchr(b'\n', self.chunk) else {
                return self.unfinished();
            };
            let (piece, rest) = self.chunk.split_at(at);
            self.chunk = &rest[1..];
            if self.lines.state == State::Dropping {
                self.lines.let_go(piece.len());
                self.lines.state = State::Reading;
                continue;
            }
            let held = self.lines.tail.len();
            let len = unended_len(&self.lines.tail, piece);
            if len > self.lines.max {
                self.lines.let_go(held + piece.len());
                self.lines.empty_tail();
                return Some(Line::Oversize { bytes_seen: len });
            }
            if len == 0 {
                self.lines.empty_tail();
                continue;
            }
            if held == 0 {
                return Some(Line::Whole(&piece[..len]));
            }
            self.lines.keep(piece);
            self.lines.state = State::HandedOut;
            return Some(Line::Whole(&self.lines.tail[..len]));
        }
    }

    fn unfinished(&mut self) -> Option<Line<'_>> {
        let piece = std::mem::take(&mut self.chunk);
        let last = *piece.last()?;
        if self.lines.state == State::Dropping {
            self.lines.let_go(piece.len());
            return None;
        }
        let len = self.lines.tail.len() + piece.len();
        if self.lines.fits_unfinished(len, last) {
            self.lines.keep(piece);
            return None;
        }
        self.lines.let_go(len);
        self.lines.empty_tail();
        self.lines.state = State::Dropping;
        Some(Line::Oversize { bytes_seen: len })
    }
}

/// Length of a line that lies in two pieces, without a `\r` at its end.
fn unended_len(head: &[u8], piece: &[u8]) -> usize {
    let last = piece.last().or_else(|| head.last());
    head.len() + piece.len() - usize::from(last == Some(&b'\r'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    enum Seen {
        Whole(Vec<u8>),
        Oversize,
    }

    fn run(max: usize, chunks: &[&[u8]]) -> (Vec<Seen>, Lines) {
        let mut lines = Lines::new(max);
        let mut seen = Vec::new();
        for chunk in chunks {
            let mut feed = lines.feed(chunk);
            while let Some(line) = feed.next() {
                seen.push(match line {
                    Line::Whole(bytes) => Seen::Whole(bytes.to_vec()),
                    Line::Oversize { bytes_seen } => {
                        assert!(bytes_seen > max);
                        Seen::Oversize
                    }
                });
            }
            assert!(lines.held_bytes() <= max + 1, "{}", lines.held_bytes());
        }
        (seen, lines)
    }

    fn whole(text: &str) -> Seen {
        Seen::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn a_line_of_exactly_the_maximum_passes_and_one_byte_more_does_not() {
        // agentbus.limits.max_message_size
        for (bytes, seen) in [
            ("1234567\n", whole("1234567")),
            ("12345678\n", whole("12345678")),
            ("12345678\r\n", whole("12345678")),
            ("123456789\n", Seen::Oversize),
            ("12345678\rx\n", Seen::Oversize),
        ] {
            for cut in 0..bytes.len() {
                let (head, tail) = bytes.as_bytes().split_at(cut);
                let (lines, rest) = run(8, &[head, tail, b"ok\n"]);
                assert_eq!(lines, [seen.clone(), whole("ok")], "{bytes:?} cut at {cut}");
                assert!(!rest.is_mid_line());
            }
        }
    }

    #[test]
    fn an_endless_line_takes_no_memory_and_is_told_once() {
        // agentbus.framing.bounded
        let mut lines = Lines::new(1000);
        let mut told = 0;
        for _ in 0..10_000 {
            let mut feed = lines.feed(&[b'x'; 700]);
            while let Some(line) = feed.next() {
                assert!(matches!(line, Line::Oversize { bytes_seen: 1400 }));
                told += 1;
            }
            assert!(lines.held_bytes() <= 1001);
        }
        assert_eq!((told, lines.dropped_bytes()), (1, 7_000_000));
        assert!(lines.is_mid_line());
        let mut feed = lines.feed(b"end\nnext\n");
        assert_eq!(feed.next(), Some(Line::Whole(b"next")));
        assert_eq!(feed.next(), None);
    }

    #[test]
    fn a_tail_without_its_newline_is_no_line() {
        // agentbus.framing.newline_terminated
        let (seen, lines) = run(100, &[b"{\"a\":1}"]);
        assert!(seen.is_empty() && lines.is_mid_line());
        let (seen, _) = run(100, &[b"{\"a\":1}", b"\n"]);
        assert_eq!(seen, [whole("{\"a\":1}")]);
    }

    #[test]
    fn empty_lines_are_skipped() {
        let (seen, _) = run(10, &[b"\n\r\n\na\n\r", b"\nb\r\n"]);
        assert_eq!(seen, [whole("a"), whole("b")]);
    }

    #[test]
    fn whole_lines_are_borrowed_from_the_chunk_and_no_memory_is_held() {
        // agentbus.framing.many_per_connection
        let chunk = b"one\ntwo\nthree\n";
        let mut lines = Lines::new(10);
        let mut feed = lines.feed(chunk);
        let mut count = 0;
        while let Some(Line::Whole(line)) = feed.next() {
            assert!(chunk.as_ptr_range().contains(&line.as_ptr()));
            count += 1;
        }
        assert_eq!((count, lines.held_bytes()), (3, 0));
    }

    #[test]
    fn a_large_tail_is_given_back() {
        let mut lines = Lines::new(65_536);
        let half = [b'x'; 30_000];
        for chunk in [&half[..], &half[..], b"\n"] {
            let mut feed = lines.feed(chunk);
            while feed.next().is_some() {}
        }
        assert!(lines.held_bytes() <= TAIL_KEPT_BYTES);
    }

    /// The same by the simplest means.
    fn expected(max: usize, bytes: &[u8]) -> Vec<Seen> {
        let mut pieces: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let tail = pieces.pop().unwrap_or_default();
        let mut seen: Vec<Seen> = pieces
            .into_iter()
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
            .map(|line| {
                if line.len() > max {
                    Seen::Oversize
                } else {
                    Seen::Whole(line.to_vec())
                }
            })
            .collect();
        let waits = tail.len() == max + 1 && tail.last() == Some(&b'\r');
        if tail.len() > max && !waits {
            seen.push(Seen::Oversize);
        }
        seen
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(
            bytes in prop::collection::vec(prop_oneof![3 => Just(b'a'), 1 => Just(b'\n'), 1 => Just(b'\r'), 1 => any::<u8>()], 0..200),
            sizes in prop::collection::vec(1_usize..20, 1..40),
            max in 1_usize..24,
        ) {
            let mut chunks = Vec::new();
            let mut rest = &bytes[..];
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*size).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            let (seen, _) = run(max, &chunks);
            prop_assert_eq!(&seen, &expected(max, &bytes));
        }
    }
}

//! Just enough HTTP/1.1 to load a server: requests written by hand, answers cut out of a buffer.
//!
//! It knows keep-alive and `content-length`, and nothing else.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::Context as _;
use memchr::memmem;

/// One whole answer at the start of a buffer.
pub struct Answer<'a> {
    pub status: u16,
    pub body: Cow<'a, [u8]>,
    /// How many bytes of the buffer it took.
    pub used: usize,
}

/// Writes requests for one server.
#[derive(Clone)]
pub struct Requests {
    host: String,
}

impl Requests {
    pub fn new(server: SocketAddr) -> Self {
        Self {
            host: server.to_string(),
        }
    }

    pub fn get(&self, out: &mut Vec<u8>, path: Arguments<'_>) {
        self.write(out, "GET", path, format_args!(""), b"");
    }

    pub fn post(&self, out: &mut Vec<u8>, path: Arguments<'_>, body: &[u8]) {
        self.write(out, "POST", path, format_args!(""), body);
    }

    /// A post with an idempotency key.
    pub fn post_once(
        &self,
        out: &mut Vec<u8>,
        path: Arguments<'_>,
        key: Arguments<'_>,
        body: &[u8],
    ) {
        self.write(
            out,
            "POST",
            path,
            format_args!("idempotency-key: {key}\r\n"),
            body,
        );
    }

    /// A post with more headers, each with the end of its line.
    pub fn post_with(
        &self,
        out: &mut Vec<u8>,
        path: Arguments<'_>,
        headers: Arguments<'_>,
        body: &[u8],
    ) {
        self.write(out, "POST", path, headers, body);
    }

    /// A get whose answer is an endless stream of events.
    pub fn stream(&self, out: &mut Vec<u8>, path: Arguments<'_>) {
        let accept = format_args!("accept: text/event-stream\r\n");
        self.write(out, "GET", path, accept, b"");
    }

    fn write(
        &self,
        out: &mut Vec<u8>,
        method: &str,
        path: Arguments<'_>,
        header: Arguments<'_>,
        body: &[u8],
    ) {
        let host = &self.host;
        let length = body.len();
        write!(
            out,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{header}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
        .expect("a vector takes any number of bytes");
        out.extend_from_slice(body);
    }
}

/// Cuts the first answer out of a buffer; `None` when it is not complete yet.
pub fn cut(buffer: &[u8]) -> anyhow::Result<Option<Answer<'_>>> {
    let Some(head_end) = memmem::find(buffer, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = &buffer[..head_end];
    let status = status_of(head)?;
    let start = head_end + 4;
    let end = start + body_length(head)?;
    let body = buffer.get(start..end);
    Ok(body.map(|body| Answer {
        status,
        body: Cow::Borrowed(body),
        used: end,
    }))
}

fn status_of(head: &[u8]) -> anyhow::Result<u16> {
    let digits = head.get(9..12).context("the status line is too short")?;
    let digits = std::str::from_utf8(digits).context("the status is not a number")?;
    digits.parse().context("the status is not a number")
}

/// As hyper writes it, in small letters.
fn body_length(head: &[u8]) -> anyhow::Result<usize> {
    let name = b"\r\ncontent-length: ";
    let at = memmem::find(head, name).context("an answer does not say how long it is")?;
    let value = head[at + name.len()..].split(|byte| *byte == b'\r').next();
    let value = std::str::from_utf8(value.unwrap_or_default());
    value?.parse().context("content-length is not a number")
}

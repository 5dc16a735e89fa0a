//! Just enough HTTP/1.1 to load a server: requests written by hand, answers cut out of a buffer.
//!
//! It knows keep-alive, `content-length` and chunked bodies, and nothing else.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, bail};
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

    /// A post by whoever has this token.
    pub fn post_with_token(
        &self,
        out: &mut Vec<u8>,
        path: Arguments<'_>,
        token: &str,
        body: &[u8],
    ) {
        let bearer = format_args!("authorization: Bearer {token}\r\n");
        self.write(out, "POST", path, bearer, body);
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
    match body_length(head)? {
        Length::Known(length) => {
            let end = start + length;
            if buffer.len() < end {
                return Ok(None);
            }
            Ok(Some(Answer {
                status,
                body: Cow::Borrowed(&buffer[start..end]),
                used: end,
            }))
        }
        Length::Chunked => {
            let Some((body, used)) = join_chunks(&buffer[start..])? else {
                return Ok(None);
            };
            Ok(Some(Answer {
                status,
                body: Cow::Owned(body),
                used: start + used,
            }))
        }
    }
}

enum Length {
    Known(usize),
    Chunked,
}

fn status_of(head: &[u8]) -> anyhow::Result<u16> {
    let digits = head.get(9..12).context("the status line is too short")?;
    let digits = std::str::from_utf8(digits).context("the status is not a number")?;
    digits.parse().context("the status is not a number")
}

fn body_length(head: &[u8]) -> anyhow::Result<Length> {
    let mut rest = head;
    while let Some(line_end) = memchr::memchr(b'\n', rest) {
        rest = &rest[line_end + 1..];
        if let Some(value) = header_value(rest, b"content-length:") {
            let value = std::str::from_utf8(value).context("content-length is not a number")?;
            let length = value.trim().parse();
            return Ok(Length::Known(
                length.context("content-length is not a number")?,
            ));
        }
        if header_value(rest, b"transfer-encoding:").is_some() {
            return Ok(Length::Chunked);
        }
    }
    Ok(Length::Known(0))
}

fn header_value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let begins = line.get(..name.len())?;
    if !begins.eq_ignore_ascii_case(name) {
        return None;
    }
    let value = &line[name.len()..];
    let end = memchr::memchr(b'\r', value).unwrap_or(value.len());
    Some(&value[..end])
}

fn join_chunks(mut rest: &[u8]) -> anyhow::Result<Option<(Vec<u8>, usize)>> {
    let whole = rest.len();
    let mut body = Vec::new();
    loop {
        let Some(line_end) = memmem::find(rest, b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&rest[..line_end]).context("a chunk size is no text")?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).context("a chunk size is not a number")?;
        let data = &rest[line_end + 2..];
        if data.len() < size + 2 {
            return Ok(None);
        }
        if &data[size..size + 2] != b"\r\n" {
            bail!("a chunk does not end where it said");
        }
        body.extend_from_slice(&data[..size]);
        rest = &data[size + 2..];
        if size == 0 {
            return Ok(Some((body, whole - rest.len())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_cut_only_when_it_is_whole() {
        let whole = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nx: y\r\n\r\nhelloHTTP/1.1";
        for end in 0..whole.len() - 8 {
            assert!(cut(&whole[..end]).expect("well-formed").is_none(), "{end}");
        }
        let answer = cut(whole).expect("well-formed").expect("whole");
        assert_eq!(
            (answer.status, &*answer.body, answer.used),
            (201, &b"hello"[..], whole.len() - 8)
        );
    }

    #[test]
    fn chunks_are_joined() {
        let whole = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        for end in 0..whole.len() {
            assert!(cut(&whole[..end]).expect("well-formed").is_none(), "{end}");
        }
        let answer = cut(whole).expect("well-formed").expect("whole");
        assert_eq!((&*answer.body, answer.used), (&b"abcde"[..], whole.len()));
    }

    #[test]
    fn a_request_says_how_long_it_is() {
        let requests = Requests::new(SocketAddr::from(([127, 0, 0, 1], 80)));
        let mut out = Vec::new();
        requests.post_once(&mut out, format_args!("/a/{}", 1), format_args!("k"), b"{}");
        assert_eq!(
            out,
            b"POST /a/1 HTTP/1.1\r\nhost: 127.0.0.1:80\r\nidempotency-key: k\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
        );
    }
}

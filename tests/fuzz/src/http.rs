//! Whatever comes over a socket: every answer is HTTP and no fault of the hub's own, and the next call is served.

use std::sync::LazyLock;

use serde_json::Value;
use switchboard_hub::config::AuthMode;

use crate::served::Served;

/// Ends whatever the bytes began: a head, or a short body. No head begins with these.
const END: &[u8] = &[0; 4096];
/// What anybody may ask a hub that wants credentials.
const OPEN: &[&str] = &[
    "/healthz",
    "/readyz",
    "/proof",
    "/openapi.json",
    "/v2",
    "/v3",
];

/// A hub that takes anyone for the steward, and one that knows nobody.
pub struct Stage {
    open: Served,
    guarded: Served,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            open: Served::start(AuthMode::None),
            guarded: Served::start(AuthMode::Hmac),
        }
    }
}

pub fn check(bytes: &[u8]) {
    static STAGE: LazyLock<Stage> = LazyLock::new(Stage::default);
    STAGE.check(bytes);
}

impl Stage {
    pub fn check(&self, bytes: &[u8]) {
        let sent = [bytes, b"\r\n\r\n", END].concat();
        statuses(&self.open.say(&sent), bytes);
        let known = statuses(&self.guarded.say(&sent), bytes);
        let text = String::from_utf8_lossy(bytes);
        assert!(
            OPEN.iter().any(|path| text.contains(path))
                || known.iter().all(|status| !is_done(*status)),
            "nobody is let in without a credential: {known:?}"
        );
        for hub in [&self.open, &self.guarded] {
            assert_eq!(hub.call("GET", "/healthz", b"").0, 200);
        }
    }
}

fn is_done(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The statuses of all answers, each of which is well-formed.
fn statuses(mut said: &[u8], bytes: &[u8]) -> Vec<u16> {
    let mut found = Vec::new();
    while !said.is_empty() {
        let end = position(said, b"\r\n\r\n").expect("an answer has a whole head");
        let head = std::str::from_utf8(&said[..end]).expect("a head is text");
        let mut lines = head.split("\r\n");
        let status = status(lines.next().unwrap_or_default());
        assert!(status < 500, "{head}");
        found.push(status);
        let headers: Vec<(&str, &str)> = lines
            .map(|line| line.split_once(": ").expect("a header has a value"))
            .collect();
        let header = |wanted: &str| {
            let named = |(name, _): &&(&str, &str)| name.eq_ignore_ascii_case(wanted);
            headers.iter().find(named).map(|(_, value)| *value)
        };
        said = &said[end + 4..];
        if status < 200 {
            continue;
        }
        // What is asked with HEAD has a length and no body, and a stream has no end.
        let kind = header("content-type").unwrap_or_default();
        if bytes.windows(4).any(|word| word == b"HEAD") || kind == "text/event-stream" {
            break;
        }
        let body = match header("content-length") {
            Some(length) => {
                let (body, rest) = said.split_at(length.parse().expect("a length is a number"));
                said = rest;
                body.to_vec()
            }
            None => {
                assert_eq!(header("transfer-encoding"), Some("chunked"), "{head}");
                chunks(&mut said)
            }
        };
        if kind == "application/json" {
            let answer: Value = serde_json::from_slice(&body).expect("an answer is JSON");
            assert!(is_done(status) || answer["error"].is_string(), "{answer}");
        }
    }
    found
}

fn status(line: &str) -> u16 {
    let mut parts = line.splitn(3, ' ');
    let version = parts.next();
    assert!(matches!(version, Some("HTTP/1.1" | "HTTP/1.0")), "{line}");
    let status = parts.next().and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no status in {line:?}"))
}

fn chunks(said: &mut &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = position(said, b"\r\n").expect("a chunk has a size");
        let size = std::str::from_utf8(&said[..line]).expect("a size is text");
        let size = usize::from_str_radix(size, 16).expect("a size is hexadecimal");
        let (chunk, rest) = said[line + 2..].split_at(size);
        body.extend_from_slice(chunk);
        *said = rest.strip_prefix(b"\r\n").expect("a chunk ends");
        if size == 0 {
            return body;
        }
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

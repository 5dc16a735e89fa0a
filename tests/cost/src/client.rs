//! Calls as plain as a stranger's, on one connection each: HTTP that stays open, and a worker of the bus.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Many times what anything here should take.
const SOON: Duration = Duration::from_secs(60);

pub struct Http {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    line: String,
    body: Vec<u8>,
}

impl Http {
    pub fn connect(addr: SocketAddr) -> Http {
        Http {
            stream: connect(addr),
            request: Vec::with_capacity(4096),
            line: String::with_capacity(4096),
            body: Vec::with_capacity(64 * 1024),
        }
    }

    /// Posts a body, under a key if there is one, and returns what a good answer says.
    pub fn post(&mut self, path: &str, key: Option<&str>, body: &str) -> &str {
        let key = key.map_or(String::new(), |key| format!("idempotency-key: {key}\r\n"));
        let header = format!("{key}content-type: application/json\r\n");
        self.call("POST", path, &header, body)
    }

    pub fn get(&mut self, path: &str) -> &str {
        self.call("GET", path, "", "")
    }

    fn call(&mut self, method: &str, path: &str, header: &str, body: &str) -> &str {
        self.request.clear();
        let length = body.len();
        write!(
            self.request,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{header}content-length: {length}\r\n\r\n{body}"
        )
        .expect("a vector takes any number of bytes");
        let stream = self.stream.get_mut();
        stream.write_all(&self.request).expect("the hub reads");
        let (mut status, mut length) = (String::new(), 0);
        loop {
            self.line.clear();
            let read = self.stream.read_line(&mut self.line);
            assert_ne!(read.expect("the hub answers"), 0, "the hub hung up");
            let line = self.line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if status.is_empty() {
                status = line;
            } else if let Some(bytes) = line.strip_prefix("content-length:") {
                length = bytes.trim().parse().expect("a length");
            }
        }
        self.body.resize(length, 0);
        let read = self.stream.read_exact(&mut self.body);
        read.expect("a whole answer");
        let body = std::str::from_utf8(&self.body).expect("JSON");
        let is_good = status.starts_with("http/1.1 2") && !body.contains(r#""success":false"#);
        assert!(is_good, "{method} {path}: {status}\n{body}");
        body
    }
}

pub struct Worker {
    stream: BufReader<TcpStream>,
    seq: u64,
    line: String,
}

impl Worker {
    /// Says hello as a worker that only reports.
    pub fn connect(addr: SocketAddr) -> Worker {
        let mut worker = Worker {
            stream: connect(addr),
            seq: 1_000_000_000,
            line: String::with_capacity(64 * 1024),
        };
        let hello = worker.frame(
            "protocol_hello.v1",
            r#"{"protocol_version":"0.1","capabilities":[],"worker":{"worker_id":"worker"},"repo":{}}"#,
        );
        worker.say(&hello);
        worker.ask_catalog(0);
        worker
    }

    /// So many heartbeats and then, in the same packet, a question; returns once that is answered.
    pub fn ask_catalog(&mut self, beats: usize) {
        let beat = r#"{"state":{"stage":"START","issue_number":0,"attempt":1,"last_update_at":"2025-10-09T08:53:20Z"}}"#;
        let mut frames: String = (0..beats)
            .map(|_| self.frame("heartbeat.v1", beat))
            .collect();
        frames += &self.frame("catalog_refresh_request.v1", "{}");
        self.say(&frames);
        loop {
            self.line.clear();
            let read = self.stream.read_line(&mut self.line);
            assert_ne!(read.expect("the bus answers"), 0, "the bus hung up");
            assert!(!self.line.contains("protocol_error.v1"), "{}", self.line);
            if self.line.contains("engram_catalog_snapshot.v1") {
                return;
            }
        }
    }

    fn say(&mut self, frames: &str) {
        let stream = self.stream.get_mut();
        stream.write_all(frames.as_bytes()).expect("the bus reads");
    }

    fn frame(&mut self, kind: &str, payload: &str) -> String {
        self.seq += 1;
        let seq = self.seq;
        format!(
            concat!(
                r#"{{"schema_version":"agentbus-envelope/v1","message_type":"{}","sent_at":"2025-10-09T08:53:20Z","#,
                r#""sender":{{"role":"worker","id":"worker"}},"seq":{},"payload":{}}}"#,
                "\n"
            ),
            kind, seq, payload
        )
    }
}

fn connect(addr: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(addr).expect("the hub accepts");
    stream.set_nodelay(true).expect("a socket takes it");
    stream
        .set_read_timeout(Some(SOON))
        .expect("a socket takes it");
    BufReader::new(stream)
}

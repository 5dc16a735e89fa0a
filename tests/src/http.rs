//! A plain HTTP/1.1 client that hides nothing: one request, one answer, or the error of the socket.
//!
//! It never retries and never guesses, so that a test knows exactly what was acknowledged.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use switchboard_wire::IsoTime;
use switchboard_wire::signature::{AgentKey, SignedRequest};

use crate::wait::PATIENCE;

/// Longer than the longest poll: whoever hears nothing for this long has found a hang.
pub const SILENCE_MAX: Duration = PATIENCE.saturating_mul(3);

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
}

/// One answer, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// One connection to a hub, made when it is needed and kept.
#[derive(Debug)]
pub struct Client {
    addr: SocketAddr,
    patience: Duration,
    stream: Option<BufReader<TcpStream>>,
}

impl Request {
    pub fn get(path: impl Into<String>) -> Request {
        Request::new("GET", path)
    }

    /// A POST below `/api/v1`.
    pub fn post(path: impl Into<String>, body: &Value) -> Request {
        let body = serde_json::to_vec(body).expect("a value is always JSON");
        Request::new("POST", path).body(body)
    }

    pub fn new(method: &'static str, path: impl Into<String>) -> Request {
        Request {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: None,
        }
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = Some(body.into());
        self
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Request {
        self.headers.push((name, value.into()));
        self
    }

    /// Under this key it happens once, however often it is sent.
    pub fn key(self, key: impl Into<String>) -> Request {
        self.header("Idempotency-Key", key)
    }

    /// Signed by an agent whose clock shows `at_ms`.
    pub fn signed(self, agent: &str, key: &AgentKey, at_ms: i64, nonce: &str) -> Request {
        let timestamp = IsoTime(at_ms).to_string();
        let signed = SignedRequest {
            method: self.method,
            path_and_query: &self.path,
            timestamp: &timestamp,
            nonce: Some(nonce),
            body: self.body.as_deref().unwrap_or_default(),
        };
        let signature = key.sign(&signed.to_sign());
        self.header("Switchboard-Agent", agent)
            .header("Switchboard-Timestamp", timestamp)
            .header("Switchboard-Nonce", nonce)
            .header("Switchboard-Signature", signature)
    }

    /// The bytes that go over the wire.
    pub fn bytes(&self, addr: SocketAddr) -> Vec<u8> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nSwitchboard-Protocol-Version: 1.0\r\n",
            self.method, self.path
        );
        let named = self
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"));
        if !named {
            let _ = write!(head, "Host: {addr}\r\n");
        }
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!(
                "the answer {} is no JSON ({error}): {:?}",
                self.status,
                self.text()
            )
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The answer of the first time.
    pub fn is_replay(&self) -> bool {
        self.header("Idempotent-Replay") == Some("true")
    }

    /// Its JSON, if it has this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Checks the one shape of errors.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) {
        let body = self.expect(status);
        assert_eq!(body["success"], false, "{body}");
        assert_eq!(body["error"], code, "{body}");
        let message = body["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty(), "an error says why: {body}");
    }

    fn closes(&self) -> bool {
        self.header("Connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl Client {
    pub fn new(addr: SocketAddr) -> Client {
        Client::with_patience(addr, SILENCE_MAX)
    }

    /// Takes a hub for lost that says nothing for this long.
    pub fn with_patience(addr: SocketAddr, patience: Duration) -> Client {
        Client {
            addr,
            patience,
            stream: None,
        }
    }

    /// Sends a request and waits for its answer. An error says only that the answer did not come.
    pub fn send(&mut self, request: &Request) -> io::Result<Answer> {
        self.begin(request)?;
        self.finish()
    }

    /// Sends a request; the answer is left for [`Client::finish`].
    pub fn begin(&mut self, request: &Request) -> io::Result<()> {
        self.write(&request.bytes(self.addr))
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self
            .stream()
            .and_then(|stream| stream.get_mut().write_all(bytes));
        written.inspect_err(|_| self.stream = None)
    }

    /// Waits for the answer to what was sent.
    pub fn finish(&mut self) -> io::Result<Answer> {
        let answer = self.stream().and_then(read_answer);
        if answer.as_ref().map_or(true, Answer::closes) {
            self.stream = None;
        }
        answer
    }

    /// The head of an answer whose body goes on; read the body with [`Client::line`].
    pub fn finish_head(&mut self) -> io::Result<Answer> {
        self.stream().and_then(|stream| {
            let (status, headers) = read_head(stream)?;
            Ok(Answer {
                status,
                headers,
                body: Vec::new(),
            })
        })
    }

    /// The next line of a body that goes on; `None` at the end of the connection.
    pub fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = self.stream()?.read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream()?.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Connects, if it is not connected.
    pub fn connect(&mut self) -> io::Result<()> {
        self.stream().map(|_| ())
    }

    /// Hangs up in the middle of whatever is going on.
    pub fn hang_up(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = stream.get_ref().shutdown(Shutdown::Both);
        }
    }

    #[track_caller]
    pub fn get(&mut self, path: &str) -> Answer {
        let answer = self.send(&Request::get(path));
        answer.unwrap_or_else(|error| panic!("GET {path} was not answered: {error}"))
    }

    #[track_caller]
    pub fn post(&mut self, path: &str, body: &Value) -> Answer {
        let answer = self.send(&Request::post(path, body));
        answer.unwrap_or_else(|error| panic!("POST {path} was not answered: {error}"))
    }

    fn stream(&mut self) -> io::Result<&mut BufReader<TcpStream>> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.addr)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(self.patience))?;
                stream.set_write_timeout(Some(self.patience))?;
                BufReader::new(stream)
            }
        };
        Ok(self.stream.insert(stream))
    }
}

fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    let mut next = |line: &mut String| {
        line.clear();
        match stream.read_line(line)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            _ => Ok(()),
        }
    };
    next(&mut line)?;
    let status = line
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status in {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        next(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => return Ok((status, headers)),
        }
    }
}

fn read_answer(stream: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let (status, headers) = read_head(stream)?;
    let mut answer = Answer {
        status,
        headers,
        body: Vec::new(),
    };
    let length = answer.header("Content-Length").map(str::parse);
    match length {
        Some(Ok(length)) => {
            answer.body = vec![0; length];
            stream.read_exact(&mut answer.body)?;
        }
        Some(Err(_)) => return Err(io::Error::other("the length is no number")),
        None if answer.header("Transfer-Encoding").is_some() => {
            answer.body = read_chunks(stream)?;
        }
        None => {
            stream.read_to_end(&mut answer.body)?;
        }
    }
    Ok(answer)
}

fn read_chunks(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        stream.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16)
            .map_err(|_| io::Error::other(format!("no chunk size in {size:?}")))?;
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk)?;
        chunk.truncate(size);
        if chunk.is_empty() {
            return Ok(body);
        }
        body.append(&mut chunk);
    }
}

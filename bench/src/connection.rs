//! One blocking keep-alive connection, for whatever is done one request at a time.

use std::fmt::Arguments;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::answers::{self, Held};
use crate::http::{self, Requests};
use crate::scripts::{write_completion, write_task};

/// Longer than any long poll.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

/// A connection and what arrived on it.
pub struct Connection {
    stream: TcpStream,
    arrived: Vec<u8>,
}

impl Connection {
    pub fn open(server: SocketAddr) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(server).with_context(|| format!("cannot connect to {server}"))?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            arrived: Vec::new(),
        })
    }

    pub fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).context("cannot send")
    }

    /// The next whole answer: its status and its body.
    pub fn receive(&mut self) -> anyhow::Result<(u16, Vec<u8>)> {
        loop {
            if let Some(answer) = http::cut(&self.arrived)? {
                let (status, body, used) = (answer.status, answer.body.into_owned(), answer.used);
                self.arrived.drain(..used);
                return Ok((status, body));
            }
            self.read_more()?;
        }
    }

    /// Sends a request and takes its answer.
    pub fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
        self.send(request)?;
        self.receive()
    }

    /// Reads an endless answer until a text has come by, and forgets everything up to it.
    pub fn read_past(&mut self, text: &str) -> anyhow::Result<()> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.arrived, text.as_bytes()) {
                self.arrived.drain(..at + text.len());
                return Ok(());
            }
            self.read_more()?;
        }
    }

    /// The same, and the number behind it.
    pub fn read_number_past(&mut self, text: &str) -> anyhow::Result<u64> {
        self.read_past(text)?;
        loop {
            let digits = self.arrived.iter().take_while(|byte| byte.is_ascii_digit());
            let length = digits.count();
            if length < self.arrived.len() {
                let number = std::str::from_utf8(&self.arrived[..length])?;
                return number.parse().context("that is no number");
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> anyhow::Result<()> {
        let mut block = [0; 16 * 1024];
        let count = self.stream.read(&mut block).context("no answer came")?;
        ensure!(count > 0, "the server closed the connection");
        self.arrived.extend_from_slice(&block[..count]);
        Ok(())
    }
}

/// An agent that makes, takes and finishes tasks one at a time.
pub struct Agent {
    pub connection: Connection,
    requests: Requests,
    name: String,
}

impl Agent {
    pub fn open(server: SocketAddr, name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            connection: Connection::open(server)?,
            requests: Requests::new(server),
            name: name.to_owned(),
        })
    }

    /// Creates a task; returns its id.
    pub fn create(&mut self, number: u64, skill: &str) -> anyhow::Result<String> {
        let mut body = Vec::new();
        write_task(&mut body, number, format_args!("{skill}"));
        let answer = self.post(format_args!("/api/v1/tasks"), &body)?;
        let id = answers::text_of(&answer, "id");
        Ok(id.context("a new task has no id")?.to_owned())
    }

    /// Asks for a task, and waits for one so many seconds; the answer is still to come.
    pub fn ask(&mut self, wait: u64) -> anyhow::Result<()> {
        let name = &self.name;
        let body = format!(r#"{{"protocolVersion":"1.0","agentId":"{name}","wait":{wait}}}"#);
        let mut request = Vec::new();
        let path = format_args!("/api/v1/tasks/claim");
        self.requests.post(&mut request, path, body.as_bytes());
        self.connection.send(&request)
    }

    /// The task that it asked for.
    pub fn claimed(&mut self) -> anyhow::Result<Held> {
        let (status, answer) = self.connection.receive()?;
        let mut held = Held::default();
        let claimed = answers::claimed_task(&answer, &mut held);
        let answer = String::from_utf8_lossy(&answer);
        ensure!(claimed.is_some(), "there was no task: {status} {answer}");
        Ok(held)
    }

    pub fn complete(&mut self, held: &Held) -> anyhow::Result<()> {
        let mut body = vec![b'{'];
        write_completion(&mut body, &self.name, held);
        body.push(b'}');
        let path = format_args!("/api/v1/tasks/{}/complete", held.id);
        self.post(path, &body).map(drop)
    }

    pub fn post(&mut self, path: Arguments<'_>, body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut request = Vec::new();
        self.requests.post(&mut request, path, body);
        let (status, answer) = self.connection.exchange(&request)?;
        let said = String::from_utf8_lossy(&answer);
        ensure!(matches!(status, 200 | 201), "{path}: {status} {said}");
        Ok(answer)
    }
}

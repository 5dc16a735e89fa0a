//! One blocking keep-alive connection, for whatever is done one request at a time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::http;

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

    fn read_more(&mut self) -> anyhow::Result<()> {
        let mut block = [0; 16 * 1024];
        let count = self.stream.read(&mut block).context("no answer came")?;
        ensure!(count > 0, "the server closed the connection");
        self.arrived.extend_from_slice(&block[..count]);
        Ok(())
    }
}

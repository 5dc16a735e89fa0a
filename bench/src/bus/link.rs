//! One blocking connection to the bus; nothing on it takes longer than a deadline.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use memchr::{memchr, memmem};

/// Whatever takes longer never comes.
pub const WITHIN: Duration = Duration::from_secs(20);
const WELCOME: &str = r#""message_type":"protocol_welcome.v1""#;
const BYTES_TOLD_MAX: usize = 400;

/// A connection and what arrived on it.
pub struct Link {
    stream: TcpStream,
    arrived: Vec<u8>,
}

impl Link {
    pub fn open(server: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, WITHIN)
            .with_context(|| format!("cannot connect to {server}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WITHIN))?;
        stream.set_write_timeout(Some(WITHIN))?;
        Ok(Self {
            stream,
            arrived: Vec::new(),
        })
    }

    /// Opens a connection and says hello; the welcome is still to come.
    pub fn greet(bus: SocketAddr, hello: &[u8]) -> anyhow::Result<Self> {
        let mut link = Self::open(bus)?;
        link.say(hello)?;
        Ok(link)
    }

    /// Opens a connection that is welcome.
    pub fn enter(bus: SocketAddr, hello: &[u8]) -> anyhow::Result<Self> {
        let mut link = Self::greet(bus, hello)?;
        link.await_welcome()?;
        Ok(link)
    }

    pub fn say(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(frame).context("cannot send")
    }

    /// The first frame has to be the welcome.
    pub fn await_welcome(&mut self) -> anyhow::Result<()> {
        let line = self.hear().context("no welcome came")?;
        if memmem::find(&line, WELCOME.as_bytes()).is_none() {
            bail!("no welcome but {}", told(&line));
        }
        Ok(())
    }

    fn hear(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            if let Some(end) = memchr(b'\n', &self.arrived) {
                let rest = self.arrived.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.arrived, rest));
            }
            let mut block = [0; 4096];
            let count = self.stream.read(&mut block).context("nothing came")?;
            ensure!(count > 0, "the hub closed the connection");
            self.arrived.extend_from_slice(&block[..count]);
        }
    }

    /// The socket, and what arrived on it after the welcome.
    pub fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.arrived)
    }
}

/// A frame as far as it fits into a report.
pub fn told(line: &[u8]) -> String {
    let shown = &line[..line.len().min(BYTES_TOLD_MAX)];
    String::from_utf8_lossy(shown).trim_end().to_owned()
}

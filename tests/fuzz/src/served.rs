//! A hub that serves in this process, and calls to it as plain as a stranger's.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use switchboard_hub::Running;
use switchboard_hub::config::{AuthMode, Config};
use switchboard_store::SystemClock;
use switchboard_store::memory::MemoryEngine;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Many times what anything here should take.
pub const SOON: Duration = Duration::from_secs(30);

pub struct Served {
    runtime: Runtime,
    running: Option<Running>,
    pub addr: SocketAddr,
    home: TempDir,
}

impl Served {
    pub fn start(auth: AuthMode) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut config = Config::for_project(home.path().to_owned());
        config.http.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        config.limits.enabled = false;
        config.bus.enabled = false;
        config.broker.listen = None;
        config.auth = auth;
        let runtime = Runtime::new().unwrap();
        let engine = Box::new(MemoryEngine::new(Box::new(SystemClock::new())));
        let started = Running::start_with(config, engine, "memory");
        let running = runtime.block_on(started).unwrap();
        Self {
            addr: running.addr,
            running: Some(running),
            runtime,
            home,
        }
    }

    pub fn project(&self) -> &Path {
        self.home.path()
    }

    /// Everything that is said to these bytes until the hub ends the connection.
    pub fn say(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        // Who is refused may find the connection closed before everything was sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let (mut said, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut piece) {
                Ok(0) => return said,
                Ok(read) => said.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("the hub neither answers nor ends the connection");
                }
                Err(_) => return said,
            }
            // Such an answer has no end.
            if said.windows(17).any(|part| part == b"text/event-stream") {
                return said;
            }
        }
    }

    /// The status of a call, and its answer if that is JSON.
    pub fn call(&self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            self.addr,
            body.len()
        );
        let said = self.ask(&[head.as_bytes(), body].concat());
        let said = String::from_utf8(said).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// The same for a whole request that asks for the end of its connection.
    fn ask(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        said
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.shutdown());
        }
    }
}

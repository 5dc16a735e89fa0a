//! The ceilings of the bus: bare servers on the hub's own codec, allocator and event loop, in a process of their own.
//!
//! They know no session and keep nothing: dividing by their speed says what the hub adds.

use clap::ValueEnum;
use switchboard_wire::agentbus::codec::{Line, Lines};
use switchboard_wire::agentbus::envelope;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::echo;

/// The longest line, as the hub has it by default.
const LINE_BYTES_MAX: usize = 65_536;
/// As much as the hub reads at a time.
const READ_BYTES: usize = 64 * 1024;
/// What the last frame of a block asks for.
pub const MARKER: &str = "catalog_refresh_request.v1";

/// What a bare server does with a line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bare {
    /// Sends it back without a look
    Echo,
    /// Reads its envelope; only a request is answered
    Decode,
}

impl Bare {
    /// What the server's process is called with.
    pub fn arguments(self) -> [&'static str; 2] {
        match self {
            Self::Echo => ["serve-lines", "echo"],
            Self::Decode => ["serve-lines", "decode"],
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "bare echo of every line",
            Self::Decode => "bare, envelopes read, nothing said",
        }
    }
}

/// The child process; see [`echo::serve_until_orphaned`].
pub fn serve(bare: Bare) -> anyhow::Result<()> {
    echo::serve_until_orphaned(async move |listener| {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                if let Err(error) = answer(stream, bare).await {
                    eprintln!("lines: {error:#}");
                }
            });
        }
    })
}

async fn answer(mut stream: TcpStream, bare: Bare) -> anyhow::Result<()> {
    let mut lines = Lines::new(LINE_BYTES_MAX);
    let mut buffer = vec![0; READ_BYTES];
    let mut out = Vec::new();
    loop {
        // A client that has seen enough goes without ado.
        let Ok(count @ 1..) = stream.read(&mut buffer).await else {
            return Ok(());
        };
        let mut feed = lines.feed(&buffer[..count]);
        while let Some(line) = feed.next() {
            let Line::Whole(line) = line else {
                anyhow::bail!("a line is too long");
            };
            if bare == Bare::Echo || asks(line)? {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
        }
        if stream.write_all(&out).await.is_err() {
            return Ok(());
        }
        out.clear();
    }
}

fn asks(line: &[u8]) -> anyhow::Result<bool> {
    match envelope::decode(line) {
        Ok(envelope) => Ok(envelope.message_type.as_str() == MARKER),
        Err(_) => anyhow::bail!("a line is no envelope"),
    }
}

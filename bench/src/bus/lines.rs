//! The ceiling of the bus: a bare server on the hub's own codec, allocator and event loop that sends back every line.
//!
//! It knows no session and keeps nothing: dividing by its speed says what the hub adds.

use switchboard_wire::agentbus::codec::{Line, Lines};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::echo;

/// The longest line, as the hub has it by default.
const LINE_BYTES_MAX: usize = 65_536;
/// As much as the hub reads at a time.
const READ_BYTES: usize = 64 * 1024;
/// What the server's process is called with.
pub const ARGUMENT: &str = "serve-lines";

/// The child process; see [`echo::serve_until_orphaned`].
pub fn serve() -> anyhow::Result<()> {
    echo::serve_until_orphaned(async |listener| {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                if let Err(error) = answer(stream).await {
                    eprintln!("lines: {error:#}");
                }
            });
        }
    })
}

async fn answer(mut stream: TcpStream) -> anyhow::Result<()> {
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
            out.extend_from_slice(line);
            out.push(b'\n');
        }
        if stream.write_all(&out).await.is_err() {
            return Ok(());
        }
        out.clear();
    }
}

//! A few workers that send heartbeats as fast as they are handled.
//!
//! Each connection sends blocks of frames of which the last asks for an answer, and has a bounded number of frames on the way. What
//! is counted is what was handled: an answer says so of the whole block before it. The hub and the bare servers are loaded by the
//! same code, from one thread.

use std::net::{SocketAddr, TcpStream as BlockingStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use memchr::{memchr_iter, memmem};
use switchboard_wire::agentbus::codec::{Line, Lines};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep_until, timeout_at};

use super::frames::{Block, Manner, worker_hello, worker_name};
use super::link::{Link, told};
use crate::cpu::Meter;
use crate::load::{Plan, Window};
use crate::report::CpuSplit;

/// Frames of a block, the request at its end included.
const BLOCK: u64 = 256;
/// Frames that one connection may have on the way.
const UNDER_WAY_MAX: u64 = 2 * BLOCK;
/// A run that does not come to its end this long after it should have is given up.
const GRACE: Duration = Duration::from_secs(20);
const READ_BYTES: usize = 64 * 1024;
/// What the hub sends in one line.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// What answers the last frame of a block.
const CATALOG: &[u8] = br#""engram_catalog_snapshot.v1""#;

/// Whom to load.
#[derive(Clone, Copy)]
pub enum Server {
    Hub(SocketAddr),
    Echo(SocketAddr),
}

/// What a run showed.
pub struct Streamed {
    /// Frames that were handled in the time that counts.
    pub frames: u64,
    pub elapsed: Duration,
    pub cpu: CpuSplit,
}

impl Streamed {
    pub fn per_second(&self) -> f64 {
        self.frames as f64 / self.elapsed.as_secs_f64()
    }
}

/// Loads a server, which is that process, through so many connections.
pub fn run(server: Server, pid: u32, connections: usize, plan: Plan) -> anyhow::Result<Streamed> {
    let lanes = (0..connections).map(|number| Lane::open(server, number));
    let lanes: Vec<Lane> = lanes.collect::<anyhow::Result<_>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the load generator's event loop")?;
    LocalSet::new().block_on(&runtime, async {
        let meter = Meter::begin(vec![pid], None)?;
        let window = Window::starting_now(plan);
        let mut running = JoinSet::new();
        for lane in lanes {
            running.spawn_local(lane.drive(window));
        }
        let all_done = async {
            let mut frames = 0;
            while let Some(done) = running.join_next().await {
                frames += done.context("a connection panicked")??;
            }
            anyhow::Ok(frames)
        };
        let frames = timeout_at((window.closes_at + GRACE).into(), all_done)
            .await
            .context("the run did not end in time")??;
        ensure!(frames > 0, "nothing was handled");
        Ok(Streamed {
            frames,
            elapsed: plan.measure_for,
            cpu: meter.end()?,
        })
    })
}

/// One connection.
struct Lane {
    stream: BlockingStream,
    block: Block,
    answers: Answers,
}

/// How a server tells what it has handled.
enum Answers {
    /// A line for each line.
    EveryLine,
    /// A catalog for each block.
    Blocks(Lines),
}

impl Lane {
    fn open(server: Server, number: usize) -> anyhow::Result<Self> {
        let id = worker_name(number);
        let (link, answers) = match server {
            Server::Hub(bus) => {
                let link = Link::enter(bus, &worker_hello(&id, Manner::Reports))?;
                (link, Answers::Blocks(Lines::new(LINE_BYTES_MAX)))
            }
            Server::Echo(server) => (Link::open(server)?, Answers::EveryLine),
        };
        let (stream, _) = link.into_parts();
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            block: Block::new(&id, BLOCK as usize),
            answers,
        })
    }

    /// Returns how many frames were handled in the time that counts.
    async fn drive(mut self, window: Window) -> anyhow::Result<u64> {
        let mut stream = TcpStream::from_std(self.stream)?;
        let (mut reader, mut writer) = stream.split();
        let mut buffer = vec![0; READ_BYTES];
        let mut written = self.block.bytes.len();
        let (mut under_way, mut counted) = (0, 0);
        let mut end = std::pin::pin!(sleep_until(window.closes_at.into()));
        loop {
            if written == self.block.bytes.len() && under_way + BLOCK <= UNDER_WAY_MAX {
                self.block.renumber();
                under_way += BLOCK;
                written = 0;
            }
            let ahead = &self.block.bytes[written..];
            tokio::select! {
                wrote = writer.write(ahead), if !ahead.is_empty() => {
                    written += wrote.context("cannot send")?;
                }
                read = reader.read(&mut buffer) => {
                    let count = read.context("no answer came")?;
                    ensure!(count > 0, "the server closed the connection in the middle of a run");
                    let handled = self.answers.handled(&buffer[..count])?;
                    ensure!(handled <= under_way, "more was answered than asked");
                    under_way -= handled;
                    if window.counts(Instant::now()) {
                        counted += handled;
                    }
                }
                () = &mut end => return Ok(counted),
            }
        }
    }
}

impl Answers {
    /// How many frames these bytes tell of.
    fn handled(&mut self, arrived: &[u8]) -> anyhow::Result<u64> {
        let lines = match self {
            Self::EveryLine => return Ok(memchr_iter(b'\n', arrived).count() as u64),
            Self::Blocks(lines) => lines,
        };
        let mut handled = 0;
        let mut feed = lines.feed(arrived);
        while let Some(line) = feed.next() {
            let Line::Whole(line) = line else {
                bail!("the server sent a line of more than {LINE_BYTES_MAX} bytes");
            };
            if memmem::find(line, br#""protocol_error.v1""#).is_some() {
                bail!("the hub refused a frame: {}", told(line));
            }
            if memmem::find(line, CATALOG).is_some() {
                handled += BLOCK;
            }
        }
        Ok(handled)
    }
}

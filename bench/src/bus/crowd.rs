//! A great many connected workers that beat at an even pace.
//!
//! One thread visits them in turn, each when its beat is due: it takes what has arrived, and sends. No event loop is needed for
//! that, and an idle socket costs the generator nothing.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::ensure;
use memchr::memmem;

use super::frames::{Beat, Manner, worker_hello, worker_name};
use super::link::{Link, told};

/// Hellos that are on their way at a time.
const GREETED_MAX: usize = 128;
const CONNECTED_WITHIN: Duration = Duration::from_secs(180);
const READ_BYTES: usize = 64 * 1024;
/// Reads of one visit; what is left is taken at the next one.
const READS_MAX: usize = 8;
const ERRORS_TOLD_MAX: usize = 3;

/// Connected workers.
pub struct Crowd {
    members: Vec<Member>,
    /// Who beats next.
    next: usize,
    buffer: Vec<u8>,
    epoch: Instant,
    pub lost: u64,
    pub errors_told: Vec<String>,
}

struct Member {
    /// None once it is lost.
    stream: Option<TcpStream>,
    beat: Beat,
}

impl Crowd {
    /// Connects them all and waits for every welcome. Stamps count nanoseconds from `epoch`.
    pub fn connect(
        bus: SocketAddr,
        manner: Manner,
        count: usize,
        epoch: Instant,
    ) -> anyhow::Result<Self> {
        let began_at = Instant::now();
        let mut members = Vec::with_capacity(count);
        let mut greeted: VecDeque<(Link, Beat)> = VecDeque::new();
        let mut welcome_first = |greeted: &mut VecDeque<(Link, Beat)>| {
            if let Some((mut link, beat)) = greeted.pop_front() {
                link.await_welcome()?;
                let (stream, _) = link.into_parts();
                stream.set_nonblocking(true)?;
                members.push(Member {
                    stream: Some(stream),
                    beat,
                });
            }
            anyhow::Ok(())
        };
        for number in 0..count {
            ensure!(
                began_at.elapsed() < CONNECTED_WITHIN,
                "only {number} of {count} workers had connected after {CONNECTED_WITHIN:?}"
            );
            if greeted.len() >= GREETED_MAX {
                welcome_first(&mut greeted)?;
            }
            let id = worker_name(number);
            let link = Link::greet(bus, &worker_hello(&id, manner))?;
            greeted.push_back((link, Beat::new(&id, manner)));
        }
        while !greeted.is_empty() {
            welcome_first(&mut greeted)?;
        }
        Ok(Self {
            members,
            next: 0,
            buffer: vec![0; READ_BYTES],
            epoch,
            lost: 0,
            errors_told: Vec::new(),
        })
    }

    /// Each beats once in `every`, all of them spread evenly; returns how many heartbeats were sent.
    pub fn beat_for(&mut self, every: Duration, lasts_for: Duration) -> u64 {
        let began_at = Instant::now();
        let apart = every.div_f64(self.members.len().max(1) as f64);
        let (mut visits, mut sent) = (0_u32, 0);
        loop {
            let due_after = apart.mul_f64(f64::from(visits));
            let now_after = began_at.elapsed();
            if due_after >= lasts_for || now_after >= lasts_for {
                // A generator that fell behind does not make up for it.
                std::thread::sleep(lasts_for.saturating_sub(now_after));
                return sent;
            }
            if due_after > now_after {
                std::thread::sleep(due_after - now_after);
            }
            sent += u64::from(self.visit());
            visits += 1;
        }
    }

    /// Whether the next one's heartbeat was sent.
    fn visit(&mut self) -> bool {
        let count = self.members.len();
        let Some(member) = self.members.get_mut(self.next) else {
            return false;
        };
        self.next = (self.next + 1) % count;
        let Some(stream) = &member.stream else {
            return false;
        };
        let visited = take_arrived(stream, &mut self.buffer).and_then(|()| {
            let stamp = self.epoch.elapsed().as_nanos() as u64;
            send(stream, member.beat.next(stamp))
        });
        let Err(error) = visited else {
            return true;
        };
        member.stream = None;
        self.lost += 1;
        if self.errors_told.len() < ERRORS_TOLD_MAX {
            self.errors_told.push(format!("{error:#}"));
        }
        false
    }
}

/// Reads away what the hub sent.
fn take_arrived(mut stream: &TcpStream, buffer: &mut [u8]) -> anyhow::Result<()> {
    for _ in 0..READS_MAX {
        match stream.read(buffer) {
            Ok(0) => anyhow::bail!("the hub closed the connection"),
            Ok(count) => {
                let arrived = &buffer[..count];
                if let Some(at) = memmem::find(arrived, br#""protocol_error.v1""#) {
                    anyhow::bail!("the hub refused a frame: {}", told(&arrived[at..]));
                }
                if count < buffer.len() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A heartbeat always fits into an empty socket; where it does not, the hub has stopped reading.
fn send(mut stream: &TcpStream, line: &[u8]) -> anyhow::Result<()> {
    let written = stream.write(line)?;
    ensure!(written == line.len(), "the hub does not take heartbeats");
    Ok(())
}

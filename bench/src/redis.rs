//! Redis with `appendfsync always`, the nearest thing to compare with: a durable queue that many know.
//!
//! A pair is `LMOVE` from the waiting list to the working list, and `LREM` from there: no skills, no leases, no events.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::http::Answer;
use crate::load::{self, Outcome, Script, Verdict};
use crate::report::{RedisRow, middle};
use crate::settings::Settings;

const CLIENTS: usize = 50;
const READY_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Tasks stored for a run, by its seconds; more than Redis takes with a sync for each.
const TASKS_PER_SECOND: f64 = 150_000.0;

/// Whether there is a Redis to compare with.
pub fn is_installed() -> bool {
    let asked = Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// Takes tasks from a throw-away Redis on the measured disk, as often as the hub is measured.
pub fn measure(settings: &Settings) -> anyhow::Result<RedisRow> {
    let mut samples = Vec::new();
    for round in 1..=settings.rounds {
        crate::progress(format_args!(
            "redis at {CLIENTS} clients, round {round} of {}",
            settings.rounds
        ));
        let outcome = measure_round(settings)?;
        samples.push(RedisRow {
            clients: CLIENTS,
            pairs_per_s: outcome.units_per_s(),
            p50_ms: outcome.latency.p50_ms(),
            p99_ms: outcome.latency.p99_ms(),
            errors: outcome.errors,
        });
    }
    Ok(middle(&samples))
}

fn measure_round(settings: &Settings) -> anyhow::Result<Outcome> {
    let home = settings.new_home()?;
    let redis = Redis::start(home.path())?;
    let lasts_for = settings.warm_up_for + settings.hub_for;
    redis.fill((lasts_for.as_secs_f64() * TASKS_PER_SECOND) as u64)?;
    let scripts = (0..CLIENTS).map(|_| TakeFinish::default()).collect();
    load::run(settings.plan(settings.hub_for), redis.server, scripts)
}

struct Redis {
    child: Child,
    server: SocketAddr,
}

impl Redis {
    fn start(home: &std::path::Path) -> anyhow::Result<Self> {
        // Redis cannot pick a port by itself, so a free one is found and let go for it.
        let server = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let child = Command::new("redis-server")
            .args(["--port", &server.port().to_string()])
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .args(["--appendfsync", "always", "--auto-aof-rewrite-percentage"])
            .args(["0", "--dir"])
            .arg(home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start redis-server")?;
        let mut redis = Self { child, server };
        redis.await_ready()?;
        Ok(redis)
    }

    fn await_ready(&mut self) -> anyhow::Result<()> {
        let started_at = Instant::now();
        while started_at.elapsed() < READY_WITHIN {
            if let Some(status) = self.child.try_wait()? {
                bail!("redis-server ended with {status}");
            }
            if let Ok(answer) = self.ask(b"*1\r\n$4\r\nPING\r\n")
                && answer == b"+PONG\r\n"
            {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("redis-server was not ready within {READY_WITHIN:?}");
    }

    fn fill(&self, tasks: u64) -> anyhow::Result<()> {
        let script = "for n = 1, ARGV[1] do redis.call('RPUSH', 'waiting', string.format('tsk_01J%023d', n)) end return 1";
        let mut command = Vec::new();
        let tasks = tasks.to_string();
        let words = ["EVAL", script, "0", &tasks].map(str::as_bytes);
        write_command(&mut command, words.into_iter());
        let answer = self.ask(&command)?;
        ensure!(answer.starts_with(b":"), "redis did not store the tasks");
        Ok(())
    }

    fn ask(&self, command: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.server)?;
        stream.set_read_timeout(Some(READY_WITHIN))?;
        stream.write_all(command)?;
        let mut answer = Vec::new();
        let mut block = [0; 256];
        while !answer.ends_with(b"\r\n") {
            let count = stream.read(&mut block)?;
            ensure!(count > 0, "redis closed the connection");
            answer.extend_from_slice(&block[..count]);
        }
        Ok(answer)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct TakeFinish {
    taken: Vec<u8>,
}

impl Script for TakeFinish {
    fn request(&mut self, out: &mut Vec<u8>) {
        if self.taken.is_empty() {
            let words: [&[u8]; 5] = [b"LMOVE", b"waiting", b"working", b"LEFT", b"RIGHT"];
            write_command(out, words.into_iter());
        } else {
            let words: [&[u8]; 4] = [b"LREM", b"working", b"1", &self.taken];
            write_command(out, words.into_iter());
        }
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        if answer.status != 200 {
            return Verdict::Failed;
        }
        if !self.taken.is_empty() {
            self.taken.clear();
            return Verdict::Good { units: 1 };
        }
        if answer.body.is_empty() {
            return Verdict::Exhausted;
        }
        self.taken.extend_from_slice(&answer.body);
        Verdict::Good { units: 0 }
    }

    fn cut<'a>(&self, buffer: &'a [u8]) -> anyhow::Result<Option<Answer<'a>>> {
        cut_reply(buffer)
    }
}

fn write_command<'a>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'a [u8]>) {
    let never_fails = "a vector takes any number of bytes";
    write!(out, "*{}\r\n", words.len()).expect(never_fails);
    for word in words {
        write!(out, "${}\r\n", word.len()).expect(never_fails);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Cuts one reply off: a bulk text, a number, or an error, which gets the status 500.
fn cut_reply(buffer: &[u8]) -> anyhow::Result<Option<Answer<'_>>> {
    let Some(line_end) = memchr::memmem::find(buffer, b"\r\n") else {
        return Ok(None);
    };
    let (kind, line) = buffer[..line_end].split_first().context("an empty reply")?;
    let start = line_end + 2;
    let (status, body, used) = match kind {
        b'$' => match std::str::from_utf8(line)?.parse::<i64>()? {
            ..0 => (200, &[][..], start),
            length => {
                let end = start + usize::try_from(length)?;
                if buffer.len() < end + 2 {
                    return Ok(None);
                }
                (200, &buffer[start..end], end + 2)
            }
        },
        b':' | b'+' => (200, line, start),
        b'-' => (500, line, start),
        _ => bail!("redis answered with something else than text or a number"),
    };
    Ok(Some(Answer {
        status,
        body: Cow::Borrowed(body),
        used,
    }))
}

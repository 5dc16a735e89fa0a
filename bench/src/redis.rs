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
use crate::load::{self, Ask, Outcome, Script, Verdict};
use crate::report::{RedisRow, median};
use crate::settings::Settings;

const CLIENTS: usize = 50;
const READY_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Tasks stored for a run, by its seconds; more than Redis takes with a sync for each.
const TASKS_PER_SECOND: f64 = 150_000.0;
const TASKS_PER_PUSH: u64 = 1000;

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
    let mut outcomes = Vec::new();
    for round in 1..=settings.rounds {
        crate::progress(format_args!(
            "redis at {CLIENTS} clients, round {round} of {}",
            settings.rounds
        ));
        outcomes.push(measure_round(settings)?);
    }
    let of = |figure: fn(&Outcome) -> f64| median(outcomes.iter().map(figure));
    Ok(RedisRow {
        clients: CLIENTS,
        pairs_per_s: of(Outcome::units_per_s),
        p50_ms: of(Outcome::p50_ms),
        p99_ms: of(Outcome::p99_ms),
        errors: outcomes.iter().map(|outcome| outcome.errors).sum(),
    })
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
        let mut begin = 0;
        while begin < tasks {
            let end = tasks.min(begin + TASKS_PER_PUSH);
            let mut words = vec!["RPUSH".to_owned(), "waiting".to_owned()];
            words.extend((begin..end).map(|number| format!("tsk_01J{number:023}")));
            let mut command = Vec::new();
            write_command(&mut command, words.iter().map(String::as_bytes));
            let answer = self.ask(&command)?;
            ensure!(answer.starts_with(b":"), "redis did not store the tasks");
            begin = end;
        }
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
    fn request(&mut self, out: &mut Vec<u8>) -> Ask {
        if self.taken.is_empty() {
            let words: [&[u8]; 5] = [b"LMOVE", b"waiting", b"working", b"LEFT", b"RIGHT"];
            write_command(out, words.into_iter());
        } else {
            let words: [&[u8]; 4] = [b"LREM", b"working", b"1", &self.taken];
            write_command(out, words.into_iter());
        }
        Ask::Timed
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_cut_when_they_are_whole() {
        let reply = |status, body: &[u8], used| Some((status, body.to_vec(), used));
        let cases: [(&[u8], _); 6] = [
            (b"$3\r\nab", None),
            (b"$3\r\nabc\r\n:", reply(200, b"abc", 9)),
            (b"$-1\r\n", reply(200, b"", 5)),
            (b":12\r\n", reply(200, b"12", 5)),
            (b"-ERR no\r\n", reply(500, b"ERR no", 9)),
            (b":1", None),
        ];
        for (buffer, wanted) in cases {
            let cut = cut_reply(buffer).expect("well-formed");
            let cut = cut.map(|answer| (answer.status, answer.body.into_owned(), answer.used));
            assert_eq!(cut, wanted);
        }
    }
}

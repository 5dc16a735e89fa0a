//! How long whoever waits at one coordinator does not hear of what was done at another.
//!
//! A round: somebody waits at A, a task (or a message, or any event) is made at B, B answers, A answers. The time between the
//! two answers is what is measured; that of the work itself is not.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::ground::{Ground, Word};
use crate::answers;
use crate::connection::Agent;
use crate::doors::pause;
use crate::histogram::Histogram;
use crate::http::Requests;
use crate::hub_process::Hub;
use crate::report::{PostgresReport, WaitRow};

const WAITER: &str = "waiter";
const SENDER: &str = "sender";
/// How long whoever waits would.
const WAIT_S: u64 = 60;

#[derive(Clone, Copy)]
enum Kind {
    Claim,
    Message,
    Event,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Claim, Self::Message, Self::Event];

    fn name(self) -> &'static str {
        match self {
            Self::Claim => "waiting claim",
            Self::Message => "waiting for messages",
            Self::Event => "event stream",
        }
    }
}

pub fn measure(ground: &Ground<'_>, report: &mut PostgresReport) -> anyhow::Result<()> {
    for word in Word::ALL {
        let mut ledger = ground.ledger(word);
        let hubs = ledger.coordinators(2)?;
        for agent in [WAITER, SENDER] {
            hubs[0].register(agent)?;
        }
        let mut pair = Pair::open(&hubs[0], &hubs[1])?;
        for kind in Kind::ALL {
            let (of, word) = (kind.name(), word.name());
            crate::progress(format_args!("PostgreSQL: wake-up, {of}, by {word}"));
            let mut waited = Histogram::default();
            if matches!(kind, Kind::Event) {
                pair.follow()?;
            }
            for round in 0..ground.settings.wakeups {
                let took = match kind {
                    Kind::Claim => pair.claim(round),
                    Kind::Message => pair.message(round),
                    Kind::Event => pair.event(round),
                };
                waited.record(took.with_context(|| format!("{of}, round {round}"))?);
            }
            let of = format!("{of}, by {word}");
            report.wakeups.push(WaitRow::new(&of, &waited));
        }
    }
    Ok(())
}

/// One who waits at A and one who works at B.
struct Pair {
    a: Agent,
    b: Agent,
    to_a: Requests,
}

impl Pair {
    fn open(a: &Hub, b: &Hub) -> anyhow::Result<Self> {
        Ok(Self {
            a: Agent::open(a.server, WAITER)?,
            b: Agent::open(b.server, SENDER)?,
            to_a: Requests::new(a.server),
        })
    }

    fn claim(&mut self, round: u64) -> anyhow::Result<Duration> {
        self.a.ask(WAIT_S)?;
        pause(round);
        let created = self.b.create(round, "rust")?;
        let worked_at = Instant::now();
        let held = self.a.claimed()?;
        let took = worked_at.elapsed();
        ensure!(held.id == created, "the waiting claim got {}", held.id);
        self.a.complete(&held)?;
        Ok(took)
    }

    fn message(&mut self, round: u64) -> anyhow::Result<Duration> {
        let mut request = Vec::new();
        let path = format_args!("/api/v1/messages?agentId={WAITER}&limit=100&wait={WAIT_S}");
        self.to_a.get(&mut request, path);
        self.a.connection.send(&request)?;
        pause(round);
        let body = format!(
            r#"{{"protocolVersion":"1.0","agentId":"{SENDER}","message":{{"to":"{WAITER}","type":"info.discovery","payload":{{"round":{round}}}}}}}"#
        );
        let sent = self
            .b
            .post(format_args!("/api/v1/messages"), body.as_bytes())?;
        let worked_at = Instant::now();
        let (_, answer) = self.a.connection.receive()?;
        let took = worked_at.elapsed();
        let id = answers::text_of(&sent, "messageId").context("a message has no id")?;
        let came = answers::count_of(&answer, id) > 0;
        ensure!(
            came,
            "another message than {id} came: {}",
            String::from_utf8_lossy(&answer)
        );
        Ok(took)
    }

    /// Opens the stream of events at A.
    fn follow(&mut self) -> anyhow::Result<()> {
        let mut request = Vec::new();
        self.to_a
            .stream(&mut request, format_args!("/api/v1/events"));
        self.a.connection.send(&request)?;
        // Its first sign of life: it has begun to look.
        self.a.connection.read_past(": still here\n\n")
    }

    fn event(&mut self, round: u64) -> anyhow::Result<Duration> {
        pause(round);
        let created = self.b.create(round, "nobody-has-it")?;
        let worked_at = Instant::now();
        self.a.connection.read_past(&created)?;
        Ok(worked_at.elapsed())
    }
}

//! How long whoever waits at one coordinator does not hear of what was done at another.
//!
//! A round: somebody waits at A, a task (or a message, or any event) is made at B, B answers, A answers. The time between the
//! two answers is what is measured; that of the work itself is not.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::ground::{Ground, Word};
use super::rows::{PostgresReport, WakeupRow};
use crate::answers::{self, Held};
use crate::connection::Connection;
use crate::histogram::Histogram;
use crate::http::Requests;
use crate::hub_process::Hub;
use crate::scripts::{write_completion, write_task};

/// Between the question at A and the work at B: long enough that A waits for sure, and of varying length, so that every
/// moment between two looks into the log is met.
const PAUSE_MIN: Duration = Duration::from_millis(15);
const PAUSE_SPREAD: Duration = Duration::from_millis(25);
/// Multiples of it fall evenly between whole numbers.
const GOLDEN: f64 = 0.618_033_988_75;
const WAITER: &str = "waiter";
const SENDER: &str = "sender";

/// Whom the one who waits and the one who works ask.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Between {
    OneCoordinator,
    TwoCoordinators,
}

impl Between {
    pub fn name(self) -> &'static str {
        match self {
            Self::OneCoordinator => "within one",
            Self::TwoCoordinators => "across two",
        }
    }
}

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
        let (here, there) = (&hubs[0], &hubs[1]);
        for kind in Kind::ALL {
            if word == Word::Notification {
                let row = measure_kind(ground, kind, word, Between::OneCoordinator, here, here)?;
                report.wakeups.push(row);
            }
            let row = measure_kind(ground, kind, word, Between::TwoCoordinators, here, there)?;
            report.wakeups.push(row);
        }
    }
    Ok(())
}

fn measure_kind(
    ground: &Ground<'_>,
    kind: Kind,
    word: Word,
    between: Between,
    a: &Hub,
    b: &Hub,
) -> anyhow::Result<WakeupRow> {
    let (of, how) = (kind.name(), between.name());
    crate::progress(format_args!(
        "PostgreSQL: wake-up, {of}, {how}, {}",
        word.name()
    ));
    let mut pair = Pair::open(a, b)?;
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
    Ok(WakeupRow {
        of: of.to_owned(),
        between: how.to_owned(),
        word: word.name().to_owned(),
        rounds: waited.total(),
        p50_ms: waited.quantile_ms(0.5).unwrap_or(f64::NAN),
        p99_ms: waited.quantile_ms(0.99).unwrap_or(f64::NAN),
        longest_ms: waited.longest_ms(),
    })
}

/// One who waits at A and one who works at B.
struct Pair {
    a: Connection,
    b: Connection,
    to_a: Requests,
    to_b: Requests,
}

impl Pair {
    fn open(a: &Hub, b: &Hub) -> anyhow::Result<Self> {
        Ok(Self {
            a: Connection::open(a.server)?,
            b: Connection::open(b.server)?,
            to_a: Requests::new(a.server),
            to_b: Requests::new(b.server),
        })
    }

    fn claim(&mut self, round: u64) -> anyhow::Result<Duration> {
        let body = format!(r#"{{"protocolVersion":"1.0","agentId":"{WAITER}","wait":60}}"#);
        let mut request = Vec::new();
        let path = format_args!("/api/v1/tasks/claim");
        self.to_a.post(&mut request, path, body.as_bytes());
        self.a.send(&request)?;
        pause(round);
        let created = self.create(round, "rust")?;
        let worked_at = Instant::now();
        let (status, answer) = self.a.receive()?;
        let took = worked_at.elapsed();
        let mut held = Held::default();
        let claimed = answers::claimed_task(&answer, &mut held);
        ensure!(
            status == 200 && claimed.is_some() && held.id == created,
            "the waiting claim got something else: {status} {}",
            String::from_utf8_lossy(&answer)
        );
        self.complete(&held)?;
        Ok(took)
    }

    fn message(&mut self, round: u64) -> anyhow::Result<Duration> {
        let mut request = Vec::new();
        let path = format_args!("/api/v1/messages?agentId={WAITER}&limit=100&wait=60");
        self.to_a.get(&mut request, path);
        self.a.send(&request)?;
        pause(round);
        let body = format!(
            r#"{{"protocolVersion":"1.0","agentId":"{SENDER}","message":{{"to":"{WAITER}","type":"info.discovery","payload":{{"round":{round}}}}}}}"#
        );
        request.clear();
        let path = format_args!("/api/v1/messages");
        self.to_b.post(&mut request, path, body.as_bytes());
        let (status, sent) = self.b.exchange(&request)?;
        let worked_at = Instant::now();
        let (_, answer) = self.a.receive()?;
        let took = worked_at.elapsed();
        let id = answers::text_of(&sent, "messageId");
        let id =
            id.with_context(|| format!("not sent: {status} {}", String::from_utf8_lossy(&sent)))?;
        ensure!(
            answers::count_of(&answer, id) > 0,
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
        self.a.send(&request)?;
        // Its first sign of life: it has begun to look.
        self.a.read_past(": still here\n\n")
    }

    fn event(&mut self, round: u64) -> anyhow::Result<Duration> {
        pause(round);
        let created = self.create(round, "nobody-has-it")?;
        let worked_at = Instant::now();
        self.a.read_past(&created)?;
        Ok(worked_at.elapsed())
    }

    /// Creates a task at B; returns its id.
    fn create(&mut self, round: u64, skill: &str) -> anyhow::Result<String> {
        let (mut request, mut body) = (Vec::new(), Vec::new());
        write_task(&mut body, round, format_args!("{skill}"));
        self.to_b
            .post(&mut request, format_args!("/api/v1/tasks"), &body);
        let (status, answer) = self.b.exchange(&request)?;
        let id = answers::text_of(&answer, "id").filter(|_| status == 201);
        let words = || format!("no task: {status} {}", String::from_utf8_lossy(&answer));
        id.map(ToOwned::to_owned).with_context(words)
    }

    fn complete(&mut self, held: &Held) -> anyhow::Result<()> {
        let (mut request, mut body) = (Vec::new(), vec![b'{']);
        write_completion(&mut body, WAITER, held);
        body.push(b'}');
        let path = format_args!("/api/v1/tasks/{}/complete", held.id);
        self.to_a.post(&mut request, path, &body);
        let (status, answer) = self.a.exchange(&request)?;
        ensure!(
            status == 200,
            "not completed: {status} {}",
            String::from_utf8_lossy(&answer)
        );
        Ok(())
    }
}

fn pause(round: u64) {
    let share = (round as f64 * GOLDEN).fract();
    std::thread::sleep(PAUSE_MIN + PAUSE_SPREAD.mul_f64(share));
}

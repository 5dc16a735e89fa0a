//! Requests as files: from the rename that makes a request appear to the answer's file being there.
//!
//! One agent claims and completes. Word of a file can be kept from the hub without its help: a new directory that already holds the
//! request takes the place of the empty one that the hub watches. Then only its rescan finds the request.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::ground::prepare;
use super::{pause, share_of};
use crate::ground::{Ground, Place};
use crate::histogram::Histogram;
use crate::report::{DoorsReport, WaitRow};

/// What the hub does unless it is told otherwise.
const RESCAN: Duration = Duration::from_millis(500);
/// Rounds that have to wait for a rescan, in relation to the others.
const HEARD_PER_UNHEARD: u64 = 5;
const STALE_FILES: u64 = 10_000;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How often the agent looks for its answer: what it adds to a round trip is half of that.
const LOOK_EVERY: Duration = Duration::from_micros(200);

pub const HEARD: &str = "file events on";
pub const UNHEARD: &str = "no word of the file, found by a rescan";
pub const STALE: &str = "file events on, 10,000 stale files in each directory";

/// Whether the hub can hear of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Heard,
    Kept,
}

pub fn measure(ground: &Ground<'_>, report: &mut DoorsReport) -> anyhow::Result<()> {
    report.rescan_ms = RESCAN.as_secs_f64() * 1e3;
    let place = ground.new_hub()?;
    let heard = ground.settings.wakeups;
    for (of, rounds, word) in [
        (HEARD, heard, Word::Heard),
        (UNHEARD, heard / HEARD_PER_UNHEARD, Word::Kept),
        (STALE, heard, Word::Heard),
    ] {
        crate::progress(format_args!("doors: round trips by file, {of}"));
        if of == STALE {
            lay_stale_files(&place)?;
        }
        let row = measure_case(&place, of, rounds, word)?;
        report.files.push(row);
    }
    Ok(())
}

fn measure_case(place: &Place, of: &str, rounds: u64, word: Word) -> anyhow::Result<WaitRow> {
    // Half of the requests are claims.
    prepare(place, rounds / 2 + 1)?;
    let mut agent = Agent {
        dir: place.protocol_dir(),
        name: format!("files-{}", place.hub.metric("files_answered_total")?),
        sent: 0,
        holds: None,
    };
    place.hub.register(&agent.name)?;
    let mut took = Histogram::default();
    for round in 0..rounds {
        match word {
            Word::Heard => pause(round),
            // The answer comes right after a rescan; every moment until the next one is met.
            Word::Kept => std::thread::sleep(RESCAN.mul_f64(share_of(round))),
        }
        let trip = agent.round_trip(word);
        took.record(trip.with_context(|| format!("round {round}"))?);
    }
    Ok(WaitRow::new(of, &took))
}

/// What dead agents leave behind: answers that nobody fetched, requests of old, files half written.
fn lay_stale_files(place: &Place) -> anyhow::Result<()> {
    let dir = place.protocol_dir();
    for number in 0..STALE_FILES {
        for path in [
            format!("requests/stale-{number}.json.tmp"),
            format!("responses/stale-{number}-response.json"),
            format!("done/stale-{number}.json"),
            format!("rejected/stale-{number}.json"),
        ] {
            std::fs::write(dir.join(path), "{}")?;
        }
    }
    place.hub.settle()
}

/// An agent that shares nothing but a directory with the hub.
struct Agent {
    dir: PathBuf,
    name: String,
    sent: u64,
    holds: Option<Value>,
}

impl Agent {
    /// Claims, or completes what it holds; returns how long the answer took.
    fn round_trip(&mut self, word: Word) -> anyhow::Result<Duration> {
        let held = self.holds.take();
        let operation = match &held {
            Some(_) => "COMPLETE",
            None => "CLAIM",
        };
        let mut request =
            json!({"protocolVersion": "1.0", "operation": operation, "agentId": self.name});
        if let Some(task) = &held {
            request["taskId"] = task["id"].clone();
            request["epoch"] = task["epoch"].clone();
            request["result"] = json!({"filesCreated": [], "filesModified": ["src/lib.rs"], "filesDeleted": [],
                "summary": "The function is changed and its tests pass."});
        }
        self.sent += 1;
        let name = format!("{}-{}", self.name, self.sent);
        let asked_at = match word {
            Word::Heard => self.put(&name, &request)?,
            Word::Kept => self.put_unheard(&name, &request)?,
        };
        let answer = self.dir.join(format!("responses/{name}-response.json"));
        let (answer, took) = await_file(&answer, asked_at)?;
        let answer: Value = serde_json::from_slice(&answer).context("the answer is not JSON")?;
        ensure!(answer["success"] == true, "{operation}: {answer}");
        if held.is_none() {
            self.holds = Some(answer["task"].clone());
        }
        Ok(took)
    }

    /// Writes a request under another name and renames it, as the protocol asks.
    fn put(&self, name: &str, request: &Value) -> anyhow::Result<Instant> {
        let half = self.dir.join(format!("requests/.{name}"));
        let whole = self.dir.join(format!("requests/{name}.json"));
        std::fs::write(&half, request.to_string())?;
        let asked_at = Instant::now();
        std::fs::rename(&half, &whole)?;
        Ok(asked_at)
    }

    /// Puts a directory with the request in the place of the empty one that is watched.
    fn put_unheard(&self, name: &str, request: &Value) -> anyhow::Result<Instant> {
        let fresh = self.dir.join(format!("fresh-{name}"));
        std::fs::create_dir(&fresh)?;
        std::fs::write(fresh.join(format!("{name}.json")), request.to_string())?;
        let asked_at = Instant::now();
        std::fs::rename(&fresh, self.dir.join("requests"))
            .context("the directory of requests cannot be replaced")?;
        Ok(asked_at)
    }
}

/// Reads a file that appears whole, and tells how long that took.
fn await_file(path: &Path, since: Instant) -> anyhow::Result<(Vec<u8>, Duration)> {
    loop {
        match std::fs::read(path) {
            Ok(bytes) => return Ok((bytes, since.elapsed())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context("the answer cannot be read"),
        }
        ensure!(
            since.elapsed() < ANSWER_WITHIN,
            "no answer came within {ANSWER_WITHIN:?}"
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

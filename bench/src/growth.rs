//! Does a claim cost the same with a million waiting tasks? And the memory and the start?
//!
//! A second hub with the smallest number of tasks runs beside the growing one, and their claims are timed in turn, so that a
//! slow minute of the machine slows both. Each cycle creates a fitting task, claims one (timed) and completes it, so the
//! number of waiting tasks stays what it is.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::http::{Answer, Requests};
use crate::hub_process::Hub;
use crate::load::{self, Ask, Outcome, Plan, Script, Verdict};
use crate::preload::{self, Skill};
use crate::report::{GrowthRow, StartRow};
use crate::scripts::{ClaimComplete, Keys, write_task};
use crate::settings::Settings;

/// How often the two hubs take turns.
const TURNS: u64 = 10;
/// Claims at the start of each turn that are not timed.
const WARM_UP_CLAIMS: u64 = 10;
const TURN_WITHIN: Duration = Duration::from_secs(300);
/// Different foreign skills in the last case.
pub const SKILL_KINDS: u64 = 100_000;

/// What the waiting tasks need, and how it is called in the table.
const CASES: [(Skill, &str); 3] = [
    (Skill::Matching, "all match"),
    (Skill::Foreign, "all but one need another skill"),
    (
        Skill::Distinct { kinds: SKILL_KINDS },
        "all but one need one of 100,000 other skills",
    ),
];

/// Measures claims, memory and start for each case.
pub fn measure(
    settings: &Settings,
    binary: &Path,
) -> anyhow::Result<(Vec<GrowthRow>, Vec<StartRow>)> {
    let mut growth = Vec::new();
    let mut starts = Vec::new();
    for (skill, name) in CASES {
        let case = Case {
            settings,
            binary,
            skill,
            name,
        };
        starts.extend(case.measure(&mut growth)?);
    }
    Ok((growth, starts))
}

struct Case<'a> {
    settings: &'a Settings,
    binary: &'a Path,
    skill: Skill,
    name: &'static str,
}

impl Case<'_> {
    fn measure(&self, rows: &mut Vec<GrowthRow>) -> anyhow::Result<Option<StartRow>> {
        let Some((&smallest, larger)) = self.settings.waiting.split_first() else {
            return Ok(None);
        };
        let reference_home = self.settings.new_home()?;
        let reference = Hub::start(self.binary, reference_home.path())?;
        let stored_per_s = preload::fill(&reference, self.skill, 0, smallest)?;
        crate::progress(format_args!("{}: {smallest} waiting", self.name));
        let alone = time_claims(self.settings, &[&reference], smallest)?.remove(0);
        rows.push(row(
            self.name,
            smallest,
            &alone,
            None,
            &reference,
            stored_per_s,
        )?);

        let home = self.settings.new_home()?;
        let hub = Hub::start(self.binary, home.path())?;
        let mut stored = 0;
        for &waiting in larger {
            crate::progress(format_args!("{}: {waiting} waiting", self.name));
            let stored_per_s = preload::fill(&hub, self.skill, stored, waiting)?;
            stored = waiting;
            let both = time_claims(self.settings, &[&reference, &hub], waiting)?;
            rows.push(row(
                self.name,
                waiting,
                &both[1],
                Some(&both[0]),
                &hub,
                stored_per_s,
            )?);
        }
        if stored == 0 {
            return Ok(None);
        }
        reference.kill()?;
        self.time_starts(hub, &home, stored).map(Some)
    }

    /// Stops and starts the full hub, then kills and starts it.
    fn time_starts(&self, hub: Hub, home: &TempDir, stored: u64) -> anyhow::Result<StartRow> {
        crate::progress(format_args!("{}: start with {stored} tasks", self.name));
        hub.settle()?;
        hub.stop()?;
        let after_stop = Hub::start(self.binary, home.path())?;
        let after_stop_s = after_stop.ready_after.as_secs_f64();
        after_stop.settle()?;
        let resident_mb = after_stop.resident_mb()?;
        // Something new in the log, so that the killed hub has something to recover.
        after_stop.register("latecomer")?;
        preload::fill(&after_stop, Skill::Matching, 0, 1000)?;
        after_stop.kill()?;
        let after_kill = Hub::start(self.binary, home.path())?;
        Ok(StartRow {
            case: self.name.to_owned(),
            tasks: stored,
            after_stop_s,
            after_kill_s: after_kill.ready_after.as_secs_f64(),
            resident_mb,
        })
    }
}

/// Times claims on several hubs in turn.
pub fn time_claims(
    settings: &Settings,
    hubs: &[&Hub],
    waiting: u64,
) -> anyhow::Result<Vec<Outcome>> {
    // A name of its own for each size: the agent before may have been silent for too long by now.
    let agent = format!("claimer-{waiting}");
    for hub in hubs {
        hub.register(&agent)?;
        hub.settle()?;
    }
    let plan = Plan {
        warm_up_for: Duration::ZERO,
        measure_for: TURN_WITHIN,
        threads: 1,
    };
    let mut sums: Vec<Outcome> = hubs.iter().map(|_| Outcome::default()).collect();
    for _ in 0..TURNS {
        for (hub, sum) in hubs.iter().zip(&mut sums) {
            let cycle = Cycle::new(hub.server, &agent, settings.claims / TURNS);
            sum.merge(load::run(plan, hub.server, vec![cycle])?);
        }
    }
    Ok(sums)
}

/// What the timed claims on a hub come to, beside those on the one with the fewest tasks.
pub fn row(
    case: &str,
    waiting: u64,
    claims: &Outcome,
    reference: Option<&Outcome>,
    hub: &Hub,
    stored_per_s: f64,
) -> anyhow::Result<GrowthRow> {
    Ok(GrowthRow {
        case: case.to_owned(),
        waiting,
        claim_p50_ms: claims.p50_ms(),
        claim_p99_ms: claims.p99_ms(),
        reference_p50_ms: reference.map(Outcome::p50_ms),
        reference_p99_ms: reference.map(Outcome::p99_ms),
        p99_ratio: reference.map(|reference| claims.p99_ms() / reference.p99_ms()),
        resident_mb: hub.resident_mb()?,
        stored_per_s,
        errors: claims.errors,
        errors_told: claims.errors_told.clone(),
    })
}

/// Creates a fitting task, claims one, completes it; a given number of times.
struct Cycle {
    requests: Requests,
    pair: ClaimComplete,
    body: Vec<u8>,
    creates: bool,
    /// Whether the request sent last created a task.
    created: bool,
    done: u64,
    wanted: u64,
}

impl Cycle {
    fn new(server: SocketAddr, agent: &str, timed: u64) -> Self {
        Self {
            requests: Requests::new(server),
            pair: ClaimComplete::new(server, agent.to_owned(), Keys::None),
            body: Vec::new(),
            creates: true,
            created: false,
            done: 0,
            wanted: timed + WARM_UP_CLAIMS,
        }
    }
}

impl Script for Cycle {
    fn request(&mut self, out: &mut Vec<u8>) -> Ask {
        if self.creates && self.pair.is_free() {
            if self.done == self.wanted {
                return Ask::Finished;
            }
            self.creates = false;
            self.created = true;
            self.body.clear();
            write_task(&mut self.body, self.done, format_args!("rust"));
            let path = format_args!("/api/v1/tasks");
            self.requests.post(out, path, &self.body);
            return Ask::Untimed;
        }
        self.created = false;
        let claims = self.pair.is_free();
        self.pair.request(out);
        if !claims {
            return Ask::Untimed;
        }
        self.creates = true;
        self.done += 1;
        if self.done > WARM_UP_CLAIMS {
            Ask::Timed
        } else {
            Ask::Untimed
        }
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        if !self.created {
            return match self.pair.answer(answer) {
                // Every cycle brings its own task, so there is one to claim unless the hub is wrong.
                Verdict::Exhausted => Verdict::Failed,
                verdict => verdict,
            };
        }
        match answer.status {
            201 => Verdict::Good { units: 0 },
            _ => Verdict::Failed,
        }
    }
}

//! Does a claim cost the same with a million waiting tasks? And the memory and the start?
//!
//! A second hub with the smallest number of tasks runs beside the growing one, and their claims are timed in turn, so that a
//! slow minute of the machine slows both. Each cycle creates a fitting task, claims one (timed) and completes it, so the
//! number of waiting tasks stays what it is.

use std::path::Path;
use std::time::Instant;

use tempfile::TempDir;

use crate::connection::Agent;
use crate::histogram::Histogram;
use crate::hub_process::Hub;
use crate::preload::{self, Skill};
use crate::report::{GrowthRow, StartRow};
use crate::settings::Settings;

/// How often the two hubs take turns.
const TURNS: u64 = 10;
/// Claims at the start of each turn that are not timed.
const WARM_UP_CLAIMS: u64 = 10;
/// Different foreign skills in the last case.
const SKILL_KINDS: u64 = 100_000;

/// What the waiting tasks need, and how it is called in the table.
pub const CASES: [(Skill, &str); 2] = [
    (Skill::Matching, "all match"),
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
) -> anyhow::Result<Vec<Histogram>> {
    // A name of its own for each size: the agent before may have been silent for too long by now.
    let name = format!("claimer-{waiting}");
    let mut agents = Vec::new();
    for hub in hubs {
        hub.register(&name)?;
        hub.settle()?;
        agents.push((Agent::open(hub.server, &name)?, Histogram::default()));
    }
    for _ in 0..TURNS {
        for (agent, took) in &mut agents {
            for number in 0..WARM_UP_CLAIMS + settings.claims / TURNS {
                agent.create(number, "rust")?;
                let asked_at = Instant::now();
                agent.ask(0)?;
                let held = agent.claimed()?;
                if number >= WARM_UP_CLAIMS {
                    took.record(asked_at.elapsed());
                }
                agent.complete(&held)?;
            }
        }
    }
    Ok(agents.into_iter().map(|(_, took)| took).collect())
}

/// What the timed claims on a hub come to, beside those on the one with the fewest tasks.
pub fn row(
    case: &str,
    waiting: u64,
    claims: &Histogram,
    reference: Option<&Histogram>,
    hub: &Hub,
    stored_per_s: f64,
) -> anyhow::Result<GrowthRow> {
    Ok(GrowthRow {
        case: case.to_owned(),
        waiting,
        claim_p50_ms: claims.p50_ms(),
        claim_p99_ms: claims.p99_ms(),
        reference_p50_ms: reference.map(Histogram::p50_ms),
        reference_p99_ms: reference.map(Histogram::p99_ms),
        p99_ratio: reference.map(|reference| claims.p99_ms() / reference.p99_ms()),
        resident_mb: hub.resident_mb()?,
        stored_per_s,
    })
}

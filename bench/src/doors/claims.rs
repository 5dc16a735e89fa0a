//! How often a claim fails that reads first and writes later, as Jetpack's own programs claim: beside the hub, and
//! beside none.
//!
//! Each program is a process of its own: locks of a file belong to processes. Of a claim only the first try counts.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rusqlite::{Connection, OptionalExtension as _};

use super::ground::{open, prepare, register_by_sql};
use crate::ground::Ground;
use crate::report::{ClaimRow, DoorsReport};

pub const PROCESSES: [usize; 2] = [1, 3];
/// Pairs a second of one program that are never exceeded: tasks for so many are kept in store.
const PAIRS_PER_S_MAX: f64 = 2_000.0;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(5);

pub fn measure(ground: &Ground<'_>, report: &mut DoorsReport) -> anyhow::Result<()> {
    for processes in PROCESSES {
        crate::progress(format_args!("doors: claims of {processes} processes"));
        let lasts_for = ground.settings.hub_for;
        let waiting = lasts_for.as_secs_f64() * PAIRS_PER_S_MAX * processes as f64;
        let place = ground.new_hub()?;
        let agents: Vec<String> = (0..processes).map(|n| format!("by-hand-{n}")).collect();
        for agent in &agents {
            register_by_sql(&place, agent)?;
        }
        prepare(&place, waiting as u64 * 2)?;
        let (claims, failed) = claims_of(&place.file(), &agents, lasts_for)?;
        let (file, _home) = place.stop()?;
        let (bare_claims, bare_failed) = claims_of(&file, &agents, lasts_for)?;
        let percent = |failed: u64, claims: u64| failed as f64 * 100.0 / claims.max(1) as f64;
        report.claims.push(ClaimRow {
            processes,
            claims,
            failed_percent: percent(failed, claims),
            bare_claims,
            bare_failed_percent: percent(bare_failed, bare_claims),
        });
    }
    Ok(())
}

/// Runs this program as so many others; claims, and how many of them failed.
fn claims_of(file: &Path, agents: &[String], lasts_for: Duration) -> anyhow::Result<(u64, u64)> {
    let this_program = std::env::current_exe().context("cannot find this program's file")?;
    let spawned = agents.iter().map(|agent| {
        Command::new(&this_program)
            .args(["claim", agent, &lasts_for.as_secs_f64().to_string()])
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a program that claims")
    });
    let children: Vec<Child> = spawned.collect::<anyhow::Result<_>>()?;
    let mut all = (0, 0);
    for child in children {
        let said = child.wait_with_output()?;
        ensure!(said.status.success(), "a program that claims has failed");
        let said = String::from_utf8(said.stdout)?;
        let figures = said.trim().split_once(' ').context("it says two figures")?;
        all = (
            all.0 + figures.0.parse::<u64>()?,
            all.1 + figures.1.parse::<u64>()?,
        );
    }
    Ok(all)
}

/// Claims and completes for so long, and says how many claims there were and how many failed.
pub fn run(agent: &str, seconds: f64, file: &Path) -> anyhow::Result<()> {
    let own = open(file)?;
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut claims, mut failed) = (0, 0);
    while Instant::now() < until {
        claims += 1;
        let mut tried = claim(&own, agent);
        failed += u64::from(tried.is_err());
        while tried.is_err() {
            drop(own.execute_batch("ROLLBACK"));
            std::thread::sleep(TRY_AGAIN_AFTER);
            tried = claim(&own, agent);
        }
        let task = tried?.context("no task was left to claim")?;
        let done = "UPDATE tasks SET status = 'completed', result = '{}' WHERE id = ? AND assigned_agent = ?";
        own.execute(done, [&task, agent])?;
    }
    println!("{claims} {failed}");
    Ok(())
}

/// In a transaction that only turns into a writer with its UPDATE.
fn claim(own: &Connection, agent: &str) -> rusqlite::Result<Option<String>> {
    own.execute_batch("BEGIN")?;
    let ready =
        "SELECT id FROM tasks WHERE status = 'ready' ORDER BY priority_order, created_at LIMIT 1";
    let task: Option<String> = own.query_row(ready, [], |row| row.get(0)).optional()?;
    if let Some(task) = &task {
        let taken = "UPDATE tasks SET status = 'claimed', assigned_agent = ?, claimed_at = CURRENT_TIMESTAMP
            WHERE id = ? AND status = 'ready'";
        own.execute(taken, [agent, task])?;
    }
    own.execute_batch("COMMIT")?;
    Ok(task)
}

//! The hub's file for those who write by hand, and load beside it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use rusqlite::Connection;

use super::statements::{REGISTER, Values, bound, rows_of};
use crate::ground::{Ground, Place};
use crate::hub_process::Hub;
use crate::load::{self, Outcome};
use crate::preload::{self, Skill};
use crate::scripts::{ClaimComplete, Keys};
use crate::settings::Settings;

/// Pairs a second that no door exceeds: tasks for so many are kept in store.
const PAIRS_PER_S_MAX: f64 = 15_000.0;
const TAKEN_IN_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(1);
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Of the load beside which hand writes are timed.
pub const CONNECTIONS: usize = 64;

/// Tasks that will do for one run.
pub fn tasks_per_run(ground: &Ground<'_>) -> u64 {
    let lasts_for = ground.settings.warm_up_for + ground.settings.hub_for;
    (lasts_for.as_secs_f64() * PAIRS_PER_S_MAX) as u64
}

/// A connection as direct clients have it.
pub fn open(path: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0")?;
    Ok(connection)
}

/// Sees to it that so many tasks wait and that the hub has nothing else to do.
pub fn prepare(place: &Place, waiting: u64) -> anyhow::Result<()> {
    await_taken_in(&open(&place.file())?)?;
    let ready = place.hub.metric(r#"tasks{status="ready"}"#)? as u64;
    preload::fill(
        &place.hub,
        Skill::Matching,
        0,
        waiting.saturating_sub(ready),
    )?;
    place.hub.settle()
}

/// Registers an agent by SQL. The first one brings indexes for its kind, which are there when it was taken in.
pub fn register_by_sql(place: &Place, agent: &str) -> anyhow::Result<()> {
    let values = Values {
        agent,
        ..Values::default()
    };
    let own = open(&place.file())?;
    rows_of(bound(&own, &REGISTER, values)?)?;
    await_taken_in(&own)
}

/// Waits until the hub has taken in what was written by hand.
fn await_taken_in(own: &Connection) -> anyhow::Result<()> {
    let began_at = Instant::now();
    let mut noted = own.prepare("SELECT 1 FROM sb_hand LIMIT 1")?;
    while noted.exists([])? {
        let in_time = began_at.elapsed() < TAKEN_IN_WITHIN;
        ensure!(
            in_time,
            "hand writes are not taken in after {TAKEN_IN_WITHIN:?}"
        );
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Claims and completes over HTTP, one new agent a connection.
pub fn run_http(settings: &Settings, hub: &Hub, run: &str) -> anyhow::Result<Outcome> {
    let agents: Vec<String> = (0..CONNECTIONS).map(|n| format!("{run}-{n}")).collect();
    for agent in &agents {
        hub.register(agent)?;
    }
    let script = |agent| ClaimComplete::new(hub.server, agent, Keys::None);
    let scripts = agents.into_iter().map(script).collect();
    load::run(settings.plan(settings.hub_for), hub.server, scripts)
}

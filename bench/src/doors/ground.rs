//! A hub with its file and its directories: what every door opens onto.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::ensure;
use rusqlite::Connection;
use tempfile::TempDir;

use super::sql_client::{Durability, SqlClient, open};
use super::statements::{REGISTER, Values, bound, rows_of};
use crate::hub_process::Hub;
use crate::load::{self, Outcome};
use crate::preload::{self, Skill};
use crate::scripts::{ClaimComplete, Keys};
use crate::settings::Settings;

/// Pairs a second that no door exceeds: tasks for so many are kept in store.
const PAIRS_PER_S_MAX: f64 = 15_000.0;
const TAKEN_IN_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What all measurements of doors are given.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    pub settings: &'a Settings,
    pub binary: &'a Path,
}

impl Ground<'_> {
    pub fn new_hub(&self) -> anyhow::Result<Place> {
        let home = self.settings.new_home()?;
        let hub = Hub::start(self.binary, home.path())?;
        let own = open(&file_in(home.path()), Durability::Full)?;
        Ok(Place { hub, own, home })
    }

    /// Tasks that will do for one run.
    pub fn tasks_per_run(&self) -> u64 {
        let lasts_for = self.settings.warm_up_for + self.settings.hub_for;
        (lasts_for.as_secs_f64() * PAIRS_PER_S_MAX) as u64
    }
}

fn file_in(home: &Path) -> PathBuf {
    home.join("data").join("switchboard.db")
}

/// A running hub and where its doors are.
pub struct Place {
    pub hub: Hub,
    /// The bench's own connection on the file, for what is not timed.
    own: Connection,
    home: TempDir,
}

impl Place {
    /// The ledger's file.
    pub fn file(&self) -> PathBuf {
        file_in(self.home.path())
    }

    /// The directory of requests and answers.
    pub fn protocol_dir(&self) -> PathBuf {
        self.home.path().join("project/.jetpack/protocol")
    }

    /// Sees to it that so many tasks wait and that the hub has nothing else to do.
    pub fn prepare(&self, waiting: u64) -> anyhow::Result<()> {
        self.await_taken_in()?;
        let ready = self.hub.metric(r#"tasks{status="ready"}"#)? as u64;
        preload::fill(&self.hub, Skill::Matching, 0, waiting.saturating_sub(ready))?;
        self.hub.settle()
    }

    /// Registers an agent by SQL. The first one brings indexes for its kind, which are there when it was taken in.
    pub fn register_by_sql(&self, agent: &str) -> anyhow::Result<()> {
        let values = Values {
            agent,
            ..Values::default()
        };
        rows_of(bound(&self.own, &REGISTER, values)?)?;
        self.await_taken_in()?;
        Ok(())
    }

    /// Agents that registered by SQL, each with a connection on the file.
    pub fn sql_clients(
        &self,
        run: &str,
        count: usize,
        durability: Durability,
    ) -> anyhow::Result<Vec<SqlClient>> {
        let client = |number: usize| {
            let agent = format!("{run}-{number}");
            self.register_by_sql(&agent)?;
            SqlClient::open(&self.file(), agent, durability)
        };
        (0..count).map(client).collect()
    }

    /// Waits until the hub has taken in what was written by hand; returns how long that took.
    pub fn await_taken_in(&self) -> anyhow::Result<Duration> {
        let began_at = Instant::now();
        while began_at.elapsed() < TAKEN_IN_WITHIN {
            let mut noted = self.own.prepare_cached("SELECT 1 FROM sb_hand LIMIT 1")?;
            if !noted.exists([])? {
                return Ok(began_at.elapsed());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let left: i64 = self
            .own
            .query_row("SELECT count(*) FROM sb_hand", [], |row| row.get(0))?;
        ensure!(
            left == 0,
            "after {TAKEN_IN_WITHIN:?} the hub has not taken in {left} hand writes"
        );
        Ok(began_at.elapsed())
    }
}

/// Claims and completes over HTTP, one new agent a connection.
pub fn run_http(
    settings: &Settings,
    hub: &Hub,
    run: &str,
    connections: usize,
) -> anyhow::Result<Outcome> {
    let agents: Vec<String> = (0..connections).map(|n| format!("{run}-{n}")).collect();
    for agent in &agents {
        hub.register(agent)?;
    }
    let script = |agent| ClaimComplete::new(hub.server, agent, Keys::None);
    let scripts = agents.into_iter().map(script).collect();
    load::run(settings.plan(settings.hub_for), hub.server, scripts)
}

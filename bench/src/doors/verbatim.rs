//! The claim as the document prints it, with few and with very many waiting tasks.
//!
//! A cycle brings a new task, claims one (timed) and completes it, so the number of waiting tasks stays what it is. On the bare
//! file, which has no index, a claim at a million tasks takes its time: as many as fit into some seconds are timed there.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rusqlite::Connection;

use super::bare::{Bare, Order};
use super::ground::{Ground, Place};
use super::rows::{DoorsReport, VerbatimRow};
use super::sql_client::{Durability, open, open_bare};
use super::statements::{COMPLETE, CREATE, VERBATIM, Values, bound, claimed, rows_of};
use crate::histogram::Histogram;

/// No size is timed for longer.
const TIMED_FOR_MAX: Duration = Duration::from_secs(20);
/// Cycles that are not timed.
const WARM_UP: u64 = 3;

pub fn measure(ground: &Ground<'_>, report: &mut DoorsReport) -> anyhow::Result<()> {
    let place = ground.new_hub()?;
    let bare_home = ground.settings.new_home()?;
    let mut bare = Bare::make(bare_home.path(), Order::Sorted)?;
    for &waiting in &ground.settings.waiting {
        crate::progress(format_args!(
            "doors: the document's claim, {waiting} waiting"
        ));
        let here = on_the_hubs_file(ground, &place, waiting)?;
        let there = on_a_bare_file(ground, &mut bare, waiting)?;
        report.verbatim.push(VerbatimRow {
            waiting,
            claims: here.total(),
            p50_ms: here.quantile_ms(0.5).unwrap_or(f64::NAN),
            p99_ms: here.quantile_ms(0.99).unwrap_or(f64::NAN),
            bare_claims: there.total(),
            bare_p50_ms: there.quantile_ms(0.5).unwrap_or(f64::NAN),
            bare_p99_ms: there.quantile_ms(0.99).unwrap_or(f64::NAN),
        });
    }
    Ok(())
}

fn on_the_hubs_file(ground: &Ground<'_>, place: &Place, waiting: u64) -> anyhow::Result<Histogram> {
    place.prepare(waiting)?;
    // A name of its own for each size: the agent before may have been silent for too long by now.
    let agent = format!("verbatim-{waiting}");
    place.register_by_sql(&agent)?;
    let claimer = Claimer {
        connection: open(&place.file(), Durability::Full)?,
        agent,
    };
    claimer.time(ground.settings.claims)
}

fn on_a_bare_file(ground: &Ground<'_>, bare: &mut Bare, waiting: u64) -> anyhow::Result<Histogram> {
    bare.fill_up(waiting)?;
    let claimer = Claimer {
        connection: open_bare(&bare.path, Durability::Full)?,
        agent: format!("verbatim-{waiting}"),
    };
    claimer.time(ground.settings.claims)
}

struct Claimer {
    connection: Connection,
    agent: String,
}

impl Claimer {
    fn time(&self, claims: u64) -> anyhow::Result<Histogram> {
        let mut took = Histogram::default();
        let began_at = Instant::now();
        for number in 0..claims + WARM_UP {
            if began_at.elapsed() > TIMED_FOR_MAX && took.total() > 0 {
                break;
            }
            let claim = self.cycle(number)?;
            if number >= WARM_UP {
                took.record(claim);
            }
        }
        Ok(took)
    }

    fn cycle(&self, number: u64) -> anyhow::Result<Duration> {
        let task = format!("{}-{number}", self.agent);
        rows_of(self.with(&CREATE, &task, 0)?)?;
        let claim = self.with(&VERBATIM, "", 0)?;
        let sent_at = Instant::now();
        let found = claimed(claim)?;
        let took = sent_at.elapsed();
        let (found, _) = found.context("the document's claim found no task")?;
        // Its answer has the epoch of before, which a trigger raises on the hub's file and nobody on the bare one.
        let ask = "SELECT epoch FROM tasks WHERE id = ?";
        let epoch = self.connection.query_row(ask, [&found], |row| row.get(0))?;
        let completed = rows_of(self.with(&COMPLETE, &found, epoch)?)?;
        ensure!(
            completed == 1,
            "a task that was just claimed cannot be completed"
        );
        Ok(took)
    }

    fn with(
        &self,
        sql: &str,
        task: &str,
        epoch: i64,
    ) -> anyhow::Result<rusqlite::CachedStatement<'_>> {
        let values = Values {
            agent: &self.agent,
            task,
            epoch,
        };
        bound(&self.connection, sql, values)
    }
}

//! What three SQL clients on its file cost the hub over HTTP.
//!
//! All claim from one pool. The hub alone is measured right before and right after. Apart from that: what the indexes cost it
//! that are made for the first agent that registers by SQL.

use std::time::Duration;

use super::claims::JUDGED_CONNECTIONS;
use super::ground::{Ground, Place, run_http};
use super::others::Others;
use super::rows::{DoorsReport, MixedRow};
use super::sql_client::{self, Durability, Pace};
use crate::load::Outcome;
use crate::report::median;

const SQL_CLIENTS: usize = 3;
/// Twenty pairs a second and client: far busier than any agent.
const PACE: Duration = Duration::from_millis(50);

const CASES: [(&str, Pace, Durability); 3] = [
    (
        "3, 20 pairs/s each, FULL",
        Pace::Every(PACE),
        Durability::Full,
    ),
    ("3, flat out, FULL", Pace::FlatOut, Durability::Full),
    ("3, flat out, NORMAL", Pace::FlatOut, Durability::Normal),
];

/// Nobody works by SQL, but somebody registered: the indexes for such agents are there, and everyone keeps them up.
const INDEXES_ONLY: &str = "none, but one registered by SQL";

struct Sample {
    alone: Vec<Outcome>,
    mixed: Outcome,
    sql: Option<Outcome>,
    others_percent: f64,
}

impl Sample {
    fn alone(&self, figure: fn(&Outcome) -> f64) -> f64 {
        self.alone.iter().map(figure).sum::<f64>() / self.alone.len() as f64
    }

    fn all(&self) -> impl Iterator<Item = &Outcome> {
        let beside = [&self.mixed].into_iter().chain(&self.sql);
        self.alone.iter().chain(beside)
    }
}

pub fn measure(ground: &Ground<'_>, report: &mut DoorsReport) -> anyhow::Result<()> {
    let mut indexed = Vec::new();
    let mut cases: Vec<Vec<Sample>> = CASES.iter().map(|_| Vec::new()).collect();
    for round in 1..=ground.settings.rounds {
        crate::progress(format_args!(
            "doors: HTTP while SQL clients work, round {round} of {}",
            ground.settings.rounds
        ));
        let place = ground.new_hub()?;
        indexed.push(measure_indexes(ground, &place)?);
        for (number, (&(_, pace, durability), samples)) in CASES.iter().zip(&mut cases).enumerate()
        {
            samples.push(measure_case(ground, &place, number, pace, durability)?);
        }
    }
    let rows = CASES.iter().zip(&cases);
    report.mixed = vec![summarize(INDEXES_ONLY, &indexed)];
    report
        .mixed
        .extend(rows.map(|(&(name, _, _), samples)| summarize(name, samples)));
    Ok(())
}

/// On a hub that no agent registered at by SQL so far.
fn measure_indexes(ground: &Ground<'_>, place: &Place) -> anyhow::Result<Sample> {
    let (before, most) = alone(ground, place, "without-indexes")?;
    place.register_by_sql("first-by-sql")?;
    let (mixed, last) = alone(ground, place, "with-indexes")?;
    Ok(Sample {
        alone: vec![before],
        mixed,
        sql: None,
        others_percent: most.max(last),
    })
}

/// The hub with nobody else at work, and what other programs took.
fn alone(ground: &Ground<'_>, place: &Place, run: &str) -> anyhow::Result<(Outcome, f64)> {
    place.prepare(ground.tasks_per_run())?;
    let others = Others::begin(Some(&place.hub))?;
    let outcome = run_http(ground.settings, &place.hub, run, JUDGED_CONNECTIONS)?;
    Ok((outcome, others.percent()?))
}

fn measure_case(
    ground: &Ground<'_>,
    place: &Place,
    number: usize,
    pace: Pace,
    durability: Durability,
) -> anyhow::Result<Sample> {
    let (before, most) = alone(ground, place, &format!("alone-{number}-before"))?;
    // Both kinds of client take from the pool.
    place.prepare(ground.tasks_per_run() * 2)?;
    let run = format!("mixed-{number}-sql");
    let workers = place.sql_clients(&run, SQL_CLIENTS, durability)?;
    let plan = ground.settings.plan(ground.settings.hub_for);
    let others = Others::begin(Some(&place.hub))?;
    let (mixed, sql) = std::thread::scope(|scope| {
        let by_sql = scope.spawn(move || sql_client::run(plan, pace, workers));
        let run = format!("mixed-{number}-http");
        let over_http = run_http(ground.settings, &place.hub, &run, JUDGED_CONNECTIONS);
        let by_sql = by_sql.join().expect("the clients' thread does not panic");
        anyhow::Ok((over_http?, by_sql?))
    })?;
    let most = most.max(others.percent()?);
    let (after, last) = alone(ground, place, &format!("alone-{number}-after"))?;
    Ok(Sample {
        alone: vec![before, after],
        mixed,
        sql: Some(sql),
        others_percent: most.max(last),
    })
}

fn summarize(name: &str, samples: &[Sample]) -> MixedRow {
    let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure));
    let by_sql = |figure: fn(&Outcome) -> f64| {
        let outcomes: Option<Vec<&Outcome>> = samples.iter().map(|one| one.sql.as_ref()).collect();
        outcomes.map(|outcomes| median(outcomes.into_iter().map(figure)))
    };
    let told = samples
        .iter()
        .flat_map(|sample| sample.all().flat_map(|outcome| &outcome.errors_told));
    let errors = |sample: &Sample| sample.all().map(|outcome| outcome.errors).sum::<u64>();
    MixedRow {
        sql_clients: name.to_owned(),
        connections: JUDGED_CONNECTIONS,
        alone_pairs_per_s: of(|sample| sample.alone(Outcome::units_per_s)),
        alone_p99_ms: of(|sample| sample.alone(Outcome::p99_ms)),
        pairs_per_s: of(|sample| sample.mixed.units_per_s()),
        p99_ms: of(|sample| sample.mixed.p99_ms()),
        ratio: of(|sample| sample.mixed.units_per_s() / sample.alone(Outcome::units_per_s)),
        sql_pairs_per_s: by_sql(Outcome::units_per_s),
        sql_p99_ms: by_sql(Outcome::p99_ms),
        others_percent: of(|sample| sample.others_percent),
        errors: samples.iter().map(errors).sum(),
        errors_told: told.take(3).cloned().collect(),
    }
}

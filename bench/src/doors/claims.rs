//! Claims and completions a second through direct SQL, beside the hub's own over HTTP and beside a bare file, round by round.

use super::bare::{Bare, Order};
use super::ground::{Ground, Place, run_http};
use super::others::Others;
use super::rows::{ClaimsRow, DoorsReport};
use super::sql_client::{self, Durability, Pace, SqlClient};
use crate::load::Outcome;
use crate::report::median;

const HTTP_CONNECTIONS: [usize; 2] = [1, 64];
const SQL_CLIENTS: [usize; 2] = [1, 3];
/// The number of connections that the other doors are compared with.
pub const JUDGED_CONNECTIONS: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    Http,
    Sql(Durability),
    Bare(Durability),
}

impl Door {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "hub, over HTTP",
            Self::Sql(_) => "direct SQL on the hub's file",
            Self::Bare(_) => "the same on a bare file",
        }
    }

    fn synchronous(self) -> &'static str {
        match self {
            // The hub's own commits.
            Self::Http => Durability::Full.name(),
            Self::Sql(durability) | Self::Bare(durability) => durability.name(),
        }
    }
}

/// One run of one round.
struct Sample {
    door: Door,
    clients: usize,
    outcome: Outcome,
    caught_up_ms: Option<f64>,
    others_percent: f64,
}

pub fn measure(ground: &Ground<'_>, report: &mut DoorsReport) -> anyhow::Result<()> {
    let mut rounds = Vec::new();
    for round in 1..=ground.settings.rounds {
        crate::progress(format_args!(
            "doors: claims by SQL and over HTTP, round {round} of {}",
            ground.settings.rounds
        ));
        rounds.push(measure_round(ground)?);
    }
    let runs = rounds.first().map_or(0, Vec::len);
    report.claims = (0..runs).map(|run| summarize(&rounds, run)).collect();
    Ok(())
}

fn measure_round(ground: &Ground<'_>) -> anyhow::Result<Vec<Sample>> {
    let place = ground.new_hub()?;
    let bare_home = ground.settings.new_home()?;
    let mut bare = Bare::make(bare_home.path(), Order::Indexed)?;
    let mut samples = Vec::new();
    for connections in HTTP_CONNECTIONS {
        place.prepare(ground.tasks_per_run())?;
        let run = format!("http-{connections}");
        let others = Others::begin(Some(&place.hub))?;
        samples.push(Sample {
            door: Door::Http,
            clients: connections,
            outcome: run_http(ground.settings, &place.hub, &run, connections)?,
            caught_up_ms: None,
            others_percent: others.percent()?,
        });
    }
    for durability in Durability::ALL {
        for clients in SQL_CLIENTS {
            samples.push(on_the_hubs_file(ground, &place, clients, durability)?);
            samples.push(on_a_bare_file(ground, &mut bare, clients, durability)?);
        }
    }
    Ok(samples)
}

fn on_the_hubs_file(
    ground: &Ground<'_>,
    place: &Place,
    clients: usize,
    durability: Durability,
) -> anyhow::Result<Sample> {
    let run = format!("sql-{}-{clients}", durability.name());
    let workers = place.sql_clients(&run, clients, durability)?;
    place.prepare(ground.tasks_per_run())?;
    let plan = ground.settings.plan(ground.settings.hub_for);
    let others = Others::begin(Some(&place.hub))?;
    let outcome = sql_client::run(plan, Pace::FlatOut, workers)?;
    let others_percent = others.percent()?;
    let caught_up = place.await_taken_in()?;
    Ok(Sample {
        door: Door::Sql(durability),
        clients,
        outcome,
        caught_up_ms: Some(caught_up.as_secs_f64() * 1e3),
        others_percent,
    })
}

fn on_a_bare_file(
    ground: &Ground<'_>,
    bare: &mut Bare,
    clients: usize,
    durability: Durability,
) -> anyhow::Result<Sample> {
    bare.fill_up(ground.tasks_per_run())?;
    let worker = |number: usize| {
        let agent = format!("bare-{}-{clients}-{number}", durability.name());
        bare.register(&agent)?;
        SqlClient::open_bare(&bare.path, agent, durability)
    };
    let workers: Vec<SqlClient> = (0..clients).map(worker).collect::<anyhow::Result<_>>()?;
    let plan = ground.settings.plan(ground.settings.hub_for);
    let others = Others::begin(None)?;
    Ok(Sample {
        door: Door::Bare(durability),
        clients,
        outcome: sql_client::run(plan, Pace::FlatOut, workers)?,
        caught_up_ms: None,
        others_percent: others.percent()?,
    })
}

/// The median of what one run showed in every round; ratios are those of each round.
fn summarize(rounds: &[Vec<Sample>], run: usize) -> ClaimsRow {
    let door = rounds[0][run].door;
    let clients = rounds[0][run].clients;
    let of = |figure: fn(&Sample) -> f64| median(rounds.iter().map(|round| figure(&round[run])));
    let beside = |other: Door, clients: usize| {
        let ratios = rounds.iter().filter_map(|round| {
            let theirs = round
                .iter()
                .find(|sample| sample.door == other && sample.clients == clients)?;
            Some(round[run].outcome.units_per_s() / theirs.outcome.units_per_s())
        });
        Some(median(ratios))
    };
    let told = rounds
        .iter()
        .flat_map(|round| &round[run].outcome.errors_told);
    ClaimsRow {
        door: door.name().to_owned(),
        synchronous: door.synchronous().to_owned(),
        clients,
        pairs_per_s: of(|sample| sample.outcome.units_per_s()),
        p50_ms: of(|sample| sample.outcome.p50_ms()),
        p99_ms: of(|sample| sample.outcome.p99_ms()),
        to_bare: match door {
            Door::Sql(durability) => beside(Door::Bare(durability), clients),
            Door::Http | Door::Bare(_) => None,
        },
        to_hub: match door {
            Door::Sql(_) => beside(Door::Http, JUDGED_CONNECTIONS),
            Door::Http | Door::Bare(_) => None,
        },
        caught_up_ms: rounds[0][run]
            .caught_up_ms
            .map(|_| of(|sample| sample.caught_up_ms.unwrap_or(f64::NAN))),
        others_percent: of(|sample| sample.others_percent),
        errors: rounds.iter().map(|round| round[run].outcome.errors).sum(),
        errors_told: told.take(3).cloned().collect(),
    }
}

//! `switchboard job metrics`: what a job cost, by run and by phase, and what it will.

use std::collections::BTreeMap;

use clap::Args as ClapArgs;
use serde::Serialize;
use switchboard_wire::logist::Manifest;
use switchboard_wire::logist::history::Exchanged;
use switchboard_wire::logist::http::JobVersionQuery;

use super::{Which, dollars, exchanges, outcome, took};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, cell};

/// Show what a job cost, by phase and by run, and what it is going to cost
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Cost and tokens are what agents reported, never guesses. The projection takes what the finished phases used for each of
those that are left.

Examples:
  switchboard job metrics parser
  switchboard job metrics parser --csv")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Print one line for each run, for a spreadsheet
    #[arg(long)]
    csv: bool,
}

/// What was used up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Used {
    runs: u64,
    cost_cents: f64,
    seconds: f64,
    token_input: u64,
    token_output: u64,
    token_cache_read: u64,
}

#[derive(Debug, PartialEq, Serialize)]
struct Metrics {
    job_id: String,
    status: String,
    /// What counts against the limits: a rerun begins anew.
    total: switchboard_wire::logist::manifest::Metrics,
    /// All runs that are in the history.
    phases: Vec<Phase>,
    /// At the end, if the phases that are left are like those that are done.
    projected: Option<Projected>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Phase {
    phase: String,
    #[serde(flatten)]
    used: Used,
}

#[derive(Debug, PartialEq, Serialize)]
struct Projected {
    cost_cents: f64,
    seconds: f64,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let id = args.which.id(&client).await?;
    let job = client
        .jobs()
        .get(&id, &JobVersionQuery::default())
        .await?
        .job;
    let history = exchanges(&client, &id, 0).await?.interactions;
    let screen = &mut context.screen;
    if args.csv {
        screen.line("sequence,timestamp,phase,role,action,new_status,cost_usd,seconds,token_input,token_output,token_cache_read,model")?;
        for one in &history {
            screen.line(csv(one))?;
        }
        return Ok(());
    }
    let metrics = metrics(&job, &history);
    if screen.json() {
        return Ok(screen.value(&metrics)?);
    }
    Ok(print(screen, &metrics)?)
}

fn print(screen: &mut Screen, metrics: &Metrics) -> std::io::Result<()> {
    let mut table = Table::new(
        [
            "PHASE",
            "RUNS",
            "COST",
            "TIME",
            "TOKENS IN",
            "OUT",
            "CACHED",
        ],
        "no runs",
    );
    for Phase { phase, used } in &metrics.phases {
        table.row([
            cell(phase),
            cell(used.runs),
            cell(dollars(used.cost_cents)),
            cell(took(used.seconds)),
            cell(used.token_input),
            cell(used.token_output),
            cell(used.token_cache_read),
        ]);
    }
    screen.table(&table)?;
    let total = &metrics.total;
    screen.line(format_args!(
        "used of the limits: {}, {}, {} iterations",
        dollars(total.cumulative_cost),
        took(total.cumulative_time_seconds),
        total.iterations
    ))?;
    if total.cost_unreported > 0 {
        screen.line(format_args!(
            "{} runs did not say what they cost",
            total.cost_unreported
        ))?;
    }
    match &metrics.projected {
        Some(end) => screen.line(format_args!(
            "projected at the end: {}, {}",
            dollars(end.cost_cents),
            took(end.seconds)
        )),
        None => Ok(()),
    }
}

fn metrics(job: &Manifest, history: &[Exchanged]) -> Metrics {
    let names = job.spec.phases.as_deref().unwrap_or_default();
    let place = |name: &str| names.iter().position(|phase| phase.name == name);
    let mut phases: BTreeMap<(usize, &str), Used> = BTreeMap::new();
    for one in history {
        let name = one.request.given.metadata.phase.as_str();
        let used = phases.entry((place(name).unwrap_or(names.len()), name));
        let (used, tokens) = (used.or_default(), one.response.tokens);
        used.runs += 1;
        used.cost_cents += one.response.cost_usd * 100.0;
        used.seconds += one.response.execution_time_seconds;
        used.token_input += tokens.map_or(0, |tokens| tokens.input);
        used.token_output += tokens.map_or(0, |tokens| tokens.output);
        used.token_cache_read += tokens.map_or(0, |tokens| tokens.cache_read);
    }
    let done = job
        .current_phase
        .as_deref()
        .map_or(names.len(), |name| place(name).unwrap_or(0));
    Metrics {
        job_id: job.job_id.clone(),
        status: job.status.clone(),
        total: job.metrics.clone(),
        projected: projected(&phases, done, names.len()),
        phases: phases
            .into_iter()
            .map(|((_, name), used)| Phase {
                phase: name.to_owned(),
                used,
            })
            .collect(),
    }
}

/// As the phases that are done, so those that are left; the one that is under way counts for at least what it used.
fn projected(phases: &BTreeMap<(usize, &str), Used>, done: usize, all: usize) -> Option<Projected> {
    if done == 0 {
        return None;
    }
    let end = |used: fn(&Used) -> f64| {
        let of = |wanted: fn(usize, usize) -> bool| -> f64 {
            let some = phases.iter().filter(|((at, _), _)| wanted(*at, done));
            some.map(|(_, phase)| used(phase)).sum()
        };
        let each = of(|at, done| at < done) / done as f64;
        let begun = of(|at, done| at == done);
        let left = all.saturating_sub(done);
        let rest = each * left.saturating_sub(1) as f64;
        each * done as f64 + rest + if left > 0 { each.max(begun) } else { 0.0 }
    };
    Some(Projected {
        cost_cents: end(|used| used.cost_cents),
        seconds: end(|used| used.seconds),
    })
}

fn csv(one: &Exchanged) -> String {
    let (by, response) = (&one.request.given.metadata, &one.response);
    let tokens = |count: fn(&switchboard_wire::logist::history::TokenCounts) -> u64| {
        response
            .tokens
            .as_ref()
            .map(count)
            .map_or_else(String::new, |count| count.to_string())
    };
    [
        one.sequence.to_string(),
        one.timestamp.to_string(),
        quoted(&by.phase),
        quoted(&by.role),
        quoted(&response.action),
        quoted(outcome(one)),
        response.cost_usd.to_string(),
        response.execution_time_seconds.to_string(),
        tokens(|count| count.input),
        tokens(|count| count.output),
        tokens(|count| count.cache_read),
        quoted(by.model.as_deref().unwrap_or_default()),
    ]
    .join(",")
}

/// One field of a line. A spreadsheet must not take it for a formula.
fn quoted(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    let text = text.replace(['\n', '\r'], " ").replace('"', "\"\"");
    match is_formula || text.contains([',', '"']) {
        true if is_formula => format!("\"'{text}\""),
        true => format!("\"{text}\""),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(cost_cents: f64) -> Used {
        Used {
            runs: 1,
            cost_cents,
            ..Used::default()
        }
    }

    #[test]
    fn the_end_is_projected_from_the_phases_that_are_done() {
        let mut phases = BTreeMap::from([((0, "a"), used(10.0))]);
        let cost =
            |phases: &BTreeMap<_, _>, done| projected(phases, done, 3).map(|end| end.cost_cents);
        assert_eq!(cost(&phases, 0), None, "nothing is known");
        assert_eq!(cost(&phases, 1), Some(30.0));
        phases.insert((1, "b"), used(50.0));
        assert_eq!(
            cost(&phases, 1),
            Some(70.0),
            "the second has used more already"
        );
        assert_eq!(cost(&phases, 2), Some(90.0));
        phases.insert((2, "c"), used(1.0));
        assert_eq!(cost(&phases, 3), Some(61.0));
    }

    #[test]
    fn a_field_stays_one_field_and_is_no_formula() {
        for (text, field) in [
            ("build", "build"),
            ("a,b", "\"a,b\""),
            ("say \"x\"\n", "\"say \"\"x\"\" \""),
            ("=1+1", "\"'=1+1\""),
        ] {
            assert_eq!(quoted(text), field);
        }
    }
}

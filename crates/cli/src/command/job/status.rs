//! `switchboard job status`: where a job stands.

use clap::Args as ClapArgs;
use switchboard_wire::logist::Manifest;
use switchboard_wire::logist::http::JobVersionQuery;
use switchboard_wire::logist::manifest::Event;

use super::{Which, dollars, hint, state, took};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, brief, cell};
use crate::show::{instant, listed, maybe, now, relative};

/// Of what happened, so much is shown.
const EVENTS_MAX: usize = 10;

/// Show where a job stands, and what happened to it last
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
With --json it is the job's manifest, as in job_manifest.json. --strict-1.0 has only the nine states of version 1.0 of its
schema; the state itself is in status_detail then.

Examples:
  switchboard job status parser
  switchboard job status parser --json --strict-1.0")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// The manifest as version 1.0 of its schema has it
    #[arg(long = "strict-1.0")]
    is_strict: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let id = args.which.id(&client).await?;
    let query = JobVersionQuery {
        schema_version: args.is_strict.then(|| "1.0".to_owned()),
    };
    let job = client.jobs().get(&id, &query).await?.job;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&job)?);
    }
    Ok(print(screen, &job)?)
}

/// All that a person wants to know of it.
pub fn print(screen: &mut Screen, job: &Manifest) -> std::io::Result<()> {
    screen.table(&facts(job))?;
    if !job.history.is_empty() {
        screen.line("")?;
        screen.table(&events(&job.history))?;
    }
    hint(screen, &job.job_id, &job.status)
}

fn facts(job: &Manifest) -> Table {
    let (now, spec, metrics) = (now(), &job.spec, &job.metrics);
    let of = |used: String, limit: Option<String>| match limit {
        Some(limit) => cell(format_args!("{used} of {limit}")),
        None => cell(used),
    };
    let phases = spec.phases.as_deref().unwrap_or_default();
    let place = |name: &str| phases.iter().position(|phase| phase.name == name);
    let phase = job.current_phase.as_deref().map(|name| match place(name) {
        Some(at) => cell(format_args!("{name} ({} of {})", at + 1, phases.len())),
        None => cell(name),
    });
    let mut facts = Table::facts();
    facts.fact("Job:", cell(&job.job_id));
    facts.fact("Status:", state(&job.status));
    facts.fact("State:", job.status_detail.as_deref().map(state));
    facts.fact("Goes on as:", job.resume_to.as_deref().map(state));
    facts.fact("Phase:", phase);
    let text = |text: &Option<String>| {
        let text = text.as_deref().filter(|text| !text.is_empty());
        text.map(|text| cell(brief(text, 200)))
    };
    facts.fact("Description:", text(&spec.description));
    facts.fact("Objective:", text(&spec.objective));
    facts.fact("Guidance:", text(&job.guidance));
    facts.fact("Roles:", spec.roles.as_deref().and_then(listed));
    let cost = of(
        dollars(metrics.cumulative_cost),
        spec.cost_threshold.map(dollars),
    );
    facts.fact("Cost:", cost);
    let limit = spec.time_threshold_minutes;
    let time = of(
        took(metrics.cumulative_time_seconds),
        limit.map(|minutes| took(minutes * 60.0)),
    );
    facts.fact("Time:", time);
    let limit = spec.max_iterations.map(|limit| limit.to_string());
    facts.fact("Iterations:", of(metrics.iterations.to_string(), limit));
    facts.fact("Task:", job.task_id.as_ref().map(cell));
    facts.fact("Directory:", job.directory.as_ref().map(cell));
    facts.fact("Created:", job.created_at.map(|at| instant(at, now)));
    facts.fact("Ended:", job.ended_at.map(|at| instant(at, now)));
    facts
}

fn events(history: &[Event]) -> Table {
    let now = now();
    let mut table = Table::new(["WHEN", "WHO", "PHASE", "WHAT", "THEN", "WHY"], "");
    for event in history
        .iter()
        .skip(history.len().saturating_sub(EVENTS_MAX))
    {
        let said = event.summary.as_deref().filter(|text| !text.is_empty());
        let said = event.why.as_deref().or(said);
        table.row([
            cell(relative(event.timestamp, now)),
            cell(event.by.as_deref().unwrap_or(&event.role)),
            maybe(event.phase.as_deref()),
            cell(&event.action),
            event.new_status.as_deref().map_or_else(|| cell(""), state),
            cell(said.map_or_else(String::new, |text| brief(text, 80))),
        ]);
    }
    table
}

//! `switchboard job history`: every exchange with an agent, and where a job can go back to.

use clap::Args as ClapArgs;
use switchboard_wire::logist::history::{Exchanged, Point};
use switchboard_wire::logist::http::JobHistoryQuery;

use super::{Which, dollars, exchanges, outcome, state, took};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, Tone, brief, cell, clean, paint};
use crate::show::{maybe, now, relative};

/// Show every exchange with an agent, and the recovery points
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
With --json it is the job's history, as in jobHistory.json.

Examples:
  switchboard job history parser
  switchboard job history parser --sequence 3")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Show one exchange with all of its text, by its number
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sequence: Option<u64>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let id = args.which.id(&client).await?;
    if let Some(sequence) = args.sequence {
        let query = JobHistoryQuery {
            after: Some(sequence - 1),
            limit: Some(1),
        };
        let page = client.jobs().history(&id, &query).await?;
        let mut found = page.interactions.into_iter();
        let one = found.find(|one| one.sequence == sequence);
        let one = one.ok_or_else(|| {
            Failure::Failed(format!(
                "job {id} has no interaction {sequence} in the ledger"
            ))
        })?;
        return Ok(print(&mut context.screen, &one)?);
    }
    let history = exchanges(&client, &id, 0).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&history)?);
    }
    screen.table(&table(&history.interactions))?;
    if !history.recovery_points.is_empty() {
        screen.line("")?;
        screen.table(&points(&history.recovery_points))?;
    }
    Ok(())
}

fn table(interactions: &[Exchanged]) -> Table {
    let now = now();
    let mut table = Table::new(
        [
            "#", "WHEN", "ROLE", "PHASE", "SAID", "THEN", "COST", "TOOK", "SUMMARY",
        ],
        "no history",
    );
    for one in interactions {
        let (by, response) = (&one.request.given.metadata, &one.response);
        let summary = response
            .error
            .as_ref()
            .unwrap_or(&response.summary_for_supervisor);
        table.row([
            cell(one.sequence),
            cell(relative(one.timestamp, now)),
            cell(&by.role),
            cell(&by.phase),
            cell(&response.action),
            state(outcome(one)),
            cell(dollars(response.cost_usd * 100.0)),
            cell(took(response.execution_time_seconds)),
            cell(brief(summary, 80)),
        ]);
    }
    table
}

fn points(points: &[Point]) -> Table {
    let mut table = Table::new(["CHECKPOINT", "AFTER", "GOES ON WITH", "DESCRIPTION"], "");
    for point in points.iter().filter(|point| point.can_resume_from) {
        table.row([
            cell(&point.checkpoint_id),
            cell(format_args!("#{}", point.sequence)),
            maybe(point.resume_phase.as_deref()),
            cell(brief(&point.description, 80)),
        ]);
    }
    table
}

fn print(screen: &mut Screen, one: &Exchanged) -> std::io::Result<()> {
    if screen.json() {
        return screen.value(one);
    }
    screen.table(&table(std::slice::from_ref(one)))?;
    for warning in &one.response.warnings {
        screen.line(paint(
            format_args!("warning: {}", clean(warning)),
            Tone::Warn,
        ))?;
    }
    let response = &one.response;
    for (name, text) in [
        ("request", &one.request.prompt),
        ("response", &response.raw_response),
    ] {
        screen.line(paint(format_args!("\n{name}:"), Tone::Dim))?;
        screen.line(clean(text))?;
    }
    Ok(())
}

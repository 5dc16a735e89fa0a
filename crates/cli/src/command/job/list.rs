//! `switchboard job list`: all jobs, in the order in which they run.

use clap::Args as ClapArgs;
use switchboard_core::JobState;
use switchboard_wire::logist::http::{JobQuery, JobStanding};

use super::{dollars, state, took};
use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Table, cell};
use crate::show::{now, relative};
use crate::words::one_of;

/// List jobs: those that run first, then the queue, then the others
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  switchboard job list
  switchboard job list --status HALTED_COST,INTERVENTION_REQUIRED --json"
)]
pub struct Args {
    /// Only jobs in these states
    #[arg(long, value_delimiter = ',', value_parser = one_of::<String>(JobState::WORDS))]
    status: Vec<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let page = gather(args.limit, async |after, limit| {
        let query = JobQuery {
            status: args.status.clone(),
            limit: Some(limit),
            after,
        };
        client.jobs().list(&query).await
    })
    .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&page)?);
    }
    Ok(screen.table(&table(&page.jobs, page.current_job_id.as_deref()))?)
}

/// Jobs, the selected one marked.
fn table(jobs: &[JobStanding], selected: Option<&str>) -> Table {
    let now = now();
    let mut table = Table::new(
        ["ID", "STATUS", "PHASE", "RUNS", "COST", "TIME", "CHANGED"],
        "no jobs",
    );
    for job in jobs {
        let mark = if selected == Some(&job.job_id) {
            "*"
        } else {
            ""
        };
        table.row([
            cell(format_args!("{}{mark}", job.job_id)),
            state(&job.status),
            cell(job.phase),
            cell(job.metrics.iterations),
            cell(dollars(job.metrics.cumulative_cost)),
            cell(took(job.metrics.cumulative_time_seconds)),
            cell(relative(job.updated_at, now)),
        ]);
    }
    table
}

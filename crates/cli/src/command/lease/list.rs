//! `switchboard lease list`: who may write what, until when.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{Lease, LeaseQuery};

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Table, cell};
use crate::show::{maybe, now, relative};

/// List live leases
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  switchboard lease list
  switchboard lease list --under src --agent builder-1"
)]
pub struct Args {
    /// Only leases of this agent
    #[arg(long, short, value_name = "AGENT")]
    agent: Option<String>,
    /// Only leases taken for this task
    #[arg(long, short, value_name = "TASK")]
    task: Option<String>,
    /// Only leases on this path or below it
    #[arg(long, value_name = "PATH")]
    under: Option<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let query = LeaseQuery {
        agent_id: args.agent,
        task_id: args.task,
        under: args.under,
        ..LeaseQuery::default()
    };
    let page = gather(args.limit, async |after, limit| {
        client
            .leases()
            .list(&LeaseQuery {
                after,
                limit: Some(limit),
                ..query.clone()
            })
            .await
    })
    .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&page)?);
    }
    Ok(screen.table(&table(&page.leases))?)
}

/// The leases of a list or of an agent.
pub fn table(leases: &[Lease]) -> Table {
    let now = now();
    let mut table = Table::new(
        ["PATH", "AGENT", "TASK", "ENDS", "RENEWED", "TOKEN"],
        "no leases",
    );
    for lease in leases {
        table.row([
            cell(&lease.file_path),
            cell(&lease.agent_id),
            maybe(lease.task_id.as_deref()),
            cell(relative(lease.expires_at, now)),
            cell(lease.renewed_count),
            cell(lease.fencing_token),
        ]);
    }
    table
}

//! `switchboard incident list`: what a person should look after.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{IncidentQuery, IncidentState};

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Table, cell};
use crate::show::{now, relative};

/// List open incidents, oldest first
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  switchboard incident list
  switchboard incident list --resolved --json"
)]
pub struct Args {
    /// List incidents resolved in the last 30 days instead, newest first
    #[arg(long)]
    pub resolved: bool,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    of_kinds(args, None, context).await
}

/// Those of some kinds, or all.
pub async fn of_kinds(
    args: Args,
    kinds: Option<&[&str]>,
    context: &mut Context,
) -> Result<(), Failure> {
    let client = context.client()?;
    let state = args.resolved.then_some(IncidentState::Resolved);
    let mut page = gather(args.limit, async |after, limit| {
        let query = IncidentQuery {
            state,
            after,
            limit: Some(limit),
        };
        client.incidents().list(&query).await
    })
    .await?;
    if let Some(kinds) = kinds {
        page.incidents.retain(|one| kinds.contains(&&*one.kind));
    }
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&page)?);
    }
    let now = now();
    let mut table = if args.resolved {
        Table::new(
            ["ID", "COUNT", "FIRST", "RESOLVED", "BY", "WHY"],
            "no resolved incidents",
        )
    } else {
        Table::new(
            ["ID", "COUNT", "FIRST", "LAST", "WHAT"],
            "no open incidents",
        )
    };
    for incident in &page.incidents {
        let (id, count) = (cell(&incident.id), cell(incident.count));
        let first = cell(relative(incident.first_at, now));
        match &incident.resolved {
            None => {
                let last = cell(relative(incident.last_at, now));
                table.row([id, count, first, last, cell(&incident.message)]);
            }
            Some(end) => {
                let at = cell(relative(end.at, now));
                table.row([id, count, first, at, cell(&end.by), cell(&end.why)]);
            }
        }
    }
    Ok(screen.table(&table)?)
}

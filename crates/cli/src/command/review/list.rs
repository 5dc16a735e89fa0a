//! `switchboard review list`: capabilities whose tasks went wrong.

use clap::Args as ClapArgs;
use switchboard_client::runtime::ReviewQuery;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{now, relative};

/// List reviews that are open
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  switchboard review list
  switchboard review list --resolved --json"
)]
pub struct Args {
    /// Those that were resolved in the last 30 days instead, newest first
    #[arg(long)]
    resolved: bool,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let query = ReviewQuery {
        resolved: Some(args.resolved),
        limit: Some(args.limit),
    };
    let answer = context.client()?.capabilities().reviews(&query).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    let mut table = Table::new(
        [
            "ID",
            "CAPABILITY",
            "SKILLS",
            "CLASS",
            "COUNT",
            "LAST",
            "SAMPLE",
        ],
        "no reviews",
    );
    for review in &answer.reviews {
        let (one, other) = (
            &review.delegation_skill_version,
            &review.executor_skill_version,
        );
        let sample = review.sample_corr_ids.last();
        table.row([
            cell(&review.review_id),
            cell(&review.capability_id),
            cell(format!("{one} {other}")),
            cell(&review.failure_class),
            cell(review.count),
            cell(relative(review.last_at, now)),
            cell(sample.map_or("", String::as_str)),
        ]);
    }
    Ok(screen.table(&table)?)
}

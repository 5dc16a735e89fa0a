//! `switchboard node incidents`: what a person should look after between nodes.

use clap::Args as ClapArgs;
use switchboard_client::runtime::NODE_INCIDENTS;

use crate::command::incident::list;
use crate::context::Context;
use crate::failure::Failure;

/// List open incidents about nodes, oldest first
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard node incidents
  switchboard node incidents --resolved")]
pub struct Args {
    /// List incidents resolved in the last 30 days instead, newest first
    #[arg(long)]
    resolved: bool,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let Args { resolved, limit } = args;
    let list = list::Args { resolved, limit };
    list::of_kinds(list, Some(&NODE_INCIDENTS), context).await
}

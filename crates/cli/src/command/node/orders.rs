//! `switchboard node orders`: what other nodes were sent, and what they answered.

use clap::Args as ClapArgs;
use switchboard_client::runtime::OrderQuery;

use super::table;
use crate::context::Context;
use crate::failure::Failure;

/// Show what was sent to other nodes and how it stands
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard node orders              (what is still waited for)
  switchboard node orders --ended      (what has its answer, newest first; 'dead' was given up)")]
pub struct Args {
    /// Those that ended
    #[arg(long)]
    ended: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let query = OrderQuery {
        ended: Some(args.ended),
        ..OrderQuery::default()
    };
    let answer = context.client()?.nodes().orders(&query).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(screen.table(&table(&answer.orders, "nothing"))?)
}

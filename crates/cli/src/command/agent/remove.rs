//! `switchboard agent remove`: deregisters an agent.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Deregister an agent: its tasks return to the queue, its leases end
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "rm",
    after_help = "\
Example:
  switchboard agent remove builder-1"
)]
pub struct Args {
    /// The agent's id
    agent: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.agents().remove(&args.agent).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(screen.line(format_args!(
        "{} is deregistered; its tasks returned to the queue and its leases ended",
        clean(&args.agent)
    ))?)
}

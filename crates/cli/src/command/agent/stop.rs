//! `switchboard agent stop`: asks an agent to shut down.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{CommandRequest, CommandType};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Ask an agent to shut down; it gets the request with its next heartbeat
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard agent stop builder-1 --reason maintenance")]
pub struct Args {
    /// The agent's id
    agent: String,
    /// Reason, sent to the agent
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = CommandRequest {
        kind: CommandType::Shutdown,
        task_id: None,
        reason: args.reason,
    };
    let answer = context
        .client()?
        .agents()
        .command(&args.agent, &request)
        .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let agent = clean(&args.agent);
    Ok(screen.line(format_args!(
        "{agent} is asked to shut down and gets the request with its next heartbeat"
    ))?)
}

//! `switchboard message ack`: a recipient has a message, and says so.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::AckRequest;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Acknowledge a message for its recipient
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard message ack hm-1794728661198-ol187i --as builder")]
pub struct Args {
    /// The message's id
    message: String,
    /// The recipient [default: SQUIDRUN_ROLE]
    #[arg(long = "as", value_name = "AGENT", env = "SQUIDRUN_ROLE")]
    agent: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = AckRequest {
        agent_id: args.agent,
    };
    let client = context.client()?;
    let answer = client.messages().ack(&args.message, &request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(screen.line(format_args!(
        "message {} is acknowledged by {}",
        clean(&args.message),
        clean(&request.agent_id)
    ))?)
}

//! `switchboard job suspend`: it waits, with the agent ended.

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::SteerJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;

/// Suspend a job and end the agent that works on it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The phase that is under way begins again when the job is resumed.

Example:
  switchboard job suspend parser --reason 'the machine is needed'")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Reason, kept in the job's history
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = SteerJobRequest {
        reason: args.reason,
    };
    decide(args.which, context, async |client, id| {
        client.jobs().suspend(id, &request).await
    })
    .await
}

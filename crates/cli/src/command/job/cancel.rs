//! `switchboard job cancel`: it ends, whatever state it is in.

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::SteerJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;

/// Cancel a job and end the agent that works on it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard job cancel parser --reason 'not needed any more'")]
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
        client.jobs().cancel(id, &request).await
    })
    .await
}

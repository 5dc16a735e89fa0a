//! `switchboard job restep`: back to the last recovery point.

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::SteerJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;

/// Go back to the last recovery point
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
State, phase and files are those of the end of the last phase; what was used up still counts.

Example:
  switchboard job restep parser --reason 'the wrong approach'")]
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
        client.jobs().restep(id, &request).await
    })
    .await
}

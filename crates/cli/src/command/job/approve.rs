//! `switchboard job approve`: the work is accepted.

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::SteerJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;

/// Accept the work of a job: it is done
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard job approve parser --reason 'tried it'")]
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
        client.jobs().approve(id, &request).await
    })
    .await
}

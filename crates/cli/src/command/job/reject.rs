//! `switchboard job reject`: the work is not accepted.

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::RejectJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;

/// Send the work of a job back: its last phase is done again
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard job reject parser --guidance 'the error messages name no line'")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// What the worker is told with its next request
    #[arg(long, short, value_name = "TEXT")]
    guidance: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = RejectJobRequest {
        guidance: args.guidance,
    };
    decide(args.which, context, async |client, id| {
        client.jobs().reject(id, &request).await
    })
    .await
}

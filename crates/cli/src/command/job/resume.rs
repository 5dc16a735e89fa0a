//! `switchboard job resume`: a suspended job goes on, or one goes back to a recovery point.

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::ResumeJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;

/// Let a suspended job go on, or go back to a recovery point
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The recovery points are shown by 'switchboard job history'. With --from, the job gets the state, the phase and the files
of that moment; what is in the workspace is committed first.

Examples:
  switchboard job resume parser
  switchboard job resume parser --from CHECKPOINT")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Recovery point to go back to
    #[arg(long, value_name = "CHECKPOINT")]
    from: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = ResumeJobRequest { from: args.from };
    decide(args.which, context, async |client, id| {
        client.jobs().resume(id, &request).await
    })
    .await
}

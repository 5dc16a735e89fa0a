//! `switchboard job rerun`: once more from a phase on.

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::RerunJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;

/// Run a job again from a phase on, as if nothing had been used up
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The history stays; cost, time and iterations are counted anew.

Example:
  switchboard job rerun parser --phase 1")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Number of the phase to begin with, from 0 [default: 0]
    #[arg(long, value_name = "N")]
    phase: Option<u32>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = RerunJobRequest { phase: args.phase };
    decide(args.which, context, async |client, id| {
        client.jobs().rerun(id, &request).await
    })
    .await
}

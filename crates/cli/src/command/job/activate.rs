//! `switchboard job activate`: a draft enters the queue.

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::ActivateJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;

/// Put a draft into the queue, without waiting for it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The hub runs it when its turn comes. To wait for it and see how it goes, use 'switchboard job run'.

Example:
  switchboard job activate parser --rank 0")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Its place in the queue: 0 is the front, -1 the end [default: -1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    rank: Option<i64>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = ActivateJobRequest { rank: args.rank };
    decide(args.which, context, async |client, id| {
        client.jobs().activate(id, &request).await
    })
    .await
}

//! `switchboard job cancel`: it ends, whatever state it is in.

use clap::Args as ClapArgs;

use super::Decision;
use crate::context::Context;
use crate::failure::Failure;

/// Cancel a job and end the agent that works on it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard job cancel parser --reason 'not needed any more'")]
pub struct Args {
    #[command(flatten)]
    decision: Decision,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let decision = args.decision;
    decision
        .make(context, async |client, id, why| {
            client.jobs().cancel(id, why).await
        })
        .await
}

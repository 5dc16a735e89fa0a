//! `switchboard job restep`: back to the last recovery point.

use clap::Args as ClapArgs;

use super::Decision;
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
    decision: Decision,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let decision = args.decision;
    decision
        .make(context, async |client, id, why| {
            client.jobs().restep(id, why).await
        })
        .await
}

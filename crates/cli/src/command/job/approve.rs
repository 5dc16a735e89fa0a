//! `switchboard job approve`: the work is accepted.

use clap::Args as ClapArgs;

use super::Decision;
use crate::context::Context;
use crate::failure::Failure;

/// Accept the work of a job: it is done
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard job approve parser --reason 'tried it'")]
pub struct Args {
    #[command(flatten)]
    decision: Decision,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let decision = args.decision;
    decision
        .make(context, async |client, id, why| {
            client.jobs().approve(id, why).await
        })
        .await
}

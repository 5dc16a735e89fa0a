//! `switchboard job suspend`: it waits, with the agent ended.

use clap::Args as ClapArgs;

use super::Decision;
use crate::context::Context;
use crate::failure::Failure;

/// Suspend a job and end the agent that works on it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The phase that is under way begins again when the job is resumed.

Example:
  switchboard job suspend parser --reason 'the machine is needed'")]
pub struct Args {
    #[command(flatten)]
    decision: Decision,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let decision = args.decision;
    decision
        .make(context, async |client, id, why| {
            client.jobs().suspend(id, why).await
        })
        .await
}

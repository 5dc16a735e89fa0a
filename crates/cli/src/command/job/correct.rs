//! `switchboard job correct`: what an agent meant counts, instead of what it said.

use clap::Args as ClapArgs;
use switchboard_core::JobAction;
use switchboard_wire::logist::http::CorrectJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;
use crate::words::one_of;

/// Replace the action of a response that was not valid
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
What the agent printed is shown by 'switchboard job chat'. The job goes on as if it had said this action.

Example:
  switchboard job correct parser --action COMPLETED --reason 'it wrote DONE'")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// What it should have said
    #[arg(long, value_parser = one_of::<String>(JobAction::WORDS))]
    action: String,
    /// Reason, kept in the job's history
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = CorrectJobRequest {
        action: args.action,
        reason: args.reason,
    };
    decide(args.which, context, async |client, id| {
        client.jobs().correct(id, &request).await
    })
    .await
}

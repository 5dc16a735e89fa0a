//! `switchboard task reject`: sends reviewed tasks back, or fails them.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::RejectTaskRequest;

use super::each;
use crate::context::Context;
use crate::failure::Failure;

/// Send tasks in review back to the queue, to be done again
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard task reject 12 --reason 'the tests fail'
  switchboard task reject 12 --fail")]
pub struct Args {
    /// Ids or numbers
    #[arg(required = true)]
    tasks: Vec<String>,
    /// Reason, kept in the event log
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
    /// Mark them as failed instead
    #[arg(long)]
    fail: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let request = RejectTaskRequest {
        reason: args.reason,
        retry: args.fail.then_some(false),
    };
    each(&args.tasks, &mut context.screen, async |task| {
        client.tasks().reject(task, &request).await
    })
    .await
}

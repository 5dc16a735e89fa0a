//! `switchboard task cancel`: takes tasks off the list.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::SteerTaskRequest;

use super::each;
use crate::context::Context;
use crate::failure::Failure;

/// Cancel tasks; one that cannot be canceled does not keep the others
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard task cancel 12 13 --reason 'no longer wanted'")]
pub struct Args {
    /// Ids or numbers
    #[arg(required = true)]
    tasks: Vec<String>,
    /// Reason, kept in the event log
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let request = SteerTaskRequest {
        reason: args.reason,
    };
    each(&args.tasks, &mut context.screen, async |task| {
        client.tasks().cancel(task, &request).await
    })
    .await
}

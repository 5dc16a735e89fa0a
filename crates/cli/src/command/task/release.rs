//! `switchboard task release`: takes tasks back from whoever holds them.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::ReleaseTaskRequest;

use super::each;
use crate::context::Context;
use crate::failure::Failure;

/// Take tasks back from the agents that hold them, without spending a retry
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard task release 12 --reason 'the agent hangs'")]
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
    let request = ReleaseTaskRequest {
        reason: args.reason,
        ..ReleaseTaskRequest::default()
    };
    each(&args.tasks, &mut context.screen, async |task| {
        client.tasks().release(task, &request).await
    })
    .await
}

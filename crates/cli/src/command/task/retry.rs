//! `switchboard task retry`: gives finished or waiting tasks another go.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::SteerTaskRequest;

use super::each;
use crate::context::Context;
use crate::failure::Failure;

/// Make failed, canceled or waiting tasks ready again, and reset their retry count
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard task retry 12")]
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
        client.tasks().retry(task, &request).await
    })
    .await
}

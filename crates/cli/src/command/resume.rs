//! `switchboard resume`: new work is handed out again.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::ResumeRequest;

use crate::context::Context;
use crate::failure::Failure;

/// Hand out work again after a pause
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard resume")]
pub struct Args {
    /// Reason, kept in the event log
    #[arg(long, short, value_name = "TEXT", alias = "reason")]
    why: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = ResumeRequest { why: args.why };
    let answer = context.client()?.admin().resume(&request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(screen.line("resumed: work is handed out again")?)
}

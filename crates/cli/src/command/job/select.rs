//! `switchboard job select`: the job that commands mean which name none.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Select the job that commands mean which name none
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard job select parser")]
pub struct Args {
    /// Id of the job
    #[arg(value_name = "ID")]
    job: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.jobs().select(&args.job).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(screen.line(format_args!("job {} is selected", clean(&args.job)))?)
}

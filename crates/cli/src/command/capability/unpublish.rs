//! `switchboard capability unpublish`: a capability is taken back, or disabled.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Take a capability back: nothing is routed by it any more
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard capability unpublish cap.fs.diff-apply             (a higher version brings it back)
  switchboard capability unpublish cap.fs.diff-apply --disable   (so does the same one, published again)")]
pub struct Args {
    /// The capability's id, as 'switchboard capability list' shows it
    #[arg(value_name = "ID")]
    id: String,
    /// Only until the same version is published again
    #[arg(long)]
    disable: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let answer = client
        .capabilities()
        .unpublish(&args.id, args.disable)
        .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let status = answer.capability.catalog.status;
    let status = status.map_or_else(String::new, |status| status.to_string());
    Ok(screen.line(format_args!("{} is {status}", clean(&args.id)))?)
}

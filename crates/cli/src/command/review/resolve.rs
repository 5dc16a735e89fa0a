//! `switchboard review resolve`: somebody has reviewed it.

use clap::Args as ClapArgs;
use switchboard_client::runtime::ResolveReviewRequest;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Mark reviews as resolved
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard review resolve rev_01J… --note 'the skill names the file now'")]
pub struct Args {
    /// Ids, as 'switchboard review list' shows them
    #[arg(required = true, value_name = "ID")]
    reviews: Vec<String>,
    /// What was found, kept with it
    #[arg(long, short, value_name = "TEXT")]
    note: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let request = ResolveReviewRequest { note: args.note };
    let screen = &mut context.screen;
    for id in &args.reviews {
        let answer = client.capabilities().resolve(id, &request).await?;
        if screen.json() {
            screen.value_line(&answer)?;
        } else {
            screen.line(format_args!("{} is resolved", clean(id)))?;
        }
    }
    Ok(())
}

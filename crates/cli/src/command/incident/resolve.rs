//! `switchboard incident resolve`: somebody has looked after it.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::ResolveIncidentRequest;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Mark incidents as resolved
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard incident resolve 'clock_stepped:wall clock' --reason 'NTP is back'")]
pub struct Args {
    /// Ids, as 'switchboard incident list' shows them
    #[arg(required = true, value_name = "ID")]
    incidents: Vec<String>,
    /// Reason, kept in the event log
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let request = ResolveIncidentRequest {
        reason: args.reason,
    };
    let screen = &mut context.screen;
    for id in &args.incidents {
        let answer = client.incidents().resolve(id, &request).await?;
        if screen.json() {
            screen.value_line(&answer)?;
        } else {
            screen.line(format_args!("incident {} is resolved", clean(id)))?;
        }
    }
    Ok(())
}

//! `switchboard node dead-letters`: what was given up, and once more.

use clap::Args as ClapArgs;
use switchboard_client::runtime::DeadLetterQuery;

use super::table;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Show what other nodes were sent and was given up, or send it once more
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard node dead-letters
  switchboard node dead-letters --resend evt_01JV3M2N8V1ZK4J2A0M7Y6P9QF")]
pub struct Args {
    /// Send this event once more
    #[arg(long, value_name = "EVENT")]
    resend: Option<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let screen = &mut context.screen;
    if let Some(event) = args.resend {
        let order = client.nodes().resend(&event).await?;
        if screen.json() {
            return Ok(screen.value(&order)?);
        }
        return Ok(screen.line(format_args!(
            "event {} is sent again, attempt {}",
            clean(&order.event_id),
            order.attempt
        ))?);
    }
    let query = DeadLetterQuery {
        limit: Some(args.limit),
    };
    let answer = client.nodes().dead_letters(&query).await?;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(screen.table(&table(&answer.dead_letters, "nothing was given up"))?)
}

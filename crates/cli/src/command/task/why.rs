//! `switchboard task why`: why nobody, or this agent, gets a task.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::WhyQuery;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, clean, paint, toned};
use crate::show::maybe;

/// List the reasons why a task is not claimed
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard task why 12
  switchboard task why 12 --agent builder-1")]
pub struct Args {
    /// Id or number
    task: String,
    /// Also check whether this agent could claim it
    #[arg(long, short, value_name = "AGENT")]
    agent: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let query = WhyQuery {
        agent_id: args.agent.clone(),
    };
    let answer = context.client()?.tasks().why(&args.task, &query).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let who = args
        .agent
        .as_deref()
        .map_or_else(|| "an agent".to_owned(), |agent| clean(agent).into_owned());
    let verdict = if answer.claimable {
        paint(
            format_args!("{who} can claim task {}", clean(&args.task)),
            Tone::Good,
        )
    } else {
        paint(
            format_args!("{who} cannot claim task {}", clean(&args.task)),
            Tone::Warn,
        )
    };
    screen.line(verdict)?;
    let mut table = Table::facts();
    for why in &answer.reasons {
        table.row([toned(why.reason, Tone::Plain), maybe(why.detail.as_deref())]);
    }
    Ok(screen.table(&table)?)
}

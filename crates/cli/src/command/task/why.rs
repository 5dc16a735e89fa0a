//! `switchboard task why`: why nobody, or this agent, gets a task.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::WhyQuery;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, clean, paint};

/// Say why no agent claims a task, or why this one does not
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard task why 12
  switchboard task why 12 --agent builder-1")]
pub struct Args {
    /// Id or number
    task: String,
    /// Only whether this agent can claim it [default: look at all agents]
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
    let task = clean(&args.task);
    let (verdict, tone) = match (&args.agent, answer.claimable) {
        (Some(agent), true) => (
            format!("{} can claim task {task}", clean(agent)),
            Tone::Good,
        ),
        (Some(agent), false) => (
            format!("{} cannot claim task {task}", clean(agent)),
            Tone::Warn,
        ),
        (None, true) => (format!("task {task} can be claimed"), Tone::Good),
        (None, false) => (format!("nobody can claim task {task}"), Tone::Warn),
    };
    screen.line(paint(verdict, tone))?;
    for why in &answer.reasons {
        screen.line(format_args!("  {}", clean(&why.message)))?;
    }
    if answer.unnamed > 0 {
        screen.line(format_args!("  and {} more agents cannot", answer.unnamed))?;
    }
    for able in &answer.able {
        let doing = match (&able.busy_with, answer.claimable) {
            (Some(task), _) => format!("fits, and is busy with {}", clean(task)),
            (None, true) => "fits, is idle, and has not asked for work yet".to_owned(),
            (None, false) => "fits, and is idle".to_owned(),
        };
        screen.line(format_args!("  {}: {doing}", clean(&able.agent_id)))?;
    }
    Ok(())
}

//! `switchboard agent list`: who is there, and what they do.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{Agent, AgentQuery, AgentStatus};

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Table, brief, cell};
use crate::show::{agent_status, maybe, now, relative};
use crate::words::one_of;

/// List agents
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  switchboard agent list
  switchboard agent list --status busy,error"
)]
pub struct Args {
    /// Only agents in these states
    #[arg(long, short, value_delimiter = ',', value_parser = one_of::<AgentStatus>(AgentStatus::WORDS))]
    status: Vec<AgentStatus>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let page = gather(args.limit, async |after, limit| {
        client
            .agents()
            .list(&AgentQuery {
                status: args.status.clone(),
                after,
                limit: Some(limit),
            })
            .await
    })
    .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&page)?);
    }
    Ok(screen.table(&table(&page.agents))?)
}

pub fn table(agents: &[Agent]) -> Table {
    let now = now();
    let empty = "no agents; agents register with POST /api/v1/agents/register";
    let mut table = Table::new(
        [
            "AGENT", "STATUS", "TYPE", "TASK", "DONE", "FAILED", "SEEN", "SKILLS",
        ],
        empty,
    );
    for agent in agents {
        table.row([
            cell(&agent.id),
            agent_status(agent.status),
            cell(agent.kind),
            maybe(agent.current_task.as_ref().map(|task| &task.id)),
            cell(agent.tasks_completed),
            cell(agent.tasks_failed),
            maybe(agent.last_heartbeat.map(|at| relative(at, now))),
            cell(brief(&agent.capabilities.skills.join(", "), 40)),
        ]);
    }
    table
}

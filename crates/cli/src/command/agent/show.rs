//! `switchboard agent show`: one agent with its tasks, leases and commands.

use std::io;

use clap::Args as ClapArgs;
use switchboard_client::jetpack::AgentResponse;

use crate::command::{lease, task};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, cell, clean};
use crate::show::{agent_status, instant, listed, maybe, now};

/// Show one agent, with what it holds
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard agent show builder-1")]
pub struct Args {
    /// The agent's id
    agent: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.agents().get(&args.agent).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(print(screen, &answer)?)
}

fn print(screen: &mut Screen, answer: &AgentResponse) -> io::Result<()> {
    screen.line(clean(&answer.agent.name))?;
    screen.table(&facts(answer))?;
    if !answer.tasks.is_empty() {
        screen.line("")?;
        screen.table(&task::table(&answer.tasks))?;
    }
    if !answer.leases.is_empty() {
        screen.line("")?;
        screen.table(&lease::table(&answer.leases))?;
    }
    if !answer.commands.is_empty() {
        screen.line("")?;
        let mut table = Table::new(["COMMAND", "TASK", "REASON"], "");
        for command in &answer.commands {
            table.row([
                cell(command.kind),
                maybe(command.task_id.as_deref()),
                maybe(
                    command
                        .reason
                        .as_deref()
                        .filter(|reason| !reason.is_empty()),
                ),
            ]);
        }
        screen.table(&table)?;
    }
    Ok(())
}

fn facts(answer: &AgentResponse) -> Table {
    let now = now();
    let agent = &answer.agent;
    let can = &agent.capabilities;
    let abilities = [
        ("tests", can.can_run_tests),
        ("builds", can.can_run_build),
        ("a browser", can.can_access_browser),
    ];
    let abilities: Vec<String> = abilities
        .iter()
        .filter(|(_, able)| *able)
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let mut facts = Table::facts();
    facts.fact("id", cell(&agent.id));
    facts.fact("status", agent_status(agent.status));
    facts.fact("type", cell(agent.kind));
    facts.fact("skills", listed(&can.skills));
    facts.fact("can use", listed(&abilities));
    facts.fact(
        "task limit",
        cell(format_args!("{} min", can.max_task_minutes)),
    );
    facts.fact(
        "machine",
        agent
            .machine
            .as_ref()
            .map(|machine| cell(format_args!("{} pid {}", machine.hostname, machine.pid))),
    );
    facts.fact(
        "memory",
        agent
            .metrics
            .as_ref()
            .map(|metrics| cell(format_args!("{} MB", metrics.memory_used_mb))),
    );
    facts.fact("completed", cell(agent.tasks_completed));
    facts.fact("failed", cell(agent.tasks_failed));
    facts.fact(
        "worked",
        cell(format_args!("{} min", agent.total_runtime_minutes)),
    );
    facts.fact("registered", instant(agent.registered_at, now));
    facts.fact("heartbeat", agent.last_heartbeat.map(|at| instant(at, now)));
    facts.fact("active", agent.last_active_at.map(|at| instant(at, now)));
    facts
}

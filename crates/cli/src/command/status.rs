//! `switchboard status`: the hub at a glance, once or again and again.

use std::io;
use std::time::Duration;

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{
    Agent, AgentQuery, ListOrder, StatusResponse, Task, TaskQuery, TaskStatus,
};
use switchboard_client::{Client, Error};

use crate::command::agent;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, Tone, brief, cell, clean, paint, toned};
use crate::show::{age, maybe, task_status, task_tone};

/// Agents that a watcher sees.
const AGENTS_MAX: u32 = 15;
/// Tasks of each kind that need a person's attention.
const ATTENTION_MAX: u32 = 3;
/// Longest title and reason of them.
const WHY_MAX: usize = 50;

/// Show a summary of the hub; watched, also its agents and the tasks that need attention
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard status
  switchboard status --watch
  switchboard status --json | jq .tasks.ready")]
pub struct Args {
    /// Refresh until Ctrl-C
    #[arg(long, short)]
    watch: bool,
    /// Seconds between refreshes
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), requires = "watch")]
    every: u16,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    if !args.watch {
        let status = client.admin().status().await?;
        return Ok(print(&mut context.screen, &status, &client)?);
    }
    let every = Duration::from_secs(u64::from(args.every));
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = ticks.tick() => {}
        }
        let picture = tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            picture = Picture::take(&client, !context.screen.json()) => picture,
        };
        look(&mut context.screen, picture, &client)?;
    }
}

/// The hub, and who and what in it a person who watches wants to see.
struct Picture {
    status: StatusResponse,
    agents: Vec<Agent>,
    /// Tasks that wait for a person, that failed, and that are tried again.
    attention: Vec<Task>,
}

impl Picture {
    /// Without details, only the summary.
    async fn take(client: &Client, with_details: bool) -> Result<Picture, Error> {
        let status = client.admin().status().await?;
        let (mut agents, mut attention) = (Vec::new(), Vec::new());
        if with_details {
            let first = AgentQuery {
                limit: Some(AGENTS_MAX),
                ..AgentQuery::default()
            };
            agents = client.agents().list(&first).await?.agents;
            let counts = &status.tasks;
            for (state, count) in [
                (TaskStatus::NeedsReview, counts.needs_review),
                (TaskStatus::Failed, counts.failed),
                (TaskStatus::PendingRetry, counts.pending_retry),
            ] {
                if count > 0 {
                    let last = TaskQuery {
                        status: vec![state],
                        order: Some(ListOrder::New),
                        limit: Some(ATTENTION_MAX),
                        ..TaskQuery::default()
                    };
                    attention.extend(client.tasks().list(&last).await?.tasks);
                }
            }
        }
        Ok(Picture {
            status,
            agents,
            attention,
        })
    }

    fn print(&self, screen: &mut Screen, client: &Client) -> io::Result<()> {
        print(screen, &self.status, client)?;
        if !self.agents.is_empty() {
            screen.line("")?;
            screen.table(&agent::table(&self.agents))?;
        }
        if !self.attention.is_empty() {
            screen.line("")?;
            screen.table(&attention(&self.attention))?;
        }
        Ok(())
    }
}

fn attention(tasks: &[Task]) -> Table {
    let mut table = Table::new(["#", "STATUS", "TITLE", "WHY"], "");
    for task in tasks {
        let why = match task.status {
            TaskStatus::NeedsReview => Some("approve or reject it".to_owned()),
            _ => task.last_error.as_ref().map(|why| brief(why, WHY_MAX)),
        };
        table.row([
            cell(task.number),
            task_status(task.status),
            cell(brief(&task.title, WHY_MAX)),
            maybe(why),
        ]);
    }
    table
}

/// One picture of a watched hub; one that is away for a moment is waited for.
fn look(
    screen: &mut Screen,
    picture: Result<Picture, Error>,
    client: &Client,
) -> Result<(), Failure> {
    match picture {
        Ok(picture) if screen.json() => screen.value_line(&picture.status)?,
        Ok(picture) => {
            screen.clear()?;
            picture.print(screen, client)?;
        }
        Err(error) if error.is_transient() => {
            if !screen.json() {
                screen.clear()?;
                screen.line(paint(format_args!("{error}; waiting for it"), Tone::Warn))?;
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(screen.flush()?)
}

fn print(screen: &mut Screen, status: &StatusResponse, client: &Client) -> io::Result<()> {
    if screen.json() {
        return screen.value(status);
    }
    let up = age(status.started_at, status.now);
    let (version, store) = (clean(&status.version), clean(&status.store));
    screen.line(format_args!(
        "switchboard {version} at {}, up {up}, on {store}",
        client.address()
    ))?;
    let mut facts = Table::facts();
    if let Some(paused) = &status.paused {
        let words = crate::command::pause::words(paused);
        facts.fact("work", toned(words, Tone::Warn));
    }
    if status.incidents > 0 {
        let words = format!("{} open; see 'switchboard incident list'", status.incidents);
        facts.fact("incidents", toned(words, Tone::Warn));
    }
    facts.fact("tasks", cell(format_args!("{} in all", status.tasks.total)));
    let tasks = tasks(status);
    if !tasks.is_empty() {
        facts.fact("", cell_of(&tasks));
    }
    facts.fact("agents", cell(agents(status)));
    facts.fact("leases", cell(status.leases));
    facts.fact(
        "messages",
        cell(format_args!("{} queued", status.messages.queued)),
    );
    facts.fact(
        "events",
        cell(format_args!(
            "{} (kept from {})",
            status.events.latest, status.events.oldest
        )),
    );
    facts.fact(
        "queue",
        cell(format_args!(
            "{} of {}",
            status.queue.waiting, status.queue.capacity
        )),
    );
    let baseline = status.baseline.as_ref();
    facts.fact(
        "baseline",
        baseline.map(|b| {
            cell(format_args!(
                "{} tests passing, {} failing",
                b.tests_passing, b.tests_failing
            ))
        }),
    );
    for warning in &status.warnings {
        facts.fact("warning", toned(warning, Tone::Warn));
    }
    screen.table(&facts)
}

/// Counts that are not zero, in the order a task passes through them.
fn tasks(status: &StatusResponse) -> Vec<(TaskStatus, u64)> {
    let counts = &status.tasks;
    let all = [
        (TaskStatus::Pending, counts.pending),
        (TaskStatus::Blocked, counts.blocked),
        (TaskStatus::Ready, counts.ready),
        (TaskStatus::Claimed, counts.claimed),
        (TaskStatus::InProgress, counts.in_progress),
        (TaskStatus::PendingRetry, counts.pending_retry),
        (TaskStatus::NeedsReview, counts.needs_review),
        (TaskStatus::Completed, counts.completed),
        (TaskStatus::Failed, counts.failed),
        (TaskStatus::Canceled, counts.canceled),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn cell_of(tasks: &[(TaskStatus, u64)]) -> comfy_table::Cell {
    let worst = if tasks
        .iter()
        .any(|(status, _)| task_tone(*status) == Tone::Bad)
    {
        Tone::Bad
    } else {
        Tone::Plain
    };
    let words: Vec<String> = tasks
        .iter()
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    toned(words.join(", "), worst)
}

fn agents(status: &StatusResponse) -> String {
    let agents = &status.agents;
    let counts = [
        ("idle", agents.idle),
        ("busy", agents.busy),
        ("in error", agents.error),
        ("shutting down", agents.shutting_down),
        ("offline", agents.offline),
    ];
    let words: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(", ")
    }
}

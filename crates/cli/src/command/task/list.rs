//! `switchboard task list`: tasks by state, priority, skill, …

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{ListOrder, Priority, Task, TaskQuery, TaskStatus, TaskType};

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Table, Tone, brief, cell, toned};
use crate::show::{age, maybe, now, priority, task_status, verdict};
use crate::words::one_of;

/// Longest title in a table.
const TITLE_MAX: usize = 70;

/// List tasks, newest first
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  switchboard task list
  switchboard task list --status ready,blocked --skill rust
  switchboard task list --open --json | jq '.tasks[].title'"
)]
pub struct Args {
    /// Only tasks in these states
    #[arg(long, short, value_delimiter = ',', value_parser = one_of::<TaskStatus>(TaskStatus::WORDS))]
    status: Vec<TaskStatus>,
    /// Only tasks that are not finished
    #[arg(long, conflicts_with = "status")]
    open: bool,
    /// Only tasks of these priorities
    #[arg(long, short, value_delimiter = ',', value_parser = one_of::<Priority>(Priority::WORDS))]
    priority: Vec<Priority>,
    /// Only tasks of these types
    #[arg(long = "type", short = 't', value_name = "TYPE", value_delimiter = ',', value_parser = one_of::<TaskType>(TaskType::WORDS))]
    kind: Vec<TaskType>,
    /// Only tasks that this agent holds
    #[arg(long, short, value_name = "AGENT")]
    agent: Option<String>,
    /// Only tasks that require this skill
    #[arg(long, value_name = "SKILL")]
    skill: Option<String>,
    /// Only tasks on this branch
    #[arg(long, short, value_name = "BRANCH")]
    branch: Option<String>,
    /// Oldest first
    #[arg(long)]
    oldest: bool,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

const OPEN: [TaskStatus; 7] = [
    TaskStatus::Pending,
    TaskStatus::Ready,
    TaskStatus::Claimed,
    TaskStatus::InProgress,
    TaskStatus::PendingRetry,
    TaskStatus::Blocked,
    TaskStatus::NeedsReview,
];

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let query = TaskQuery {
        status: if args.open {
            OPEN.to_vec()
        } else {
            args.status
        },
        priority: args.priority,
        kind: args.kind,
        assigned_agent: args.agent,
        skill: args.skill,
        branch: args.branch,
        order: Some(if args.oldest {
            ListOrder::Old
        } else {
            ListOrder::New
        }),
        ..TaskQuery::default()
    };
    let page = gather(args.limit, async |after, limit| {
        client
            .tasks()
            .list(&TaskQuery {
                after,
                limit: Some(limit),
                ..query.clone()
            })
            .await
    })
    .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&page)?);
    }
    screen.table(&table(&page.tasks))?;
    if page.next.is_some() {
        screen.line(crate::screen::paint(
            format_args!(
                "there are more; show them with --limit {}",
                args.limit.saturating_mul(10)
            ),
            Tone::Dim,
        ))?;
    }
    Ok(())
}

/// The tasks of a list or of an agent.
pub fn table(tasks: &[Task]) -> Table {
    let now = now();
    let mut table = Table::new(
        [
            "#", "STATUS", "VERDICT", "PRIORITY", "AGENT", "AGE", "TITLE", "ID",
        ],
        "no tasks",
    );
    for task in tasks {
        table.row([
            cell(task.number),
            task_status(task.status),
            task.verdict.map_or_else(|| toned("-", Tone::Dim), verdict),
            priority(task.priority),
            maybe(task.assigned_agent.as_deref()),
            cell(age(task.created_at, now)),
            cell(brief(&task.title, TITLE_MAX)),
            toned(&task.id, Tone::Dim),
        ]);
    }
    table
}

//! `switchboard task …`: one file per command; here only the table and what they share.

mod add;
mod approve;
mod cancel;
mod edit;
mod import;
mod list;
mod reject;
mod release;
mod retry;
mod show;
mod why;

use std::io;

use clap::Subcommand;
use switchboard_client::Error;
use switchboard_client::jetpack::TaskResponse;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, clean, paint};
use crate::show::task_tone;

pub use list::table;

pub const EXAMPLES: &str = "\
Examples:
  switchboard task add 'Fix the parser' --priority high --skill rust
  switchboard task import TODO.md
  switchboard task why 12 --agent builder-1";

/// Commands about tasks. A task is named by its id or its number.
#[derive(Debug, Subcommand)]
pub enum Command {
    Add(Box<add::Args>),
    Import(import::Args),
    List(list::Args),
    Show(show::Args),
    Why(why::Args),
    Edit(Box<edit::Args>),
    Cancel(cancel::Args),
    Retry(retry::Args),
    Release(release::Args),
    Approve(approve::Args),
    Reject(reject::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Add(args) => add::run(*args, context).await,
            Command::Import(args) => import::run(args, context).await,
            Command::List(args) => list::run(args, context).await,
            Command::Show(args) => show::run(args, context).await,
            Command::Why(args) => why::run(args, context).await,
            Command::Edit(args) => edit::run(*args, context).await,
            Command::Cancel(args) => cancel::run(args, context).await,
            Command::Retry(args) => retry::run(args, context).await,
            Command::Release(args) => release::run(args, context).await,
            Command::Approve(args) => approve::run(args, context).await,
            Command::Reject(args) => reject::run(args, context).await,
        }
    }
}

/// Does the same to each task, however it goes with the others; then tells which could not be changed.
async fn each(
    tasks: &[String],
    screen: &mut Screen,
    act: impl AsyncFn(&str) -> Result<TaskResponse, Error>,
) -> Result<(), Failure> {
    let mut left = Vec::new();
    for (at, task) in tasks.iter().enumerate() {
        match act(task).await {
            Ok(answer) => changed(screen, &answer)?,
            Err(error) if tasks.len() == 1 => return Err(error.into()),
            Err(error) => {
                let is_refused = matches!(error, Error::Refused { .. });
                left.push(format!("{task}: {}", Failure::from(error)));
                if !is_refused {
                    // Whatever became of this call, the next would fare no better.
                    left.extend(
                        tasks[at + 1..]
                            .iter()
                            .map(|task| format!("{task}: not tried")),
                    );
                    break;
                }
            }
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "{} of {} tasks were not changed:\n  {}",
        left.len(),
        tasks.len(),
        left.join("\n  ")
    )))
}

/// Prints what became of a task: the answer as JSON, or one line.
fn changed(screen: &mut Screen, answer: &TaskResponse) -> io::Result<()> {
    if screen.json() {
        return screen.value(answer);
    }
    let task = &answer.task;
    let status = paint(task.status, task_tone(task.status));
    screen.line(format_args!(
        "task {} (#{}) is {status}: {}",
        clean(&task.id),
        task.number,
        clean(&task.title)
    ))
}

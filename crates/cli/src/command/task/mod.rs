//! `switchboard task …`: one file per command; here only the table and what they share.

mod add;
mod approve;
mod cancel;
mod import;
mod list;
mod reject;
mod release;
mod retry;
mod show;
mod why;

use std::io;

use clap::Subcommand;
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
            Command::Cancel(args) => cancel::run(args, context).await,
            Command::Retry(args) => retry::run(args, context).await,
            Command::Release(args) => release::run(args, context).await,
            Command::Approve(args) => approve::run(args, context).await,
            Command::Reject(args) => reject::run(args, context).await,
        }
    }
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

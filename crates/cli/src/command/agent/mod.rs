//! `switchboard agent …`: one file per command.

mod add;
mod list;
mod remove;
mod show;
mod stop;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub use list::table;

pub const EXAMPLES: &str = "\
Examples:
  switchboard agent add builder-1
  switchboard agent list
  switchboard agent stop builder-1 --reason maintenance";

/// Commands about agents.
#[derive(Debug, Subcommand)]
pub enum Command {
    Add(add::Args),
    List(list::Args),
    Show(show::Args),
    Stop(stop::Args),
    Remove(remove::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Add(args) => add::run(args, context).await,
            Command::List(args) => list::run(args, context).await,
            Command::Show(args) => show::run(args, context).await,
            Command::Stop(args) => stop::run(args, context).await,
            Command::Remove(args) => remove::run(args, context).await,
        }
    }
}

//! `switchboard agent …`: one file per command.

mod add;
mod invite;
mod list;
mod remove;
mod revoke;
mod sessions;
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
  switchboard agent stop builder-1 --reason maintenance
  switchboard agent invite reviewer --scope task.claim,task.complete";

/// Commands about agents.
#[derive(Debug, Subcommand)]
pub enum Command {
    Add(add::Args),
    List(list::Args),
    Show(show::Args),
    Stop(stop::Args),
    Remove(remove::Args),
    Invite(invite::Args),
    Sessions(sessions::Args),
    Revoke(revoke::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Add(args) => add::run(args, context).await,
            Command::List(args) => list::run(args, context).await,
            Command::Show(args) => show::run(args, context).await,
            Command::Stop(args) => stop::run(args, context).await,
            Command::Remove(args) => remove::run(args, context).await,
            Command::Invite(args) => invite::run(args, context).await,
            Command::Sessions(args) => sessions::run(args, context).await,
            Command::Revoke(args) => revoke::run(args, context).await,
        }
    }
}

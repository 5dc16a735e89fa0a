//! `switchboard token …`: one file per command.

mod create;
mod list;
mod revoke;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
Examples:
  switchboard token create dashboard --scope viewer
  switchboard token list";

/// Commands about tokens.
#[derive(Debug, Subcommand)]
pub enum Command {
    Create(create::Args),
    List(list::Args),
    Revoke(revoke::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Create(args) => create::run(args, context).await,
            Command::List(args) => list::run(args, context).await,
            Command::Revoke(args) => revoke::run(args, context).await,
        }
    }
}

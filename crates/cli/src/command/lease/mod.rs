//! `switchboard lease …`: one file per command.

mod list;
mod release;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub use list::table;

pub const EXAMPLES: &str = "\
Examples:
  switchboard lease list --under src
  switchboard lease release src/main.rs";

/// Commands about leases.
#[derive(Debug, Subcommand)]
pub enum Command {
    List(list::Args),
    Release(release::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::List(args) => list::run(args, context).await,
            Command::Release(args) => release::run(args, context).await,
        }
    }
}

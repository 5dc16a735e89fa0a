//! `switchboard role …`: one file per command.

mod list;
mod pane;
mod run;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
A role is a name that messages are sent to, such as builder. Roles beside the canonical ones are configured in
switchboard.toml, as [squidrun.roles.reviewer] with pane = \"4\".

Examples:
  switchboard role run builder -- claude
  switchboard role list
  switchboard say builder '(ARCH #1): Roll call. Report status.'";

/// Commands about roles.
#[derive(Debug, Subcommand)]
pub enum Command {
    List(list::Args),
    Run(run::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::List(args) => list::run(args, context).await,
            Command::Run(args) => run::run(args, context).await,
        }
    }
}

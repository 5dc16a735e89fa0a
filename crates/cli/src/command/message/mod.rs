//! `switchboard message …`: one file per command.

mod ack;
mod list;
mod send;
mod show;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
Examples:
  switchboard message send 'Please rebase' --to builder-1
  switchboard message list";

/// Commands about messages.
#[derive(Debug, Subcommand)]
pub enum Command {
    Send(send::Args),
    Ack(ack::Args),
    List(list::Args),
    Show(show::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Ack(args) => ack::run(args, context).await,
            Command::Send(args) => send::run(args, context).await,
            Command::List(args) => list::run(args, context).await,
            Command::Show(args) => show::run(args, context).await,
        }
    }
}

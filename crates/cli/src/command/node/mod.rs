//! `switchboard node …`: one file per command.

mod cursors;
mod invite;
mod join;
mod leave;
mod list;
mod orders;
mod reset;
mod show;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
Several hubs can be nodes of one swarm: agents of one send messages and tasks to agents of the others. Every node that is
joined reads everything that the others publish.

Examples:
  switchboard node invite                                       (on the first machine)
  switchboard node join https://hub.example:7373 sbi_…          (on the second, as the first one prints it)
  switchboard node list";

/// Commands about nodes.
#[derive(Debug, Subcommand)]
pub enum Command {
    Invite(invite::Args),
    Join(join::Args),
    List(list::Args),
    Show(show::Args),
    Leave(leave::Args),
    Cursors(cursors::Args),
    Reset(reset::Args),
    Orders(orders::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Invite(args) => invite::run(args, context).await,
            Command::Join(args) => join::run(args, context).await,
            Command::List(args) => list::run(args, context).await,
            Command::Show(args) => show::run(args, context).await,
            Command::Leave(args) => leave::run(args, context).await,
            Command::Cursors(args) => cursors::run(args, context).await,
            Command::Reset(args) => reset::run(args, context).await,
            Command::Orders(args) => orders::run(args, context).await,
        }
    }
}

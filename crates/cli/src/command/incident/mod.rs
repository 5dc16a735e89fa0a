//! `switchboard incident …`: one file per command.

mod list;
mod resolve;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
An incident is something that a person should look after, such as a clock that was set. Of each kind and subject
one is open at a time; what happens again is counted there.

Examples:
  switchboard incident list
  switchboard incident resolve 'clock_stepped:wall clock' --reason 'NTP is back'";

/// Commands about incidents.
#[derive(Debug, Subcommand)]
pub enum Command {
    List(list::Args),
    Resolve(resolve::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::List(args) => list::run(args, context).await,
            Command::Resolve(args) => resolve::run(args, context).await,
        }
    }
}

//! `switchboard incident …`: one file per command.

pub mod list;
mod resolve;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
An incident is a problem that a person should look into, such as a clock that jumped. There is one open incident
per kind and subject; repeated occurrences are counted in it.

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

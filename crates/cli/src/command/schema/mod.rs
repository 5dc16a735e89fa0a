//! `switchboard schema …`: the published schemas of jobs, one file per command. None needs a hub.

mod list;
mod migrate;
mod show;
mod validate;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
Schemas of version 1.0 are those of the protocol's document; 1.1 is what is written since. Both are read.

Examples:
  switchboard schema list
  switchboard schema show job-manifest --version 1.0";

/// Commands about schemas.
#[derive(Debug, Subcommand)]
pub enum Command {
    List(list::Args),
    Show(show::Args),
    Validate(validate::Args),
    Migrate(migrate::Args),
}

impl Command {
    pub fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::List(args) => list::run(args, context),
            Command::Show(args) => show::run(args, context),
            Command::Validate(args) => validate::run(args, context),
            Command::Migrate(args) => migrate::run(args, context),
        }
    }
}

//! `switchboard review …`: one file per command.

mod list;
mod resolve;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
A review is a capability whose tasks go wrong: late, failed, with results that are not what they must be, or not routed. One
is open for each capability, its versions and its way to fail.

Examples:
  switchboard review list
  switchboard review resolve rev_01J… --note 'the skill names the file now'";

/// Commands about reviews.
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

//! `switchboard key …`: the master key. One file per command.

mod rotate;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
Every agent's signing key and every token is derived from the master key. Whoever can read it is the steward.

Example:
  switchboard key rotate";

/// Commands about the master key.
#[derive(Debug, Subcommand)]
pub enum Command {
    Rotate(rotate::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Rotate(args) => rotate::run(args, context).await,
        }
    }
}

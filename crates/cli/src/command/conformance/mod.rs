//! `switchboard conformance …`: one file per protocol.

mod runtime;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
Examples:
  switchboard conformance runtime
  switchboard conformance runtime --level 2 --url https://node.example --invite sbi_… --agent architect";

/// Commands about conformance.
#[derive(Debug, Subcommand)]
pub enum Command {
    Runtime(runtime::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Runtime(args) => runtime::run(args, context).await,
        }
    }
}

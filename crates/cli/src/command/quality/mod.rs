//! `switchboard quality …`: one file per command.

mod baseline;
mod history;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
Examples:
  switchboard quality baseline
  switchboard quality baseline --from-task 12
  switchboard quality history";

/// Commands about quality.
#[derive(Debug, Subcommand)]
pub enum Command {
    Baseline(baseline::Args),
    History(history::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Baseline(args) => baseline::run(args, context).await,
            Command::History(args) => history::run(args, context).await,
        }
    }
}

//! `switchboard capability …`: one file per command.

mod list;
mod publish;
mod show;
mod unpublish;

use clap::Subcommand;
use switchboard_client::runtime::GateRecord;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};

pub const EXAMPLES: &str = "\
A capability is what tasks can ask for by name, whichever node and agent does it. It is published at the node of the agent
that owns it, from a manifest; its skills are installed below [runtime] skills_dir.

Examples:
  switchboard capability publish diff-apply.json
  switchboard capability list
  switchboard capability unpublish cap.fs.diff-apply";

/// Commands about capabilities.
#[derive(Debug, Subcommand)]
pub enum Command {
    Publish(publish::Args),
    List(list::Args),
    Show(show::Args),
    Unpublish(unpublish::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Publish(args) => publish::run(args, context).await,
            Command::List(args) => list::run(args, context).await,
            Command::Show(args) => show::run(args, context).await,
            Command::Unpublish(args) => unpublish::run(args, context).await,
        }
    }
}

/// What each gate said.
fn gates(said: &[GateRecord]) -> Table {
    let mut table = Table::new(["GATE", "OUTCOME", "NOTE"], "no gates");
    for gate in said {
        table.row([cell(&gate.gate), cell(&gate.outcome), cell(&gate.note)]);
    }
    table
}

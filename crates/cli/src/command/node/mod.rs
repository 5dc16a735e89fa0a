//! `switchboard node …`: one file per command.

mod cursors;
mod dead_letters;
mod incidents;
mod invite;
mod join;
mod leave;
mod list;
mod orders;
mod reset;
mod show;

use clap::Subcommand;
use switchboard_client::runtime::OrderRecord;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{maybe, now, relative};

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
    DeadLetters(dead_letters::Args),
    Incidents(incidents::Args),
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
            Command::DeadLetters(args) => dead_letters::run(args, context).await,
            Command::Incidents(args) => incidents::run(args, context).await,
        }
    }
}

/// What other nodes were sent, a line each.
fn table(orders: &[OrderRecord], empty: &'static str) -> Table {
    let now = now();
    let columns = [
        "EVENT", "KIND", "FROM", "TO", "STATE", "ETA", "TRIES", "SENT",
    ];
    let mut table = Table::new(columns, empty);
    for order in orders {
        let nodes = order.destinations.iter();
        let nodes: Vec<&str> = nodes.map(|one| one.node_id.as_str()).collect();
        let states = order.destinations.iter();
        let states: Vec<&str> = states.map(|one| one.state.as_str()).collect();
        let state = order.state.clone();
        let state = state.unwrap_or_else(|| states.join(", "));
        let eta = order.eta_at.map(|at| relative(at, now));
        table.row([
            cell(&order.event_id),
            cell(&order.kind),
            cell(&order.source_agent_id),
            cell(nodes.join(", ")),
            maybe(Some(state).filter(|state| !state.is_empty()).as_ref()),
            maybe(eta.as_ref()),
            cell(order.attempt),
            cell(relative(order.created_at, now)),
        ]);
    }
    table
}

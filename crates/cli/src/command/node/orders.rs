//! `switchboard node orders`: what other nodes were sent, and what they answered.

use clap::Args as ClapArgs;
use switchboard_client::runtime::OrderQuery;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{maybe, now, relative};

/// Show what was sent to other nodes and how it stands
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard node orders              (what is still waited for)
  switchboard node orders --ended      (what has its answer, newest first; 'dead' was given up)")]
pub struct Args {
    /// Those that ended
    #[arg(long)]
    ended: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let query = OrderQuery {
        ended: Some(args.ended),
        ..OrderQuery::default()
    };
    let answer = context.client()?.nodes().orders(&query).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    let mut table = Table::new(
        ["EVENT", "KIND", "FROM", "TO", "STATE", "TRIES", "SENT"],
        "nothing",
    );
    for order in &answer.orders {
        let nodes = order.destinations.iter();
        let nodes: Vec<&str> = nodes.map(|one| one.node_id.as_str()).collect();
        let states = order.destinations.iter();
        let states: Vec<&str> = states.map(|one| one.state.as_str()).collect();
        let state = order.state.clone();
        let state = state.unwrap_or_else(|| states.join(", "));
        table.row([
            cell(&order.event_id),
            cell(&order.kind),
            cell(&order.source_agent_id),
            cell(nodes.join(", ")),
            maybe(Some(state).filter(|state| !state.is_empty()).as_ref()),
            cell(order.attempt),
            cell(relative(order.created_at, now)),
        ]);
    }
    Ok(screen.table(&table)?)
}

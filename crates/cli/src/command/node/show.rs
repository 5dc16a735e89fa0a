//! `switchboard node show`: all that this hub knows of a node.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{instant, now};

/// Show a node, also one that has left
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard node show node-berlin")]
pub struct Args {
    /// The node's id, as 'switchboard node list' shows it
    #[arg(value_name = "ID")]
    id: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.nodes().show(&args.id).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let (node, now) = (&answer.node, now());
    let mut facts = Table::facts();
    facts.fact("node", cell(&node.node_id));
    facts.fact("status", cell(node.status));
    facts.fact("tier", cell(node.tier));
    facts.fact("events", cell(node.reach));
    facts.fact("endpoint", node.endpoint.as_ref().map(cell));
    facts.fact("protocol", cell(&node.protocol_version));
    facts.fact("joined", instant(node.joined_at, now));
    facts.fact("left", node.left_at.map(|at| instant(at, now)));
    facts.fact("invited by", node.invited_by.as_ref().map(cell));
    facts.fact("vouched by", node.vouched_by.as_ref().map(cell));
    facts.fact("key", cell(&node.public_key));
    facts.fact("certificate", node.certificate.as_ref().map(cell));
    Ok(screen.table(&facts)?)
}

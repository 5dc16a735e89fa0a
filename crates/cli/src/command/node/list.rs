//! `switchboard node list`: the nodes of the swarm, as this hub knows them.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, cell, toned};
use crate::show::{maybe, now, relative};

/// List this hub's own node and those that are joined
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
EVENTS says how the events of a node come here: 'pull', they are read at its endpoint; 'push', it brings them.

Examples:
  switchboard node list
  switchboard node list --json | jq -r .own.nodeId"
)]
pub struct Args {}

pub async fn run(_: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.nodes().list().await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    let mut table = Table::new(["NODE", "TIER", "EVENTS", "ENDPOINT", "JOINED"], "no nodes");
    let own = &answer.own;
    table.row([
        cell(&own.node_id),
        cell(own.tier),
        toned("-", Tone::Dim),
        maybe(own.endpoint.as_ref()),
        toned("this hub", Tone::Dim),
    ]);
    for node in &answer.nodes {
        table.row([
            cell(&node.node_id),
            cell(node.tier),
            cell(node.reach),
            maybe(node.endpoint.as_ref()),
            cell(relative(node.joined_at, now)),
        ]);
    }
    Ok(screen.table(&table)?)
}

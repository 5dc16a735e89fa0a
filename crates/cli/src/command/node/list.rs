//! `switchboard node list`: the nodes of the swarm, as this hub knows them.

use clap::Args as ClapArgs;
use switchboard_client::runtime::Node;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, cell, toned};
use crate::show::{maybe, now, relative};

/// List this hub's own node and those that are joined
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
EVENTS says how the events of a node come here: 'pull', they are read at its endpoint; 'push', it brings them;
'unreachable', they do not, since neither hub has an endpoint. KNOWN BY says who invited it, or which node vouches for it.

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
    let columns = ["NODE", "TIER", "EVENTS", "ENDPOINT", "KNOWN BY", "JOINED"];
    let mut table = Table::new(columns, "no nodes");
    let own = &answer.own;
    table.row([
        cell(&own.node_id),
        cell(own.tier),
        toned("-", Tone::Dim),
        maybe(own.endpoint.as_ref()),
        toned("-", Tone::Dim),
        toned("this hub", Tone::Dim),
    ]);
    for node in &answer.nodes {
        table.row([
            cell(&node.node_id),
            cell(node.tier),
            cell(node.reach),
            maybe(node.endpoint.as_ref()),
            cell(known_by(node)),
            cell(relative(node.joined_at, now)),
        ]);
    }
    Ok(screen.table(&table)?)
}

/// How this hub came to know a node.
fn known_by(node: &Node) -> String {
    match (&node.vouched_by, &node.invited_by) {
        (Some(voucher), _) => format!("node {voucher}"),
        (None, Some(person)) => format!("invite of {person}"),
        (None, None) => "its own invite".to_owned(),
    }
}

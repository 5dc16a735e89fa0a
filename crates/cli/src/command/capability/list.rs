//! `switchboard capability list`: the capabilities of all nodes.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::maybe;

/// List the capabilities of all nodes
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
ACTING is the node that tasks go to: another one than the owner's while that is away.

Examples:
  switchboard capability list
  switchboard capability list --json | jq -r '.capabilities[].catalog.capabilityId'"
)]
pub struct Args {}

pub async fn run(_: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.capabilities().list().await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let mut table = Table::new(
        [
            "CAPABILITY",
            "VERSION",
            "STATUS",
            "OWNER",
            "NODE",
            "ACTING",
            "AGENTS",
        ],
        "no capabilities",
    );
    for one in &answer.capabilities {
        let catalog = &one.catalog;
        let status = catalog.status.map(|status| status.to_string());
        table.row([
            cell(&catalog.capability_id),
            cell(&catalog.version),
            maybe(status.as_ref()),
            cell(&catalog.owner_agent_id),
            maybe(catalog.owner_node_id.as_ref()),
            cell(&one.acting_node_id),
            cell(one.index.eligible_agent_ids.join(", ")),
        ]);
    }
    Ok(screen.table(&table)?)
}

//! `switchboard node leave`: a node is removed, or this one leaves all.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Remove a node; without an id, this hub leaves all nodes
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The other node is told if it can be reached; if not, its calls are refused from now on. To join again takes a new invite.

Examples:
  switchboard node leave node-berlin
  switchboard node leave")]
pub struct Args {
    /// The node's id, as 'switchboard node list' shows it
    #[arg(value_name = "ID")]
    id: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let id = match args.id {
        Some(id) => id,
        None => client.nodes().list().await?.own.node_id,
    };
    let answer = client.nodes().leave(&id).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    if answer.left.is_empty() {
        return Ok(screen.line("no node is joined")?);
    }
    for node in &answer.left {
        let id = clean(&node.node_id);
        screen.line(format_args!("node {id} is no longer joined"))?;
    }
    Ok(())
}

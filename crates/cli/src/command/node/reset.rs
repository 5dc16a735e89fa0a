//! `switchboard node reset`: where to go on in a node's outbox.

use clap::Args as ClapArgs;
use switchboard_client::runtime::ResetCursorRequest;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Go on reading a node's events after a number
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
For a cursor that is halted or expired: the node was restored from a backup, or no longer has what comes next. Events that
were taken in before are known by their ids and not delivered twice.

Examples:
  switchboard node reset node-berlin                (from the oldest event that it still has)
  switchboard node reset node-berlin --from 1842    (after event 1842)")]
pub struct Args {
    /// The node whose events are read
    node: String,
    /// The number of the last event that is not wanted
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from: u64,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = ResetCursorRequest { after: args.from };
    let nodes = context.client()?;
    let answer = nodes.nodes().reset(&args.node, &request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(screen.line(format_args!(
        "events of node {} are read after {}",
        clean(&answer.source_node_id),
        answer.last_seq
    ))?)
}

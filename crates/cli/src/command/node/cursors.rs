//! `switchboard node cursors`: how far nodes are in each other's outboxes.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{now, relative};

/// Show how far this hub has read the others, and they this one
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
'gap': the next event is missing and waited for. 'halted' and 'expired': nothing more is read until a person decides where
to go on ('switchboard node reset'); 'switchboard incident list' says why.

Examples:
  switchboard node cursors
  switchboard node cursors --json")]
pub struct Args {}

pub async fn run(_: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.nodes().cursors().await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    let mut table = Table::new(
        ["READER", "SOURCE", "UP TO", "STATUS", "MOVED"],
        "no node has read anything yet",
    );
    for cursor in &answer.cursors {
        table.row([
            cell(&cursor.consumer_node_id),
            cell(&cursor.source_node_id),
            cell(cursor.last_seq),
            cell(&cursor.status),
            cell(relative(cursor.updated_at, now)),
        ]);
    }
    Ok(screen.table(&table)?)
}

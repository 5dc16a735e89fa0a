//! `switchboard worker clean`: removes worktrees that are done with.

use clap::Args as ClapArgs;
use serde::Serialize;
use switchboard_client::worker::Trees;

use super::failed;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};

/// Remove worktrees of workers that are clean and not in use; their branches stay
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard worker clean")]
pub struct Args {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    path: String,
    removed: bool,
    kept: Option<String>,
}

pub async fn run(_args: Args, context: &mut Context) -> Result<(), Failure> {
    let trees = Trees::around(&context.here).await.map_err(failed)?;
    let cleaned = trees.clean().await.map_err(failed)?;
    let rows: Vec<Row> = cleaned
        .into_iter()
        .map(|one| Row {
            path: one.path.display().to_string(),
            removed: one.kept.is_none(),
            kept: one.kept,
        })
        .collect();
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&rows)?);
    }
    let mut table = Table::new(["WORKTREE", ""], "no worktrees");
    for row in &rows {
        let what = row.kept.as_ref().map(|why| format!("stays: {why}"));
        table.row([cell(&row.path), cell(what.as_deref().unwrap_or("removed"))]);
    }
    Ok(screen.table(&table)?)
}

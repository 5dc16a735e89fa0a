//! `switchboard role list`: every role, who holds it, and what waits for it.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::RoleView;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, brief, cell, toned};
use crate::show::{maybe, now, relative};

/// List roles, who is online and who has checked in
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  switchboard role list
  switchboard role list --json"
)]
pub struct Args {}

pub async fn run(_: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.roles().await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    let mut table = Table::new(
        [
            "TARGET",
            "PANE",
            "ONLINE",
            "CHECKED IN",
            "SEEN",
            "WAITING",
            "OWES",
            "HELD BY",
            "RESPONSIBILITIES",
        ],
        "no roles",
    );
    for role in &answer.roles {
        table.row([
            cell(&role.target),
            cell(&role.pane),
            online(role),
            maybe(role.checked_in_at.map(|at| relative(at, now))),
            maybe(role.last_seen.map(|at| relative(at, now))),
            cell(role.waiting),
            cell(role.owed),
            cell(brief(&role.held_by.join(", "), 30)),
            cell(brief(&role.responsibilities, 40)),
        ]);
    }
    Ok(screen.table(&table)?)
}

fn online(role: &RoleView) -> comfy_table::Cell {
    match role.online {
        true => toned("yes", Tone::Good),
        false => toned("no", Tone::Dim),
    }
}

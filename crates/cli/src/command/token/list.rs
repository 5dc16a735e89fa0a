//! `switchboard token list`: every token, without its secret.

use clap::Args as ClapArgs;

use super::create::of_agent;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{now, relative};

/// List tokens
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Example:
  switchboard token list"
)]
pub struct Args {}

pub async fn run(_: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.admin().tokens().await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    let mut table = Table::new(["ID", "NAME", "SCOPE", "CREATED"], "no tokens");
    for token in &answer.tokens {
        table.row([
            cell(&token.id),
            cell(&token.name),
            cell(format!("{}{}", token.scope, of_agent(token))),
            cell(relative(token.created_at, now)),
        ]);
    }
    Ok(screen.table(&table)?)
}

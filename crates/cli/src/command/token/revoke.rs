//! `switchboard token revoke`: ends a token.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Revoke a token; calls that use it are refused from now on
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard token revoke tok_01J9Z3")]
pub struct Args {
    /// The token's id, as 'switchboard token list' shows it
    #[arg(value_name = "TOKEN")]
    id: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.admin().revoke_token(&args.id).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(screen.line(format_args!("token {} is revoked", clean(&args.id)))?)
}

//! `switchboard node join`: this hub joins the one that gave an invite.

use clap::Args as ClapArgs;
use switchboard_client::runtime::JoinNodeRequest;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Join the hub that gave an invite
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
It is the hub of this project that joins, not this command. Without --endpoint, and without [runtime] endpoint in
switchboard.toml, it carries its events to the other node itself, as from behind a router; with it, the other node comes
for them. A join that broke off can be repeated with the same invite.

Examples:
  switchboard node join https://hub.example:7373 sbi_…
  switchboard node join https://hub.example:7373 sbi_… --endpoint https://here.example:7373")]
pub struct Args {
    /// The address of the other hub, without a path
    // Not `url`, which is an option of every command.
    #[arg(value_name = "URL")]
    address: String,
    /// The invite, as 'switchboard node invite' prints it there
    invite: String,
    /// Where the other hub reaches this one
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = JoinNodeRequest {
        url: args.address,
        invite_token: args.invite,
        endpoint: args.endpoint,
    };
    let answer = context.client()?.nodes().join(&request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    Ok(screen.line(format_args!(
        "node {} is joined",
        clean(&answer.node.node_id)
    ))?)
}

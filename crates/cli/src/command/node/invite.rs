//! `switchboard node invite`: another hub may join this one, once.

use clap::Args as ClapArgs;
use switchboard_client::runtime::InviteNodeRequest;

use crate::command::pause::seconds;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Invite another hub to join this one, and print the invite once
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The invite is a secret: whoever has it can join, once, until it expires. From a hub with TLS it also carries what the
hub's certificate is known by, so that the other hub talks to this one and to nobody else.

Examples:
  switchboard node invite
  switchboard node invite --ttl 5m
  switchboard node invite --json | jq -r .inviteToken")]
pub struct Args {
    /// How long it can be used: 5m to 15m
    #[arg(long, value_name = "SPAN", default_value = "15m", value_parser = seconds)]
    ttl: u64,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let request = InviteNodeRequest {
        ttl_seconds: Some(u32::try_from(args.ttl).unwrap_or(u32::MAX)),
    };
    let answer = client.nodes().invite(&request).await?;
    if context.screen.json() {
        return Ok(context.screen.value(&answer)?);
    }
    let way = context.elsewhere(&client);
    let screen = &mut context.screen;
    screen.line(format_args!(
        "node {} can be joined until {}; on the other machine:",
        clean(&answer.node_id),
        answer.expires_at
    ))?;
    screen.line("")?;
    Ok(screen.line(format_args!(
        "  switchboard node join {} {}",
        clean(&way.url),
        clean(&answer.invite_token)
    ))?)
}

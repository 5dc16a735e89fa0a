//! `switchboard agent invite`: an agent that lives elsewhere may work here, with a short list of rights.

use clap::Args as ClapArgs;
use switchboard_client::runtime::{AgentScope, Constraints, InviteAgentRequest};

use crate::command::pause::seconds;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Invite an agent that lives elsewhere, and print the invite once
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The invite is a secret: whoever has it can speak for the agent, once, until it expires. With it and a key of its own the
agent gets tokens that only work together with that key; docs/runtime.md shows how. What no scope allows is denied.
Scopes: message.read, message.send, task.read, task.create, task.claim, task.update, task.complete, status.read.

Examples:
  switchboard agent invite reviewer --scope task.claim,task.complete
  switchboard agent invite reviewer --scope task.read --ttl 5m --sessions 1 --from 192.0.2.0/24
  switchboard agent invite reviewer --scope task.read --json | jq -r .inviteToken")]
pub struct Args {
    /// The agent's id
    agent: String,
    /// What it may do
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',', value_parser = scope)]
    scope: Vec<AgentScope>,
    /// How long the invite can be used: 5m to 15m
    #[arg(long, value_name = "SPAN", default_value = "15m", value_parser = seconds)]
    ttl: u64,
    /// How many sessions it may have at a time [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    sessions: Option<u32>,
    /// Addresses and networks that it may call from [default: any]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    from: Vec<String>,
}

/// With or without what all of them begin with.
fn scope(text: &str) -> Result<AgentScope, String> {
    let short = text.strip_prefix("ansible.").unwrap_or(text);
    let read = format!("ansible.{short}").parse::<AgentScope>();
    read.map_err(|unknown| unknown.to_string())
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let request = InviteAgentRequest {
        agent_id: args.agent,
        scopes: args.scope,
        ttl_seconds: Some(u32::try_from(args.ttl).unwrap_or(u32::MAX)),
        constraints: Some(Constraints {
            max_sessions: args.sessions,
            origins: args.from,
        }),
    };
    let answer = client.external().invite(&request).await?;
    if context.screen.json() {
        return Ok(context.screen.value(&answer)?);
    }
    let way = context.elsewhere(&client);
    let screen = &mut context.screen;
    screen.line(format_args!(
        "agent {} can be admitted until {} by {}/ansible/agent/auth/exchange, with this invite:",
        clean(&request.agent_id),
        answer.expires_at,
        clean(&way.url),
    ))?;
    screen.line("")?;
    Ok(screen.line(format_args!("  {}", clean(&answer.invite_token)))?)
}

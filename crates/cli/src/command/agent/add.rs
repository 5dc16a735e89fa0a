//! `switchboard agent add`: a signing key for an agent, shown once.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, clean, paint};

/// Create a signing key for an agent and print it once
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The agent's earlier key stops working. A hub with auth = \"none\" needs no key.

Examples:
  switchboard agent add builder-1
  switchboard agent add builder-1 --json | jq -r .key")]
pub struct Args {
    /// The agent's id
    agent: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let answer = client.admin().create_key(&args.agent).await?;
    if context.screen.json() {
        return Ok(context.screen.value(&answer)?);
    }
    let way = context.elsewhere(&client);
    let screen = &mut context.screen;
    let agent = clean(&answer.agent_id).into_owned();
    screen.line(format_args!(
        "a key for {agent} (generation {}):",
        answer.generation
    ))?;
    screen.line("")?;
    way.print(screen)?;
    screen.line(format_args!("  export SWITCHBOARD_AGENT={agent}"))?;
    screen.line(format_args!(
        "  export SWITCHBOARD_KEY={}",
        clean(&answer.key)
    ))?;
    screen.line("")?;
    screen.line(
        "Sign every request: HMAC-SHA256 in hex, keyed with the 32 bytes after sbk_ (hex-decoded), over five lines:",
    )?;
    screen.line("  METHOD, path?query, timestamp, nonce, sha256 of the body in hex")?;
    screen.line("and send the headers Switchboard-Agent, -Timestamp, -Nonce and -Signature.")?;
    Ok(screen.line(paint(
        "Save the key now: it is not stored and cannot be shown again.",
        Tone::Warn,
    ))?)
}

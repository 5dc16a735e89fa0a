//! `switchboard agent add`: a signing key for an agent, shown once.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, clean, paint};

/// Make a signing key for an agent and print it once
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
An earlier key of the same agent stops working. A hub with auth = \"none\" asks for no key.

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
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let agent = clean(&answer.agent_id).into_owned();
    screen.line(format_args!(
        "a key for {agent} (generation {}):",
        answer.generation
    ))?;
    screen.line("")?;
    screen.line(format_args!(
        "  export SWITCHBOARD_URL={}",
        client.address()
    ))?;
    screen.line(format_args!("  export SWITCHBOARD_AGENT={agent}"))?;
    screen.line(format_args!(
        "  export SWITCHBOARD_KEY={}",
        clean(&answer.key)
    ))?;
    screen.line("")?;
    screen.line(
        "Sign every call: HMAC-SHA256 in hex, with the 32 bytes that the key spells after sbk_, over five lines:",
    )?;
    screen.line("  METHOD, path?query, timestamp, nonce, sha256 of the body in hex")?;
    screen.line("and send the headers Switchboard-Agent, -Timestamp, -Nonce and -Signature.")?;
    Ok(screen.line(paint(
        "The key is not stored and not shown again.",
        Tone::Warn,
    ))?)
}

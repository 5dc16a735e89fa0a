//! `switchboard agent revoke`: ends what an external agent was given.

use clap::Args as ClapArgs;
use switchboard_client::runtime::RevokeSessionsRequest;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// End a session of an external agent, or all of them
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Its tokens stop working within a second, and with its last session what it holds goes back to the queue.

Examples:
  switchboard agent revoke reviewer                     (all its sessions)
  switchboard agent revoke --session ses_01K…           (one, with all its tokens)")]
pub struct Args {
    /// The agent whose sessions end
    #[arg(required_unless_present = "session", conflicts_with = "session")]
    agent: Option<String>,
    /// One session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = RevokeSessionsRequest {
        session_id: args.session,
        agent_id: args.agent,
    };
    let answer = context.client()?.external().revoke(&request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    if answer.revoked.is_empty() {
        return Ok(screen.line("there was no live session")?);
    }
    for session in &answer.revoked {
        screen.line(format_args!(
            "session {} of agent {} has ended",
            clean(&session.session_id),
            clean(&session.agent_id)
        ))?;
    }
    Ok(())
}

//! `switchboard agent sessions`: what external agents have been given.

use clap::Args as ClapArgs;
use switchboard_client::runtime::{ExternalSession, SessionQuery};

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Table, cell};
use crate::show::{maybe, now, relative};

/// List sessions of external agents, newest first
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard agent sessions
  switchboard agent sessions reviewer
  switchboard agent sessions --ended      (those of the last 30 days)")]
pub struct Args {
    /// Only those of this agent
    agent: Option<String>,
    /// List those that ended
    #[arg(long, conflicts_with = "agent")]
    ended: bool,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let page = gather(args.limit, async |after, limit| {
        let query = SessionQuery {
            agent_id: args.agent.clone(),
            ended: Some(args.ended),
            limit: Some(limit),
            after,
        };
        client.external().sessions(&query).await
    })
    .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&page)?);
    }
    Ok(screen.table(&table(&page.sessions))?)
}

fn table(sessions: &[ExternalSession]) -> Table {
    let now = now();
    let mut table = Table::new(
        [
            "SESSION", "AGENT", "BEGAN", "ENDS", "ENDED", "WHY", "SCOPES",
        ],
        "no sessions",
    );
    for session in sessions {
        let scopes = session.scopes.iter();
        let short = scopes.map(|scope| scope.as_str().trim_start_matches("ansible."));
        table.row([
            cell(&session.session_id),
            cell(&session.agent_id),
            cell(relative(session.began_at, now)),
            cell(session.refresh_expires_at),
            maybe(session.ended_at.map(|at| relative(at, now)).as_ref()),
            maybe(session.reason.as_ref()),
            cell(short.collect::<Vec<_>>().join(" ")),
        ]);
    }
    table
}

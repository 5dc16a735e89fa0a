//! `switchboard audit`: who did what from outside, over all nodes, in one story.

use clap::Args as ClapArgs;
use switchboard_client::runtime::{AuditOutcome, AuditQuery, AuditResponse};

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Screen, Table, cell, clean};
use crate::show::maybe;

/// Show what external agents and nodes did, and what was refused, oldest first
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Entries of the last 30 days, of this hub and of all nodes that are joined; nodes that do not answer, or cannot be asked,
are named.

Examples:
  switchboard audit --corr corr_01K…
  switchboard audit --session ses_01K…
  switchboard audit --agent reviewer --json")]
pub struct Args {
    /// Only what belongs to this corrId
    #[arg(long, value_name = "ID")]
    corr: Option<String>,
    /// Only what was done in this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only what this agent did
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let page = gather(args.limit, async |after, limit| {
        let query = AuditQuery {
            corr_id: args.corr.clone(),
            session_id: args.session.clone(),
            agent_id: args.agent.clone(),
            own: None,
            limit: Some(limit),
            after,
        };
        client.external().audit(&query).await
    })
    .await?;
    match context.screen.json() {
        true => Ok(context.screen.value(&page)?),
        false => Ok(print(&mut context.screen, &page)?),
    }
}

fn print(screen: &mut Screen, page: &AuditResponse) -> std::io::Result<()> {
    let mut table = Table::new(
        ["TIME", "NODE", "WHO", "WHAT", "OUTCOME", "CORR", "SESSION"],
        "nothing",
    );
    for entry in &page.entries {
        let outcome = match (entry.outcome, &entry.code) {
            (AuditOutcome::Refused, Some(code)) => code.clone(),
            (outcome, _) => outcome.to_string(),
        };
        let outcome = match entry.more {
            0 => outcome,
            more => format!("{outcome} (and {more} before it)"),
        };
        table.row([
            cell(entry.at),
            cell(&entry.node_id),
            maybe(entry.actor.as_ref()),
            cell(&entry.operation),
            cell(outcome),
            maybe(entry.corr_id.as_ref()),
            maybe(entry.session_id.as_ref()),
        ]);
    }
    screen.table(&table)?;
    for node in &page.unanswered {
        let (id, reason) = (clean(&node.node_id), clean(&node.reason));
        screen.line(format_args!("node {id} did not answer: {reason}"))?;
    }
    for id in page.unasked.iter().map(|id| clean(id)) {
        screen.line(format_args!(
            "node {id} has no endpoint and was not asked; run 'switchboard audit' there"
        ))?;
    }
    Ok(())
}

//! `switchboard memory search`: what agents learned, and what the swarm remembers of its work.

use clap::{Args as ClapArgs, Subcommand};
use switchboard_client::jetpack::MemoryQuery;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{age, maybe, now};

pub const EXAMPLES: &str = "\
Example:
  switchboard memory search parser error recovery";

/// Commands about memory.
#[derive(Debug, Subcommand)]
pub enum Command {
    Search(Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Search(args) => search(args, context).await,
        }
    }
}

/// Search what agents learned and claimed, best first
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Words to look for
    #[arg(required = true)]
    words: Vec<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

async fn search(args: Args, context: &mut Context) -> Result<(), Failure> {
    let query = MemoryQuery {
        q: Some(args.words.join(" ")),
        limit: Some(args.limit),
    };
    let answer = context.client()?.memory().search(&query).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    let mut table = Table::new(["AGE", "AGENT", "TASK", "LEARNED"], "no matches");
    for one in &answer.learnings {
        let (agent, task) = (
            maybe(one.agent_id.as_deref()),
            maybe(one.task_id.as_deref()),
        );
        table.row([cell(age(one.created_at, now)), agent, task, cell(&one.text)]);
    }
    // An engram is a file: what of it has the words, and where the rest is.
    for engram in &answer.engrams {
        let lines = engram.lines.join("; ");
        let text = format!("{lines} ({})", engram.path);
        let since = cell(age(engram.created_at, now));
        table.row([since, cell("engram"), cell(&engram.scope), cell(&text)]);
    }
    for claim in &answer.claims {
        let text = format!("{} ({}, claim {})", claim.text, claim.status, claim.id);
        let since = cell(age(claim.created_at, now));
        table.row([since, cell(&claim.by), cell(claim.claim_type), cell(&text)]);
    }
    Ok(screen.table(&table)?)
}

//! `switchboard claim …`: what roles said was decided, to be done, found or blocked, and whether it holds.

use clap::{Args as ClapArgs, Subcommand};
use switchboard_client::jetpack::{Claim, ClaimQuery, ClaimStatus, ClaimStatusRequest, ClaimType};
use switchboard_core::USER;

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Table, brief, cell};
use crate::show::{now, relative};
use crate::words::one_of;

pub const EXAMPLES: &str = "\
A line of a message that begins with DECISION:, TASK:, FINDING: or BLOCKER: is a claim. It is proposed until somebody
says that it is confirmed, contested, pending_proof or deprecated. Claims are kept for 30 days; 'switchboard memory
search' finds them too.

Examples:
  switchboard claim list --unresolved
  switchboard claim status 12 confirmed --by architect --why 'read the code'";

/// Commands about claims.
#[derive(Debug, Subcommand)]
pub enum Command {
    List(List),
    Status(Status),
}

/// List claims, newest first
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  switchboard claim list --unresolved
  switchboard claim list --type decision --status contested --by oracle --json"
)]
pub struct List {
    /// Only claims with this status; may be repeated
    #[arg(long, value_name = "STATUS", value_parser = one_of::<ClaimStatus>(ClaimStatus::WORDS))]
    status: Vec<ClaimStatus>,
    /// Only claims of this type; may be repeated
    #[arg(long = "type", value_name = "TYPE", value_parser = one_of::<ClaimType>(ClaimType::WORDS))]
    claim_type: Vec<ClaimType>,
    /// Only what this role said
    #[arg(long, value_name = "ROLE")]
    by: Option<String>,
    /// Only what somebody has yet to look after: open tasks and blockers, and whatever is contested or pending proof
    #[arg(long)]
    unresolved: bool,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Say whether a claim holds
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard claim status 12 confirmed --by architect --why 'read the code'
  switchboard claim status 7 deprecated --why 'the disk was replaced'")]
pub struct Status {
    /// The claim's number, as 'switchboard claim list' shows it
    #[arg(value_name = "ID")]
    claim: String,
    /// Its new status
    #[arg(value_parser = one_of::<ClaimStatus>(ClaimStatus::WORDS))]
    status: ClaimStatus,
    /// Who says so [default: SQUIDRUN_ROLE, else user]
    #[arg(long, value_name = "ROLE", env = "SQUIDRUN_ROLE", default_value = USER, hide_default_value = true)]
    by: String,
    /// Why, kept with the claim
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

/// Characters of a text in a line.
const SHOWN: usize = 100;

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::List(args) => list(args, context).await,
            Command::Status(args) => status(args, context).await,
        }
    }
}

async fn list(args: List, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let page = gather(args.limit, async |after, limit| {
        let query = ClaimQuery {
            status: args.status.clone(),
            claim_type: args.claim_type.clone(),
            by: args.by.clone(),
            unresolved: args.unresolved.then_some(true),
            limit: Some(limit),
            after,
        };
        client.claims(&query).await
    })
    .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&page)?);
    }
    let now = now();
    let headings = ["ID", "AGE", "BY", "TYPE", "STATUS", "TEXT"];
    let mut table = Table::new(headings, "no claims");
    for claim in &page.claims {
        table.row([
            cell(claim.id),
            cell(relative(claim.created_at, now)),
            cell(&claim.by),
            cell(claim.claim_type),
            cell(status_of(claim)),
            cell(brief(&claim.text, SHOWN)),
        ]);
    }
    Ok(screen.table(&table)?)
}

/// With who said so.
fn status_of(claim: &Claim) -> String {
    match &claim.judged {
        Some(judged) => format!("{} by {}", claim.status, judged.by),
        None => claim.status.to_string(),
    }
}

async fn status(args: Status, context: &mut Context) -> Result<(), Failure> {
    let request = ClaimStatusRequest {
        agent_id: args.by,
        status: args.status,
        reason: args.why,
    };
    let client = context.client()?;
    let answer = client.judge_claim(&args.claim, &request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let claim = &answer.claim;
    Ok(screen.line(format_args!("claim {} is {}", claim.id, claim.status))?)
}

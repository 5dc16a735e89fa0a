//! `switchboard journal` and `switchboard briefing`: what was said, from the journal beside the ledger. No hub is needed.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde_json::json;
use switchboard_hub::config::Overrides;
use switchboard_hub::squidrun::handoff;
use switchboard_store::journal::{Journal, JournalError};
use switchboard_wire::jetpack::{JournalQuery, JournalResponse};

use crate::context::Context;
use crate::failure::Failure;
use crate::project;
use crate::screen::{Table, brief, cell};
use crate::show::{maybe, now, relative};

/// Show what roles said, newest first
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The journal is .squidrun/runtime/evidence-ledger.db; it is kept for 30 days.

Examples:
  switchboard journal
  switchboard journal --role builder -n 100
  switchboard journal --failed --json")]
pub struct Args {
    /// Only from or to this role
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Only messages that were refused or could not be delivered
    #[arg(long)]
    failed: bool,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=2000))]
    limit: u32,
}

/// Print what a starting agent should know: decisions, what is open, failed deliveries
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard briefing")]
pub struct Briefing {}

/// Characters of a text in a line.
const SHOWN: usize = 100;

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let dir = place(context)?;
    let query = JournalQuery {
        role: args.role,
        failed: Some(args.failed),
        limit: None,
    };
    let said = handoff::said(&dir, &query, args.limit as usize);
    let messages = said.map_err(|error| unread(&dir, &error))?;
    let screen = &mut context.screen;
    if screen.json() {
        let success = true;
        return Ok(screen.value(&JournalResponse { success, messages })?);
    }
    let now = now();
    let headings = ["AGE", "SESSION", "FROM", "TO", "STATUS", "TEXT"];
    let mut table = Table::new(headings, "nothing was said");
    for row in &messages {
        let text = |column: &Option<String>| cell(column.as_deref().unwrap_or_default());
        let session = row.session_id.as_deref().unwrap_or_default();
        let status = row.error_code.as_ref().or(row.status.as_ref());
        table.row([
            maybe(row.at.map(|at| relative(at, now))),
            cell(session.trim_start_matches("app-session-")),
            text(&row.from),
            text(&row.to),
            cell(status.map_or("", String::as_str)),
            cell(brief(row.text.as_deref().unwrap_or_default(), SHOWN)),
        ]);
    }
    Ok(screen.table(&table)?)
}

pub fn briefing(_: Briefing, context: &mut Context) -> Result<(), Failure> {
    let dir = place(context)?;
    let file = handoff::journal(&dir);
    let rows = Journal::read(&file, handoff::ROWS_MAX, handoff::BODY_CHARS_MAX);
    let text = handoff::briefing(&rows.map_err(|error| unread(&dir, &error))?);
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&json!({ "success": true, "briefing": text }))?);
    }
    Ok(screen.line(text.trim_end())?)
}

/// The directory with the journal.
fn place(context: &Context) -> Result<PathBuf, Failure> {
    let loaded = project::load(&context.here, None, Overrides::default());
    let config = loaded.map_err(|error| Failure::Failed(error.to_string()))?;
    let dir = config.config.squidrun.dir;
    let file = handoff::journal(&dir);
    match file.is_file() {
        true => Ok(dir),
        false => Err(Failure::Failed(format!(
            "there is no journal at {}; 'switchboard up' creates it",
            file.display()
        ))),
    }
}

fn unread(dir: &Path, error: &JournalError) -> Failure {
    let file = handoff::journal(dir);
    Failure::Failed(format!("{} cannot be read: {error}", file.display()))
}

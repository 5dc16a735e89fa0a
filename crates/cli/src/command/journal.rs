//! `switchboard journal` and `switchboard briefing`: what was said, from the journal beside the ledger. No hub is needed.

use clap::Args as ClapArgs;
use serde_json::json;
use switchboard_hub::config::Overrides;
use switchboard_hub::squidrun::handoff;
use switchboard_store::journal::{Journal, Row};
use switchboard_wire::IsoTime;

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
    let mut rows = read(context)?;
    rows.sort_by_key(|row| std::cmp::Reverse(at(row)));
    let is = |word: &Option<String>, role: &String| word.as_ref() == Some(role);
    rows.retain(|row| {
        let role = args.role.as_ref();
        let theirs = role.is_none_or(|it| is(&row.sender_role, it) || is(&row.target_role, it));
        theirs && (!args.failed || row.status.as_deref() == Some("failed"))
    });
    rows.truncate(args.limit as usize);
    let screen = &mut context.screen;
    if screen.json() {
        let shown: Vec<_> = rows.iter().map(shown).collect();
        return Ok(screen.value(&json!({ "success": true, "messages": shown }))?);
    }
    let now = now();
    let headings = ["AGE", "SESSION", "FROM", "TO", "STATUS", "TEXT"];
    let mut table = Table::new(headings, "nothing was said");
    for row in &rows {
        let text = |column: &Option<String>| cell(column.as_deref().unwrap_or_default());
        let session = row.session_id.as_deref().unwrap_or_default();
        let status = row.error_code.as_ref().or(row.status.as_ref());
        table.row([
            maybe(at(row).map(|at| relative(IsoTime(at), now))),
            cell(session.trim_start_matches("app-session-")),
            text(&row.sender_role),
            text(&row.target_role),
            cell(status.map_or("", String::as_str)),
            cell(brief(row.raw_body.as_deref().unwrap_or_default(), SHOWN)),
        ]);
    }
    Ok(screen.table(&table)?)
}

pub fn briefing(_: Briefing, context: &mut Context) -> Result<(), Failure> {
    let text = handoff::briefing(&read(context)?);
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&json!({ "success": true, "briefing": text }))?);
    }
    Ok(screen.line(text.trim_end())?)
}

fn read(context: &Context) -> Result<Vec<Row>, Failure> {
    let loaded = project::load(&context.here, None, Overrides::default());
    let config = loaded.map_err(|error| Failure::Failed(error.to_string()))?;
    let file = handoff::journal(&config.config.squidrun.dir);
    if !file.is_file() {
        return Err(Failure::Failed(format!(
            "there is no journal at {}; 'switchboard up' creates it",
            file.display()
        )));
    }
    Journal::read(&file, handoff::ROWS_MAX, handoff::BODY_CHARS_MAX)
        .map_err(|error| Failure::Failed(format!("{} cannot be read: {error}", file.display())))
}

fn at(row: &Row) -> Option<i64> {
    row.brokered_at_ms.or(row.sent_at_ms).or(row.updated_at_ms)
}

fn shown(row: &Row) -> serde_json::Value {
    json!({
        "messageId": row.message_id,
        "sessionId": row.session_id,
        "from": row.sender_role,
        "to": row.target_role,
        "channel": row.channel,
        "at": at(row).map(IsoTime),
        "status": row.status,
        "ackStatus": row.ack_status,
        "errorCode": row.error_code,
        "text": row.raw_body,
    })
}

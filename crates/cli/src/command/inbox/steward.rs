//! `switchboard inbox --steward`: all that waits for a person's decision, in one list.

use switchboard_wire::logist::http::StewardQuery;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, brief, cell, toned};
use crate::show::{now, relative};

/// Lists it, the longest first. Overdue acknowledgements are incidents.
pub async fn run(limit: u32, context: &mut Context) -> Result<(), Failure> {
    let query = StewardQuery { limit: Some(limit) };
    let answer = context.client()?.for_steward(&query).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    let mut table = Table::new(
        ["SINCE", "KIND", "ID", "WHAT", "LOOK"],
        "nothing waits for you",
    );
    for item in &answer.items {
        let look = match item.kind.as_str() {
            "job" => format!("switchboard job status {}", item.id),
            "task" => format!("switchboard task show {}", item.id),
            _ => "switchboard incident list".to_owned(),
        };
        table.row([
            cell(relative(item.since, now)),
            cell(&item.kind),
            cell(&item.id),
            toned(brief(&item.what, 80), Tone::Warn),
            cell(look),
        ]);
    }
    Ok(screen.table(&table)?)
}

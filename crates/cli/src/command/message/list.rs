//! `switchboard message list`: every message, newest first. Looking delivers nothing.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::MessageQuery;

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Table, Tone, brief, cell, toned};
use crate::show::{age, now, recipients};

/// List messages, newest first
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  switchboard message list
  switchboard message list --to builder-1 --type task.help_needed"
)]
pub struct Args {
    /// Only from this agent
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// Only to this agent
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,
    /// Only of these types
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let query = MessageQuery {
        from: args.from,
        to: args.to,
        types: args.types,
        ..MessageQuery::default()
    };
    let page = gather(args.limit, async |after, limit| {
        client
            .messages()
            .list(&MessageQuery {
                after,
                limit: Some(limit),
                ..query.clone()
            })
            .await
    })
    .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&page)?);
    }
    let now = now();
    let mut table = Table::new(
        ["AGE", "FROM", "TO", "TYPE", "PAYLOAD", "ID"],
        "no messages",
    );
    for message in &page.messages {
        table.row([
            cell(age(message.created_at, now)),
            cell(&message.from),
            cell(recipients(message.to.as_ref())),
            cell(&message.kind),
            cell(brief(message.payload.get(), 60)),
            toned(&message.id, Tone::Dim),
        ]);
    }
    Ok(screen.table(&table)?)
}

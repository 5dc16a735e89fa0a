//! `switchboard events`: the log of everything that happened, and what happens next.

use std::pin::pin;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use futures_util::StreamExt;
use serde_json::Value;
use switchboard_client::Client;
use switchboard_client::jetpack::{Event, EventPage, EventPlace, EventQuery};
use switchboard_core::Event as EventKind;

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Screen, Tone, brief, clean, paint};

/// How far back events of some types are looked for at first.
const FIRST_LOOK: u64 = 250;
/// Longest value of a member in a line.
const VALUE_MAX: usize = 60;

/// Show what happened, and follow what happens next
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard events
  switchboard events --follow
  switchboard events --after 1200 --limit 100 --json
  switchboard events --follow --json | jq -c 'select(.type == \"task_completed\")'")]
pub struct Args {
    /// Keep printing events as they happen, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Start after this event: a number or EPOCH.NUMBER [default: show the last events]
    #[arg(long, value_name = "SEQ")]
    after: Option<EventPlace>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..))]
    limit: u32,
    /// Only events of these types, as in docs/events.md
    #[arg(long = "type", short, value_name = "TYPE", value_delimiter = ',', hide_possible_values = true, value_parser = PossibleValuesParser::new(EventKind::KINDS))]
    types: Vec<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let screen = &mut context.screen;
    // Who follows from a place wants everything after it, not a first page.
    if let (true, Some(after)) = (args.follow, args.after) {
        return follow(&client, after, args.types, screen).await;
    }
    let page = page(&args, &client).await?;
    let last = EventPlace {
        epoch: page.epoch,
        number: page.events.last().map_or(page.latest, |event| event.seq),
    };
    if screen.json() && !args.follow {
        return Ok(screen.value(&page)?);
    }
    for event in &page.events {
        print(screen, event)?;
    }
    if args.follow {
        follow(&client, last, args.types, screen).await
    } else {
        Ok(())
    }
}

/// The page that was asked for, or the last events there are.
async fn page(args: &Args, client: &Client) -> Result<EventPage, Failure> {
    let Some(start) = args.after else {
        return last(args, client).await;
    };
    from(start, args.limit.max(1), args, client).await
}

/// The last events of these types: looked for further and further back.
async fn last(args: &Args, client: &Client) -> Result<EventPage, Failure> {
    let newest = EventQuery {
        limit: Some(1),
        ..EventQuery::default()
    };
    let latest = client.events().list(&newest).await?.latest;
    let wanted = args.limit as usize;
    let mut back = u64::from(args.limit);
    loop {
        let start = latest.saturating_sub(back);
        // Of few types far back no more than a window has.
        let most = u32::try_from(latest - start).unwrap_or(u32::MAX).max(1);
        let mut page = from(start.into(), most, args, client).await?;
        let surplus = page.events.len().saturating_sub(wanted);
        if page.events.len() >= wanted || start == 0 || args.types.is_empty() {
            page.events.drain(..surplus);
            return Ok(page);
        }
        back = back.max(FIRST_LOOK).saturating_mul(4);
    }
}

/// Events after a place.
async fn from(
    start: EventPlace,
    limit: u32,
    args: &Args,
    client: &Client,
) -> Result<EventPage, Failure> {
    let page = gather(limit, async |after: Option<u64>, limit| {
        let query = EventQuery {
            after: Some(after.map_or(start, EventPlace::from)),
            limit: Some(limit),
            types: args.types.clone(),
        };
        client.events().list(&query).await
    })
    .await?;
    Ok(page)
}

async fn follow(
    client: &Client,
    after: EventPlace,
    types: Vec<String>,
    screen: &mut Screen,
) -> Result<(), Failure> {
    screen.flush()?;
    let mut events = pin!(client.events().follow_types(Some(after), types));
    loop {
        let event = tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            event = events.next() => event,
        };
        match event {
            Some(event) => print(screen, &event?)?,
            None => return Ok(()),
        }
        screen.flush()?;
    }
}

fn print(screen: &mut Screen, event: &Event) -> std::io::Result<()> {
    if screen.json() {
        return screen.value_line(event);
    }
    screen.line(line(event))
}

fn line(event: &Event) -> String {
    let head = paint(format_args!("{:>6} {}", event.seq, event.at), Tone::Dim);
    let mut text = format!("{head} {}", paint(clean(&event.kind), Tone::Busy));
    for (name, value) in event.members.iter().filter(|(_, value)| !value.is_null()) {
        let value = match value {
            Value::String(text) => brief(text, VALUE_MAX),
            other => brief(&other.to_string(), VALUE_MAX),
        };
        text.push_str(&format!(
            " {}{value}",
            paint(format_args!("{}=", clean(name)), Tone::Dim)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_its_members() {
        let event: Event = serde_json::from_value(serde_json::json!({
            "seq": 7, "at": "2026-01-19T10:00:00.000Z", "type": "TaskClaimed", "task": "t1", "by": "a\u{1b}[2J", "none": null
        }))
        .unwrap();
        let text = anstream::adapter::strip_str(&line(&event)).to_string();
        assert_eq!(
            text,
            "     7 2026-01-19T10:00:00.000Z TaskClaimed by=a\u{fffd}[2J task=t1"
        );
    }
}

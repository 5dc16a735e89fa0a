//! `switchboard inbox`: what waits for a role or came to it, the person's own mailbox, and what waits for a decision.

mod steward;

use std::pin::pin;
use std::time::Duration;

use clap::Args as ClapArgs;
use futures_util::StreamExt;
use serde_json::Value;
use switchboard_client::broker::Broker;
use switchboard_client::jetpack::{EventPlace, EventQuery, MessageQuery, MessageResponse};
use switchboard_core::USER;
use switchboard_wire::squidrun::to_wire::{signed, text};
use switchboard_wire::squidrun::{Roles, Target};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Tone, clean, paint};
use crate::show::{age, now};

/// Show the messages of a role, read your own, or list what waits for your decision
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
With --role it only looks: nothing counts as delivered. With --user it is your own mailbox: what it prints is
delivered, and --follow waits for more until Ctrl-C, also while the hub is restarted. With --steward it lists jobs that are
stuck, over a limit or ready for approval, tasks in review, and open incidents, among them overdue acknowledgements.

Examples:
  switchboard inbox --role builder
  switchboard inbox --role builder --follow
  switchboard inbox --user --follow
  switchboard inbox --steward")]
pub struct Args {
    /// Look at the messages to this role [default: SQUIDRUN_ROLE]
    #[arg(long, value_name = "ROLE", conflicts_with = "user")]
    role: Option<String>,
    /// Read the messages to 'user'
    #[arg(long)]
    user: bool,
    /// List what waits for a person's decision, the oldest first
    #[arg(long, conflicts_with_all = ["role", "user", "follow"])]
    steward: bool,
    /// Keep printing messages as they come, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Maximum number of messages to look back
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Address of the broker [default: that of the hub running for this project, else port HM_SEND_PORT or 9900]
    #[arg(long, value_name = "URL", requires = "user")]
    broker: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    if args.steward {
        return steward::run(args.limit, context).await;
    }
    if args.user {
        return read(args.follow, args.broker.as_deref(), context).await;
    }
    let exported = || std::env::var("SQUIDRUN_ROLE").ok();
    let role = args.role.or_else(exported).filter(|role| !role.is_empty());
    match role {
        None => Err(Failure::Usage(
            "whose messages? pass --role ROLE, set SQUIDRUN_ROLE, or read your own with --user"
                .to_owned(),
        )),
        Some(role) => {
            let target = Roles::default().target(&role);
            // One that is not known here may be configured.
            let id = target.map_or(role, |target: Target| target.id().to_string());
            look(&id, args.limit, args.follow, context).await
        }
    }
}

/// Shows what was sent to a role; takes nothing.
async fn look(role: &str, limit: u32, follow: bool, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let screen = &mut context.screen;
    // Before the list, so that nothing falls between the two.
    let newest = EventQuery {
        limit: Some(1),
        ..EventQuery::default()
    };
    let latest = client.events().list(&newest).await?;
    let since = EventPlace {
        epoch: latest.epoch,
        number: latest.latest,
    };
    let query = MessageQuery {
        to: Some(role.to_owned()),
        limit: Some(limit),
        ..MessageQuery::default()
    };
    let mut page = client.messages().list(&query).await?;
    page.messages.reverse();
    if screen.json() && !follow {
        return Ok(screen.value(&page)?);
    }
    for message in &page.messages {
        let found = client.messages().get(&message.id).await?;
        print(screen, role, &found)?;
    }
    if page.messages.is_empty() && !follow && !screen.json() {
        screen.line(format_args!("no messages to {}", clean(role)))?;
    }
    if !follow {
        return Ok(());
    }
    let shown: Vec<String> = page.messages.into_iter().map(|it| it.id).collect();
    let types = vec!["message_sent".to_owned()];
    let mut events = pin!(client.events().follow_types(Some(since), types));
    screen.flush()?;
    loop {
        let event = tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            event = events.next() => event,
        };
        let Some(event) = event.transpose()? else {
            return Ok(());
        };
        let member = |name: &str| event.members.get(name);
        let several = member("toSeveral").and_then(Value::as_array);
        let is_one = member("to").and_then(Value::as_str) == Some(role);
        let is_its = is_one || several.is_some_and(|list| list.iter().any(|id| *id == *role));
        let Some(id) = member("message").and_then(Value::as_str) else {
            continue;
        };
        if is_its && !shown.iter().any(|known| known == id) {
            print(screen, role, &client.messages().get(id).await?)?;
            screen.flush()?;
        }
    }
}

fn print(screen: &mut Screen, role: &str, found: &MessageResponse) -> std::io::Result<()> {
    let message = &found.message;
    if screen.json() {
        return screen.value_line(found);
    }
    let its = found.deliveries.iter().find(|it| it.agent_id == role);
    let state = its.map_or("", |it| it.state.as_str());
    let text = text(message.payload.get());
    screen.line(format_args!(
        "{} {} {} {}",
        paint(age(message.created_at, now()), Tone::Dim),
        clean(&message.from),
        paint(state, Tone::Dim),
        clean(&text)
    ))
}

/// The person's own mailbox: what is printed is delivered. Who follows waits for a hub that went away.
async fn read(follow: bool, at: Option<&str>, context: &mut Context) -> Result<(), Failure> {
    let mut broker = Broker::connect(&context.broker(at, USER)?).await?;
    loop {
        let quiet = async {
            match follow {
                true => std::future::pending().await,
                false => tokio::time::sleep(QUIET).await,
            }
        };
        let frame = tokio::select! {
            _ = tokio::signal::ctrl_c() => break,
            () = quiet => break,
            frame = broker.next() => frame,
        };
        let Some(frame) = frame else {
            if !follow {
                return Err(Failure::Failed("the hub closed the connection".to_owned()));
            }
            eprintln!("the hub closed the connection; waiting for it (Ctrl-C ends this)");
            broker = tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(()),
                broker = connect_again(at, context) => broker,
            };
            continue;
        };
        if frame["type"] != "message" && frame["type"] != "broadcast" {
            continue;
        }
        let screen = &mut context.screen;
        if screen.json() {
            screen.value_line(&frame)?;
        } else {
            let word = |name: &str| frame[name].as_str().unwrap_or_default();
            screen.line(clean(&signed(word("from"), word("content"))))?;
        }
        screen.flush()?;
    }
    broker.close().await;
    Ok(())
}

async fn connect_again(named: Option<&str>, context: &Context) -> Broker {
    loop {
        tokio::time::sleep(RETRY_AFTER).await;
        // A hub that came back may have another port.
        if let Ok(at) = context.broker(named, USER)
            && let Ok(broker) = Broker::connect(&at).await
        {
            return broker;
        }
    }
}

/// What waits has come by then.
const QUIET: Duration = Duration::from_millis(700);
const RETRY_AFTER: Duration = Duration::from_secs(1);

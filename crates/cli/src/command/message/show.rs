//! `switchboard message show`: one message, and how far it got with each recipient.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::Priority;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{delivery, instant, maybe, now, priority, recipients};

/// Show one message and its deliveries
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard message show msg_01J9Z3")]
pub struct Args {
    /// The message's id
    message: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let answer = context.client()?.messages().get(&args.message).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let now = now();
    let message = &answer.message;
    let mut facts = Table::facts();
    facts.fact("id", cell(&message.id));
    facts.fact("from", cell(&message.from));
    facts.fact("to", cell(recipients(message.to.as_ref())));
    facts.fact("type", cell(&message.kind));
    facts.fact("created", instant(message.created_at, now));
    facts.fact("expires", message.expires_at.map(|at| instant(at, now)));
    facts.fact(
        "wants ack",
        cell(if message.ack_required { "yes" } else { "no" }),
    );
    facts.fact("payload", cell(message.payload.get()));
    screen.table(&facts)?;
    screen.line("")?;
    let mut table = Table::new(
        [
            "AGENT",
            "STATE",
            "PRIORITY",
            "VIA",
            "DELIVERED",
            "ACKNOWLEDGED",
            "REASON",
        ],
        "no recipients",
    );
    for one in &answer.deliveries {
        table.row([
            cell(&one.agent_id),
            delivery(one.state),
            priority(one.priority.unwrap_or(Priority::Medium)),
            cell(one.via.as_deref().unwrap_or_default()),
            maybe(one.delivered_at),
            maybe(one.acknowledged_at),
            cell(one.reason.as_deref().unwrap_or_default()),
        ]);
    }
    Ok(screen.table(&table)?)
}

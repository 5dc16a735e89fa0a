//! `switchboard message show`: one message, and how far it got with each recipient.

use clap::Args as ClapArgs;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};
use crate::show::{delivery, instant, maybe, now};

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
    facts.fact("to", cell(message.to.as_deref().unwrap_or("all")));
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
        ["AGENT", "STATE", "DELIVERED", "ACKNOWLEDGED"],
        "no recipients",
    );
    for one in &answer.deliveries {
        table.row([
            cell(&one.agent_id),
            delivery(one.state),
            maybe(one.delivered_at),
            maybe(one.acknowledged_at),
        ]);
    }
    Ok(screen.table(&table)?)
}

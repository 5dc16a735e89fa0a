//! `switchboard bus tail`: what goes over the bus, as it happens.

use std::io;

use clap::Args as ClapArgs;
use clap::builder::TypedValueParser;
use switchboard_client::bus::{
    BusError, Frame, Operator, OperatorConfig, OperatorEvent, OperatorEvents, Way,
};
use switchboard_hub::bus::authority::Role;
use switchboard_wire::agentbus::envelope;
use switchboard_wire::agentbus::message::{Message as _, MessageType};
use tokio::time::Instant;

use super::call::{FRESH_FOR, IMPATIENT, maybe_unknown, operator_id};
use super::failed::{failed, trying_again};
use super::reach::{Door, Reach, VISIT_FOR, Visitor};
use super::show;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Tone, clean, paint};
use crate::show::time;

/// Show what goes over the bus, as it happens
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Connects as an operator and reconnects after every disconnect, until Ctrl-C. With --json each frame is printed unchanged.

Examples:
  switchboard bus tail
  switchboard bus tail --types worker_error,heartbeat --worker worker-3
  switchboard bus tail --json | jq -c 'select(.message_type == \"worker_error.v1\") | .payload.error'")]
pub struct Args {
    /// Only messages of these types, such as heartbeat or worker_error
    #[arg(long, short, value_name = "TYPE", value_delimiter = ',', value_parser = message_type())]
    types: Vec<MessageType>,
    /// Only messages from this worker
    #[arg(long, short, value_name = "ID")]
    worker: Option<String>,
    #[command(flatten)]
    door: Door,
}

/// The types by their names, with or without the version.
fn message_type() -> impl TypedValueParser<Value = MessageType> {
    clap::builder::StringValueParser::new().try_map(|given| {
        let full = if given.contains('.') {
            given
        } else {
            format!("{given}.v1")
        };
        full.parse::<MessageType>()
    })
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let id = args.door.id(operator_id);
    let visitor = Visitor {
        id: &id,
        role: Role::Operator,
        lasts: VISIT_FOR,
    };
    let reach = args.door.reach(context, &visitor)?;
    let config = OperatorConfig {
        tls: reach.tls.clone(),
        credential: reach.credential.clone(),
        backoff: IMPATIENT,
        show_lines: context.screen.json(),
        ..OperatorConfig::new(&reach.addr, &id)
    };
    let (operator, mut events) =
        Operator::connect(config).map_err(|error| failed(&error, &reach))?;
    let mut tail = Tail {
        types: args.types,
        worker: args.worker,
        began: Instant::now(),
        reach,
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        ended = tail.follow(&mut events, &mut context.screen) => ended?,
    }
    operator.close().await;
    Ok(())
}

struct Tail {
    types: Vec<MessageType>,
    worker: Option<String>,
    began: Instant,
    reach: Reach,
}

impl Tail {
    async fn follow(
        &mut self,
        events: &mut OperatorEvents,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        while let Some(event) = events.recv().await {
            match event {
                OperatorEvent::Ended(error) => return Err(failed(&error, &self.reach)),
                OperatorEvent::Line { way, text } => self.raw(way, &text, screen)?,
                // As JSON, the lines say it all.
                _ if screen.json() => {}
                OperatorEvent::Connected(welcome) => {
                    let run = clean(&welcome.director.run_id).into_owned();
                    let text = format!("connected to {}, {run}", self.reach.addr);
                    screen.line(format!("{} {}", time(), paint(text, Tone::Good)))?;
                }
                OperatorEvent::Disconnected { error, .. } => self.lost(&error, screen)?,
                OperatorEvent::Frame(frame) => {
                    if self.wants_frame(&frame) {
                        screen.line(show::line(&frame))?;
                    }
                }
            }
            screen.flush()?;
        }
        Ok(())
    }

    fn lost(&self, error: &BusError, screen: &mut Screen) -> io::Result<()> {
        let fresh = self.reach.may_be_new() && self.began.elapsed() < FRESH_FOR;
        if fresh && maybe_unknown(error) {
            return Ok(());
        }
        let text = trying_again(error, &self.reach);
        screen.line(format!("{} {}", time(), paint(text, Tone::Warn)))
    }

    fn wants_frame(&self, frame: &Frame) -> bool {
        self.wants(Some(frame.message.message_type()), &frame.from.id)
    }

    fn wants(&self, message_type: Option<MessageType>, sender: &str) -> bool {
        let typed = self.types.is_empty()
            || message_type.is_some_and(|message_type| self.types.contains(&message_type));
        typed && self.worker.as_deref().is_none_or(|worker| worker == sender)
    }

    /// A frame as it came; what is no frame is not shown.
    fn raw(&self, way: Way, text: &str, screen: &mut Screen) -> io::Result<()> {
        let Ok(envelope) = envelope::decode(text.as_bytes()) else {
            return Ok(());
        };
        let message_type = envelope.message_type.parse().ok();
        if way == Way::Received && self.wants(message_type, &envelope.sender.id) {
            screen.line(text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn types_are_named_with_or_without_their_version() {
        let args = |line: &str| {
            let words = std::iter::once("x").chain(line.split_whitespace());
            Line::try_parse_from(words).map(|line| line.args.types)
        };
        assert_eq!(
            args("--types heartbeat,worker_error.v1").unwrap(),
            [MessageType::Heartbeat, MessageType::WorkerError]
        );
        let wrong = args("--types hartbeat").unwrap_err().to_string();
        assert!(wrong.contains("heartbeat.v1"), "{wrong}");
    }
}

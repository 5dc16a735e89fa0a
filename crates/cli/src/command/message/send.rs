//! `switchboard message send`: a person's word to one agent, to several, or to all.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{NewMessage, Priority, SendMessageRequest};
use switchboard_core::STEWARD;
use switchboard_wire::{Json, Recipients};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;
use crate::words::one_of;

/// Send a message to one agent, to several, or to all
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
TEXT is sent as {\"text\": \"…\"}; --payload sends the JSON unchanged.

Examples:
  switchboard message send 'Please rebase' --to builder-1 --to builder-2
  switchboard message send 'The API changed, see docs/api.md'
  switchboard message send --payload '{\"taskId\":\"t1\"}' --type info.discovery --ack")]
pub struct Args {
    /// The text to send
    #[arg(required_unless_present = "payload")]
    text: Option<String>,
    /// JSON to send instead of a text
    #[arg(long, value_name = "JSON", conflicts_with = "text")]
    payload: Option<String>,
    /// A recipient; may be given several times [default: all agents]
    #[arg(long, short, value_name = "AGENT")]
    to: Vec<String>,
    /// The sender
    #[arg(long, value_name = "AGENT", default_value = STEWARD)]
    from: String,
    /// Its type: 'custom' or a dotted name such as task.help_needed
    #[arg(long = "type", value_name = "TYPE", default_value = "custom")]
    kind: String,
    /// How urgent it is; connections get the most urgent first
    #[arg(long, short, value_parser = one_of::<Priority>(Priority::WORDS))]
    priority: Option<Priority>,
    /// Ask for an acknowledgement
    #[arg(long)]
    ack: bool,
    /// Seconds after which it is no longer delivered
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    expires: Option<u32>,
}

pub async fn run(mut args: Args, context: &mut Context) -> Result<(), Failure> {
    let payload = match (args.payload, args.text) {
        (Some(json), _) => Json::from_text(json)
            .map_err(|error| Failure::Usage(format!("--payload is not valid JSON: {error}")))?,
        (None, text) => Json::from(serde_json::json!({ "text": text })),
    };
    let to = match args.to.len() {
        0 => None,
        1 => args.to.pop().map(Recipients::One),
        _ => Some(Recipients::Several(args.to)),
    };
    let message = NewMessage {
        to: to.clone(),
        kind: args.kind,
        payload,
        ack_required: args.ack.then_some(true),
        priority: args.priority,
        expires_in: args.expires.map(|seconds| i64::from(seconds) * 1000),
        ..NewMessage::default()
    };
    let request = SendMessageRequest {
        agent_id: args.from,
        message,
    };
    let answer = context.client()?.messages().send(&request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let to = match (to, answer.recipients) {
        (Some(named), _) => clean(&named.to_string()).into_owned(),
        (None, 1) => "1 agent".to_owned(),
        (None, count) => format!("{count} agents"),
    };
    Ok(screen.line(format_args!(
        "message {} goes to {to}",
        clean(&answer.message_id)
    ))?)
}

//! `switchboard say`: one message under a role, over the broker or, when that does not answer, by a trigger file.

use std::fs::{self, DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde_json::json;
use switchboard_client::broker::{Ack, BrokerError, Outgoing, send};
use switchboard_wire::squidrun::{CLI, Roles, Target, header, trigger};

use crate::context::Context;
use crate::discover::Found;
use crate::failure::Failure;
use crate::project;
use crate::screen::clean;

/// Send a message to a role, with proof of delivery
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
TARGET is a role (architect, builder, oracle or a configured one), an alias, a pane, or 'user'. TEXT usually begins with
who speaks and a number, '(BUILDER #4): …'; tags such as [ACK REQUIRED], [URGENT], [FYI] and [TASK] come right after it.
If the broker does not answer, the message is left as a file in .squidrun/triggers/ and delivered when the hub runs.

Examples:
  switchboard say architect '(BUILDER #4): [ACK REQUIRED] the migration is ready'
  switchboard say builder '(ARCH #7): [TASK] Fix the login page'
  switchboard say 2 'Please rebase' --from oracle")]
pub struct Args {
    /// Who gets it
    target: String,
    /// The message
    text: String,
    /// Who speaks [default: SQUIDRUN_ROLE, else the role in the header of TEXT, else cli]
    #[arg(long, value_name = "ROLE", env = "SQUIDRUN_ROLE")]
    from: Option<String>,
    /// How urgent it is
    #[arg(long, short, default_value = "normal", value_parser = ["normal", "urgent"])]
    priority: String,
    /// Address of the broker [default: that of the hub running for this project, else port HM_SEND_PORT or 9900]
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// The message's id, to send it again after an unknown outcome [default: a new one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// Below the project.
const FOLDER: &str = ".squidrun";

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    if args.text.trim().is_empty() {
        return Err(Failure::Usage("TEXT is empty".to_owned()));
    }
    let roles = Roles::default();
    let from = args.from.filter(|from| !from.is_empty());
    let from = from.unwrap_or_else(|| speaker(&roles, &args.text));
    let message = Outgoing {
        target: args.target,
        content: args.text,
        priority: args.priority,
        message_id: args.id.unwrap_or_else(fresh_id),
    };
    send_or_leave(from, message, args.broker, context).await
}

pub(super) fn fresh_id() -> String {
    format!("hm-{}", ulid::Ulid::generate())
}

/// Sends it over the broker, or leaves it as a file, and says which.
pub(super) async fn send_or_leave(
    from: String,
    message: Outgoing,
    broker: Option<String>,
    context: &mut Context,
) -> Result<(), Failure> {
    let found = context.find();
    let at = context.broker(broker.as_deref(), &from)?;
    match send(&at, &message).await {
        Ok(ack) => told(&ack, &message, context),
        Err(error @ (BrokerError::Refused(_) | BrokerError::Hub(_))) => Err(error.into()),
        Err(error) => {
            let root = project::around(&context.here);
            // Where no hub ever ran, nobody would find the file.
            if found == Found::Nothing && !root.join(FOLDER).is_dir() {
                return Err(error.into());
            }
            let file = leave(&root, &from, &message, &error)?;
            left(&file, &message, &error, context)
        }
    }
}

/// The role in the text's header.
fn speaker(roles: &Roles, text: &str) -> String {
    let header = header::parse(text);
    let known = header.and_then(|header| roles.by_header(header.role));
    known.map_or_else(|| CLI.to_owned(), |role| role.id.clone())
}

fn told(ack: &Ack, message: &Outgoing, context: &mut Context) -> Result<(), Failure> {
    let target = clean(&message.target).into_owned();
    if !ack.accepted {
        let why = match ack.status.as_str() {
            "invalid_target" => {
                "there is no such role; 'switchboard role list' shows them".to_owned()
            }
            "owner_binding_violation" => {
                "a background agent talks to builder only, and builder and user to it".to_owned()
            }
            "agent_not_running" => {
                "nothing runs in that slot; 'switchboard bg spawn' starts one".to_owned()
            }
            _ => ack.error.clone().unwrap_or_default(),
        };
        let status = clean(&ack.status).into_owned();
        return Err(Failure::Failed(format!(
            "{target} did not get it ({status}): {}",
            clean(&why)
        )));
    }
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(ack)?);
    }
    let line = match ack.verified {
        true => format!("delivered to {target}"),
        false => format!("kept for {target}; nobody has taken it yet"),
    };
    Ok(screen.line(format_args!(
        "{line} ({}, {})",
        clean(&ack.status),
        clean(&message.message_id)
    ))?)
}

/// The way without a broker: a file that overwrites nobody's.
fn leave(
    root: &Path,
    from: &str,
    message: &Outgoing,
    error: &BrokerError,
) -> Result<PathBuf, Failure> {
    let roles = Roles::default();
    let name = match roles.target(&message.target) {
        Some(Target::Role(id)) => id.to_string(),
        Some(Target::Slot { .. } | Target::User | Target::Telegram) => {
            return Err(Failure::NoHub(format!(
                "{error}; a message to {} can only go through a running hub",
                message.target
            )));
        }
        // Perhaps a configured one; the hub will know.
        None => message.target.to_lowercase(),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Failure::Usage(format!(
            "{:?} cannot be a role: only letters, digits, - and _",
            message.target
        )));
    }
    let folder = root.join(FOLDER).join("triggers");
    let id: String = message
        .message_id
        .chars()
        .filter(|c| is_plain(*c))
        .collect();
    let file = folder.join(format!("{name}~{id}.txt"));
    let draft = folder.join(format!(".{id}.part"));
    let content = &message.content;
    // A header says it to every reader of such files.
    let from = Some(from).filter(|from| speaker(&roles, content) != *from);
    let from = from.filter(|from| from.chars().all(is_plain));
    let text = trigger::print(&message.message_id, from, content);
    let mut made = DirBuilder::new();
    let made = made.recursive(true).mode(0o700).create(&folder);
    let written = made.and_then(|()| {
        let mut out = File::create(&draft)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&draft, &file)
    });
    match written {
        Ok(()) => Ok(file),
        Err(unwritten) => Err(Failure::NoHub(format!(
            "{error}; nor can {} be written: {unwritten}",
            file.display()
        ))),
    }
}

fn left(
    file: &Path,
    message: &Outgoing,
    error: &BrokerError,
    context: &mut Context,
) -> Result<(), Failure> {
    let screen = &mut context.screen;
    if screen.json() {
        let told = json!({
            "messageId": message.message_id,
            "accepted": false,
            "status": "fallback.triggered",
            "file": file,
        });
        return Ok(screen.value(&told)?);
    }
    Ok(screen.line(format_args!(
        "{error}; the message waits in {} (fallback.triggered) and is delivered once a hub runs here",
        file.display()
    ))?)
}

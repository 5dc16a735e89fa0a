//! `switchboard role run`: a role's program in this terminal, with the role's messages typed into it.

use std::ffi::OsString;

use clap::Args as ClapArgs;
use switchboard_child::Program;
use switchboard_client::broker::{BrokerError, Heard, Receiver};
use switchboard_hub::config::Overrides;
use switchboard_wire::squidrun::{Role, Roles, Target};

use super::pane;
use crate::context::Context;
use crate::discover::Found;
use crate::failure::Failure;
use crate::project;
use crate::screen::{Tone, clean, paint};

/// Run a role's program in this terminal, and type its messages into it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Starts COMMAND, else the command of the role in switchboard.toml ([squidrun.roles.<name>] command), with SQUIDRUN_ROLE
and SQUIDRUN_PANE_ID in its environment, once the hub has registered the role. Messages to the role are typed when you
have not typed for 2 seconds, or after 30 seconds at the latest; the sender sees delivered.verified. A message that asks
for an acknowledgement is left to the program to acknowledge. What the program prints stays in this terminal.

If the hub goes away, the program goes on, and the role reconnects. The exit code is that of the program.

Examples:
  switchboard role run builder -- claude
  switchboard role run architect
  switchboard role run reviewer --broker ws://127.0.0.1:9900 -- my-agent --verbose")]
pub struct Args {
    /// The role, by its name, an alias or its pane
    role: String,
    /// Address of the broker [default: that of the hub running for this project, else port HM_SEND_PORT]
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// The program and its arguments [default: the role's command in switchboard.toml]
    #[arg(last = true)]
    command: Vec<OsString>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let loaded = project::load(&context.here, None, Overrides::default());
    let config = loaded.map_err(|error| Failure::Failed(error.to_string()))?;
    let role = named(&config.config.broker.roles, &args.role)?;
    let program = program(role, args.command)?
        .env("SQUIDRUN_ROLE", &role.id)
        .env("SQUIDRUN_PANE_ID", &role.pane);
    if args.broker.is_none()
        && context.options.url.is_none()
        && let Found::Running { hub, .. } = context.find()
        && hub.broker_url().is_none()
    {
        return Err(Failure::Failed(
            "the broker of this project's hub is off; restart the hub with [broker] listen set, or without --broker off".to_owned(),
        ));
    }
    let own = Context::new(context.options.clone())?;
    let (id, named) = (role.id.clone(), args.broker);
    // Another project's hub may listen on the usual port.
    let find = move || own.known_broker(named.as_deref(), &id);
    // What is wrong with the options is said at once.
    find()?;
    let mut hub = Receiver::connect(move || find().ok()?);
    wait_for(&mut hub, role).await?;
    let ended = pane::run(&program, hub).await.map_err(|error| {
        let name = program.argv[0].to_string_lossy();
        Failure::Failed(format!("{} cannot be run: {error}", clean(&name)))
    })?;
    if ended.untyped > 0 {
        anstream::eprintln!(
            "{} {} for {} arrived and could not be typed any more; 'switchboard inbox --role {}' shows what was sent",
            paint("warning:", Tone::Warn),
            match ended.untyped {
                1 => "1 message".to_owned(),
                many => format!("{many} messages"),
            },
            role.id,
            role.id
        );
    }
    match ended.code {
        0 => Ok(()),
        code => Err(Failure::Program(code)),
    }
}

fn named<'a>(roles: &'a Roles, word: &str) -> Result<&'a Role, Failure> {
    let id = match roles.target(word) {
        Some(Target::Role(id)) => id,
        Some(Target::Slot { .. }) => {
            return Err(Failure::Usage(format!(
                "{word} is a background slot, which the hub runs for builder: 'switchboard bg spawn'"
            )));
        }
        Some(Target::User | Target::Telegram) => {
            return Err(Failure::Usage(format!(
                "{word} is a person, not a role; 'switchboard inbox --user --follow' reads your messages"
            )));
        }
        None => {
            let known: Vec<&str> = roles.ids().map(|id| id.as_str()).collect();
            return Err(Failure::Usage(format!(
                "there is no role '{word}', only {}; add it to switchboard.toml as [squidrun.roles.NAME] with pane = \"4\"",
                known.join(", ")
            )));
        }
    };
    let found = roles.iter().find(|role| role.id == id.as_str());
    found.ok_or_else(|| Failure::Failed(format!("the role {id} is not known")))
}

fn program(role: &Role, given: Vec<OsString>) -> Result<Program, Failure> {
    if !given.is_empty() {
        return Ok(Program::new(given));
    }
    let Some(command) = &role.command else {
        return Err(Failure::Usage(format!(
            "no command is set for the role {}: pass one, 'switchboard role run {} -- COMMAND', or set it in switchboard.toml as [squidrun.roles.{}] with command = \"…\"",
            role.id, role.id, role.id
        )));
    };
    Program::parse(command).ok_or_else(|| {
        Failure::Failed(format!(
            "the command of the role {} in switchboard.toml is no command line: {command}",
            role.id
        ))
    })
}

/// The program begins once the role is registered: the session, the journal and the handoff are there by then.
async fn wait_for(hub: &mut Receiver, role: &Role) -> Result<(), Failure> {
    let mut is_told = false;
    loop {
        match hub.next().await {
            Heard::Registered { pane: Some(_) } => return Ok(()),
            Heard::Registered { pane: None } => {
                return Err(Failure::Failed(format!(
                    "the hub does not know the role {}; restart it, so that it reads switchboard.toml again",
                    role.id
                )));
            }
            Heard::Lost(error @ (BrokerError::Refused(_) | BrokerError::Hub(_))) => {
                return Err(error.into());
            }
            Heard::Lost(error) if !is_told => {
                is_told = true;
                anstream::eprintln!(
                    "{error}; waiting for one, start it with 'switchboard up' (Ctrl-C stops waiting)"
                );
            }
            Heard::Lost(_) | Heard::Message(_) => {}
        }
    }
}

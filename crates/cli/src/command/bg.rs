//! `switchboard bg …`: Builder's background agents, over the broker and as Builder.

use clap::{Args as ClapArgs, Subcommand};
use serde_json::{Value, json};
use switchboard_client::broker::Broker;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell, clean};

pub const EXAMPLES: &str = "\
A background agent is a program that the hub runs for builder in a terminal of its own: at most three, as builder-bg-1 to
3. Which program, [squidrun.background] in switchboard.toml says. What is said to one is typed into its terminal.

Examples:
  switchboard bg spawn
  switchboard say builder-bg-1 '(BUILDER #3): fix the failing test' --from builder
  switchboard bg show 1
  switchboard bg kill 1";

/// Commands about background agents.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a background agent
    #[command(after_help = "Examples:\n  switchboard bg spawn\n  switchboard bg spawn 2 --json")]
    Spawn {
        /// The slot, 1 to 3 [default: the first that is free]
        slot: Option<String>,
        #[command(flatten)]
        at: At,
    },
    /// List background agents that run
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  switchboard bg list\n  switchboard bg list --json"
    )]
    List(At),
    /// End a background agent, and everything that it started
    #[command(
        after_help = "Examples:\n  switchboard bg kill 1\n  switchboard bg kill builder-bg-2"
    )]
    Kill {
        /// Its slot, name or pane
        agent: String,
        #[command(flatten)]
        at: At,
    },
    /// End all background agents
    #[command(after_help = "Examples:\n  switchboard bg kill-all")]
    KillAll(At),
    /// Show the names and panes of the slots
    #[command(after_help = "Examples:\n  switchboard bg map\n  switchboard bg map --json")]
    Map(At),
    /// Show the end of what a background agent printed
    #[command(after_help = "Examples:\n  switchboard bg show 1")]
    Show {
        /// Its slot, name or pane
        agent: String,
        #[command(flatten)]
        at: At,
    },
}

#[derive(Debug, ClapArgs)]
pub struct At {
    /// Address of the broker [default: that of the hub running for this project, else port HM_SEND_PORT or 9900]
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let (action, slot, at) = match self {
            Command::Spawn { slot, at } => ("spawn", slot, at),
            Command::List(at) => ("list", None, at),
            Command::Kill { agent, at } => ("kill", Some(agent), at),
            Command::KillAll(at) => ("kill-all", None, at),
            Command::Map(at) => ("target-map", None, at),
            Command::Show { agent, at } => ("show", Some(agent), at),
        };
        let answer = ask(action, slot, at, context).await?;
        if answer["ok"] != true {
            return Err(Failure::Failed(why(action, &answer)));
        }
        let screen = &mut context.screen;
        if screen.json() {
            return Ok(screen.value(&answer)?);
        }
        let word = |name: &str| clean(answer[name].as_str().unwrap_or_default()).into_owned();
        match action {
            "spawn" => screen.line(format!("{} runs {}", word("alias"), word("command")))?,
            "kill" => screen.line(format!("{} ended", word("alias")))?,
            "kill-all" => screen.line(format!("{} ended", answer["killed"]))?,
            "show" => {
                let output = answer["output"].as_str().unwrap_or_default();
                for line in output.lines() {
                    screen.line(clean(line))?;
                }
            }
            "target-map" => screen.table(&panes(&answer["targetMap"]))?,
            _ => screen.table(&agents(&answer["agents"]))?,
        }
        Ok(())
    }
}

async fn ask(
    action: &str,
    slot: Option<String>,
    at: At,
    context: &Context,
) -> Result<Value, Failure> {
    let address = context.broker(at.broker.as_deref(), "builder")?;
    let frame =
        json!({ "type": "background-agent", "action": action, "payload": { "slot": slot } });
    let mut broker = Broker::connect(&address).await?;
    let answer = broker.ask(frame).await;
    broker.close().await;
    Ok(answer?)
}

fn why(action: &str, answer: &Value) -> String {
    let reason = answer["reason"].as_str().unwrap_or_default();
    let next = match reason {
        "capacity_reached" => "all three slots are in use; end one with 'switchboard bg kill'",
        "slot_unavailable" => {
            "the slot is in use, or there is none; 'switchboard bg list' shows them"
        }
        "no_command" => "set command in [squidrun.background] of switchboard.toml",
        "not_running" => "nothing runs there; 'switchboard bg list' shows what does",
        "invalid_target" => "name a slot: 1, 2 or 3",
        _ => answer["error"].as_str().unwrap_or("see the hub's log"),
    };
    format!("{action} was refused ({}): {}", clean(reason), clean(next))
}

fn agents(list: &Value) -> Table {
    let titles = ["AGENT", "PANE", "STATUS", "COMMAND"];
    let mut table = Table::new(
        titles,
        "no background agents; start one with 'switchboard bg spawn'",
    );
    for agent in list.as_array().into_iter().flatten() {
        let members = ["alias", "paneId", "status", "command"];
        table.row(members.map(|name| cell(clean(agent[name].as_str().unwrap_or_default()))));
    }
    table
}

fn panes(map: &Value) -> Table {
    let mut table = Table::new(["AGENT", "PANE"], "no slots");
    for (pane, alias) in map["paneToAlias"].as_object().into_iter().flatten() {
        table.row([
            cell(clean(alias.as_str().unwrap_or_default())),
            cell(clean(pane)),
        ]);
    }
    table
}

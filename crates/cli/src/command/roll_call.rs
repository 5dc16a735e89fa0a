//! `switchboard roll-call`: asks every role for its status, and says who did not answer.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use switchboard_client::broker::{Outgoing, send};
use switchboard_client::jetpack::MessageQuery;
use switchboard_core::{AgentId, USER};
use switchboard_wire::squidrun::to_wire::text;
use tokio::time::Instant;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, brief, cell, toned};

/// Ask every role for its status and show who answers
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Roles answer with a message to 'user', for example: switchboard say user '(BUILDER #2): tests are green'
The exit code is 1 if somebody did not answer.

Examples:
  switchboard roll-call
  switchboard roll-call --wait 120")]
pub struct Args {
    /// Seconds to wait for answers
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait: u64,
    /// Address of the broker [default: that of the hub running for this project, else port HM_SEND_PORT or 9900]
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
}

const QUESTION: &str = "Roll call. Report status to user.";
/// How often it looks for answers, and how many messages back.
const LOOK_EVERY: Duration = Duration::from_millis(300);
const ANSWERS_MAX: u32 = 200;
/// Characters of an answer in a line.
const SHOWN: usize = 80;

/// What is known of one role.
struct Asked {
    status: String,
    answer: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let roles = context.client()?.roles().await?.roles;
    let at = context.broker(args.broker.as_deref(), USER)?;
    let client = context.client()?;
    // By the hub's clock, as messages are.
    let since = client.admin().status().await?.now;
    let mut asked: BTreeMap<String, Asked> = BTreeMap::new();
    for role in roles
        .iter()
        .filter(|role| !AgentId::from(&*role.target).is_slot())
    {
        let question = Outgoing {
            target: role.target.clone(),
            content: QUESTION.to_owned(),
            priority: "normal".to_owned(),
            message_id: format!("hm-{}", ulid::Ulid::generate()),
        };
        let status = match send(&at, &question).await {
            Ok(ack) => ack.status,
            Err(error) => error.to_string(),
        };
        let answer = None;
        asked.insert(role.target.clone(), Asked { status, answer });
    }
    let until = Instant::now() + Duration::from_secs(args.wait);
    while asked.values().any(|role| role.answer.is_none()) {
        if Instant::now() >= until {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        // Looks and takes nothing: the answers stay for 'inbox --user'.
        let query = MessageQuery {
            to: Some(USER.to_owned()),
            limit: Some(ANSWERS_MAX),
            ..MessageQuery::default()
        };
        let found = client.messages().list(&query).await?.messages;
        for message in found.iter().filter(|it| it.created_at >= since) {
            if let Some(role) = asked.get_mut(&message.from) {
                role.answer = Some(text(message.payload.get()));
            }
        }
    }
    report(&asked, context)
}

fn report(asked: &BTreeMap<String, Asked>, context: &mut Context) -> Result<(), Failure> {
    let silent = asked.values().filter(|role| role.answer.is_none()).count();
    let screen = &mut context.screen;
    if screen.json() {
        let one = |(target, role): (&String, &Asked)| -> Value {
            json!({ "target": target, "status": role.status, "answer": role.answer })
        };
        let roles: Vec<Value> = asked.iter().map(one).collect();
        screen.value(&json!({ "success": silent == 0, "roles": roles }))?;
    } else {
        let mut table = Table::new(["TARGET", "DELIVERY", "ANSWER"], "no roles");
        for (target, role) in asked {
            let answer = match &role.answer {
                Some(text) => cell(brief(text, SHOWN)),
                None => toned("no answer", Tone::Warn),
            };
            table.row([cell(target), cell(&role.status), answer]);
        }
        screen.table(&table)?;
    }
    match silent {
        0 => Ok(()),
        1 => Err(Failure::Failed("one role did not answer".to_owned())),
        count => Err(Failure::Failed(format!("{count} roles did not answer"))),
    }
}

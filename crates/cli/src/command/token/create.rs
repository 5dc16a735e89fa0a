//! `switchboard token create`: a token, whose secret is shown once.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{NewTokenRequest, Scope, Token};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, clean, paint};
use crate::words::one_of;

/// Create a token and print its secret once
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Only a steward can create tokens. With auth = \"hmac\", anyone who can read the key file in the hub's data directory is one.
Scopes: steward may do everything, viewer reads, operator watches the bus and sends it commands, agent acts as one agent,
node is another gateway. sql may read and write the public tables as any agent, and nothing else; sql:steward may also
cancel tasks, decide reviews, set the baseline and send messages as a person, through SQL.

Examples:
  switchboard token create alice
  switchboard token create --scope agent --agent worker-3
  switchboard token create --scope sql        (for libSQL's clients: prints JETPACK_DB_URL and JETPACK_DB_TOKEN)
  export SWITCHBOARD_TOKEN=$(switchboard token create ci --scope viewer --json | jq -r .token.secret)
SWITCHBOARD_TOKEN is sent only to the hub given by --url or SWITCHBOARD_URL.")]
pub struct Args {
    /// A name for the list of tokens [default: its scope]
    name: Option<String>,
    /// Its permissions
    #[arg(long, short, default_value = "steward", value_parser = one_of::<Scope>(Scope::WORDS))]
    scope: Scope,
    /// The agent that a token of scope agent is for
    #[arg(long, value_name = "ID", required_if_eq("scope", "agent"))]
    agent: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = NewTokenRequest {
        name: args.name.unwrap_or_else(|| args.scope.to_string()),
        scope: args.scope,
        agent_id: args.agent,
    };
    let client = context.client()?;
    let answer = client.admin().create_token(&request).await?;
    if context.screen.json() {
        return Ok(context.screen.value(&answer)?);
    }
    let way = context.elsewhere(&client);
    let screen = &mut context.screen;
    let token = &answer.token;
    screen.line(format_args!(
        "token {} for {} may act as {}{}:",
        clean(&token.id),
        clean(&token.name),
        token.scope,
        of_agent(token)
    ))?;
    screen.line("")?;
    let secret = clean(token.secret.as_deref().unwrap_or_default());
    match token.scope {
        Scope::Sql | Scope::SqlSteward => {
            screen.line(format_args!("  export JETPACK_DB_URL={}", way.url))?;
            screen.line(format_args!("  export JETPACK_DB_TOKEN={secret}"))?;
        }
        Scope::Steward | Scope::Viewer | Scope::Node | Scope::Agent | Scope::Operator => {
            way.print(screen)?;
            screen.line(format_args!("  export SWITCHBOARD_TOKEN={secret}"))?;
        }
    }
    screen.line("")?;
    Ok(screen.line(paint(
        "Save the secret now: it is not stored and cannot be shown again.",
        Tone::Warn,
    ))?)
}

/// The agent that it is for, if it is for one.
pub fn of_agent(token: &Token) -> String {
    let agent = token.agent_id.as_deref();
    agent.map_or(String::new(), |agent| format!(" {}", clean(agent)))
}

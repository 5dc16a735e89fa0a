//! `switchboard token create`: a token, whose secret is shown once.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{NewTokenRequest, Scope, Token};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, clean, paint};
use crate::words::one_of;

/// Make a token and print its secret once
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Only a steward makes tokens: under auth = \"hmac\" whoever can read the key file in the hub's data directory is one.
Scopes: steward decides and steers, viewer reads, operator watches the bus and gives its orders, agent acts as one agent,
node is another gateway. sql opens the public tables and nothing else, to read and to write as any agent; sql:steward
also cancels, rules on reviews, sets the baseline and sends as a person there.

Examples:
  switchboard token create alice
  switchboard token create --scope agent --agent worker-3
  switchboard token create --scope sql        (for libSQL's clients: prints JETPACK_DB_URL and JETPACK_DB_TOKEN)
  export SWITCHBOARD_TOKEN=$(switchboard token create ci --scope viewer --json | jq -r .token.secret)
The variable is sent only to the hub that --url or SWITCHBOARD_URL names.")]
pub struct Args {
    /// A name to know it by [default: its scope]
    name: Option<String>,
    /// What it may do
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
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
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
            screen.line(format_args!("  export JETPACK_DB_URL={}", client.address()))?;
            screen.line(format_args!("  export JETPACK_DB_TOKEN={secret}"))?;
        }
        Scope::Steward | Scope::Viewer | Scope::Node | Scope::Agent | Scope::Operator => {
            screen.line(format_args!(
                "  export SWITCHBOARD_URL={}",
                client.address()
            ))?;
            screen.line(format_args!("  export SWITCHBOARD_TOKEN={secret}"))?;
        }
    }
    screen.line("")?;
    Ok(screen.line(paint(
        "The secret is not stored and not shown again.",
        Tone::Warn,
    ))?)
}

/// The agent that it is for, if it is for one.
pub fn of_agent(token: &Token) -> String {
    let agent = token.agent_id.as_deref();
    agent.map_or(String::new(), |agent| format!(" {}", clean(agent)))
}

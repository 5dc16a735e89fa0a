//! `switchboard token create`: a token, whose secret is shown once.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{NewTokenRequest, Scope};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, clean, paint};
use crate::words::one_of;

/// Make a token and print its secret once
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Only a steward makes tokens: under auth = \"hmac\" whoever can read the key file in the hub's data directory is one.
Scopes: steward decides and steers, viewer reads, node is another gateway. sql opens the public tables and nothing
else, to read and to write as any agent; sql:steward also cancels, rules on reviews, sets the baseline and sends as a person there.

Examples:
  switchboard token create alice
  switchboard token create --scope sql        (for libSQL's clients: prints JETPACK_DB_URL and JETPACK_DB_TOKEN)
  export SWITCHBOARD_TOKEN=$(switchboard token create ci --scope viewer --json | jq -r .token.secret)")]
pub struct Args {
    /// A name to know it by [default: its scope]
    name: Option<String>,
    /// What it may do
    #[arg(long, short, default_value = "steward", value_parser = one_of::<Scope>(Scope::WORDS))]
    scope: Scope,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = NewTokenRequest {
        name: args.name.unwrap_or_else(|| args.scope.to_string()),
        scope: args.scope,
    };
    let client = context.client()?;
    let answer = client.admin().create_token(&request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let token = &answer.token;
    screen.line(format_args!(
        "token {} for {} may act as {}:",
        clean(&token.id),
        clean(&token.name),
        token.scope
    ))?;
    screen.line("")?;
    let secret = clean(token.secret.as_deref().unwrap_or_default());
    match token.scope {
        Scope::Sql | Scope::SqlSteward => {
            screen.line(format_args!("  export JETPACK_DB_URL={}", client.address()))?;
            screen.line(format_args!("  export JETPACK_DB_TOKEN={secret}"))?;
        }
        Scope::Steward | Scope::Viewer | Scope::Node => {
            screen.line(format_args!("  export SWITCHBOARD_TOKEN={secret}"))?;
        }
    }
    screen.line("")?;
    Ok(screen.line(paint(
        "The secret is not stored and not shown again.",
        Tone::Warn,
    ))?)
}

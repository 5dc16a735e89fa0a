//! `switchboard job validate`: whether a response would be taken. Needs no hub.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;
use switchboard_client::check_response;

use crate::context::Context;
use crate::failure::Failure;
use crate::import;
use crate::screen::clean;

/// Check whether an agent's response is valid
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
It is checked as the hub does: schema, action, evidence, summary; each failure is named. Needs no hub.

Examples:
  switchboard job validate response.json
  my-agent < request.json | switchboard job validate - --workspace . --strict")]
pub struct Args {
    /// What the agent printed; '-' reads stdin
    file: PathBuf,
    /// Look for its evidence in this directory
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Evidence that does not exist is a failure, too [default workspace: the current directory]
    #[arg(long)]
    strict: bool,
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let name = args.file.display();
    let text = import::text(&args.file)
        .map_err(|error| Failure::Failed(format!("{name} cannot be read: {error}")))?;
    let here = args.strict.then(|| context.here.clone());
    let workspace = args.workspace.or(here);
    let errors = check_response(&text, workspace.as_deref(), args.strict);
    let errors = errors.err().unwrap_or_default();
    let screen = &mut context.screen;
    if screen.json() {
        screen.value(&json!({ "valid": errors.is_empty(), "errors": errors }))?;
    } else {
        for error in &errors {
            screen.line(clean(error))?;
        }
        if errors.is_empty() {
            screen.line(format_args!("{name} is valid"))?;
        }
    }
    match errors.len() {
        0 => Ok(()),
        count => Err(Failure::Unhealthy(count)),
    }
}

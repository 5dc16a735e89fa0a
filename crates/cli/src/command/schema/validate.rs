//! `switchboard schema validate`: whether a file is as a schema wants it.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::{Value, json};

use super::show::find;
use crate::context::Context;
use crate::failure::Failure;
use crate::import;
use crate::screen::clean;

/// Check a file against a schema
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A response of an agent is checked in all its layers by 'switchboard job validate'.

Example:
  switchboard schema validate job-manifest job_manifest.json --version 1.0")]
pub struct Args {
    /// llm-chat-schema or job-manifest
    name: String,
    /// The file; '-' reads stdin
    file: PathBuf,
    /// 1.1 or 1.0 [default: the newest]
    #[arg(long)]
    version: Option<String>,
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let schema = find(&args.name, args.version.as_deref())?;
    let name = args.file.display();
    let text = import::text(&args.file)
        .map_err(|error| Failure::Failed(format!("{name} cannot be read: {error}")))?;
    let errors: Vec<String> = match serde_json::from_str::<Value>(&text) {
        Ok(value) => schema
            .faults(&value)
            .iter()
            .map(ToString::to_string)
            .collect(),
        Err(error) => vec![format!("this is no JSON: {error}")],
    };
    let screen = &mut context.screen;
    if screen.json() {
        screen.value(&json!({ "valid": errors.is_empty(), "errors": errors }))?;
    } else {
        for error in &errors {
            screen.line(clean(error))?;
        }
        if errors.is_empty() {
            let version = schema.version;
            screen.line(format_args!(
                "{name} is a {} of version {version}",
                schema.name
            ))?;
        }
    }
    match errors.len() {
        0 => Ok(()),
        count => Err(Failure::Unhealthy(count)),
    }
}

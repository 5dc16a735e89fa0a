//! `switchboard schema show`: a schema, byte for byte.

use clap::Args as ClapArgs;
use switchboard_wire::logist::schemas::Published;

use crate::context::Context;
use crate::failure::Failure;

/// Print a schema, as it is published
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard schema show llm-chat-schema --version 1.0")]
pub struct Args {
    /// llm-chat-schema or job-manifest
    name: String,
    /// 1.1 or 1.0 [default: the newest]
    #[arg(long)]
    version: Option<String>,
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let found = find(&args.name, args.version.as_deref())?;
    Ok(context.screen.line(found.text.trim_end())?)
}

/// A schema that a person names.
pub fn find(name: &str, version: Option<&str>) -> Result<&'static Published, Failure> {
    Published::find(name, version).map_err(|why| Failure::Usage(why.to_string()))
}

//! `switchboard schema migrate`: an older file as this version writes it.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use switchboard_wire::logist::files::migrate;

use crate::context::Context;
use crate::failure::Failure;
use crate::import;
use crate::screen::clean;

/// Print a manifest, a history or an index of an older version as the newest has it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The hub reads both versions by itself; this is for files that other programs read. What is new already stays as it is, and
versions older than 1.0 are refused.

Examples:
  switchboard schema migrate jobHistory.json
  switchboard schema migrate job_manifest.json --write")]
pub struct Args {
    /// The file; '-' reads stdin
    file: PathBuf,
    /// Replace the file
    #[arg(long)]
    write: bool,
    /// The job of a history that does not name it [default: the name of the file's directory]
    #[arg(long, value_name = "ID")]
    job: Option<String>,
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let name = args.file.display();
    let failed =
        |what: &str, why: &dyn std::fmt::Display| Failure::Failed(format!("{name} {what}: {why}"));
    let text = import::text(&args.file).map_err(|error| failed("cannot be read", &error))?;
    let file = context.here.join(&args.file);
    let around = file.parent().and_then(Path::file_name);
    let around = around.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let job = args.job.unwrap_or(around);
    let new = migrate(text.as_bytes(), &job).map_err(|why| failed("cannot be migrated", &why))?;
    let new = serde_json::to_string_pretty(&new).map_err(std::io::Error::from)?;
    if !args.write {
        return Ok(context.screen.line(clean(&new))?);
    }
    // Whoever reads it meanwhile has the old or the new one, and never a part.
    let beside = file.with_extension("json.new");
    fs::write(&beside, new + "\n")
        .and_then(|()| fs::rename(&beside, &file))
        .map_err(|error| failed("cannot be written", &error))?;
    Ok(context
        .screen
        .line(format_args!("{name} is of the newest version"))?)
}

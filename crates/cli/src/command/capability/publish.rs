//! `switchboard capability publish`: a version of a capability, through its gates.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::Value;

use super::gates;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Publish a version of a capability
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The manifest is a catalog record, as 'switchboard capability show --json' prints it, with 'provenance' if it is signed:
capabilityId, name, version, ownerAgentId, delegationSkillRef, executorSkillRef (name, version), defaultEtaSeconds,
contractSchemaRef or contractSchema, eligibleAgentIds, fallbackNodeIds. If a gate does not let it pass, the version before
stays in use; 'switchboard capability show' has what each of them said.

Examples:
  switchboard capability publish diff-apply.json
  switchboard capability publish diff-apply.json --json | jq '.gates[]'")]
pub struct Args {
    /// File with the manifest
    #[arg(value_name = "FILE")]
    manifest: PathBuf,
}

/// The largest manifest that a hub reads.
const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let manifest = read(&args.manifest)?;
    let answer = client.capabilities().publish(&manifest).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let catalog = &answer.capability.catalog;
    let (id, version) = (clean(&catalog.capability_id), clean(&catalog.version));
    if answer.gates.is_empty() {
        return Ok(screen.line(format_args!("{id} {version} is in use already"))?);
    }
    screen.table(&gates(&answer.gates))?;
    Ok(screen.line(format_args!("{id} {version} is in use"))?)
}

fn read(file: &PathBuf) -> Result<Value, Failure> {
    let shown = file.display();
    let told = |why: String| Failure::Usage(format!("{shown}: {why}"));
    let found = std::fs::metadata(file).map_err(|error| told(error.to_string()))?;
    if found.len() > MANIFEST_BYTES_MAX {
        return Err(told("a manifest has at most 1 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| told(format!("is not JSON: {error}")))
}

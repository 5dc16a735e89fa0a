//! `switchboard schema list`: what is published.

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use switchboard_wire::logist::schemas::SCHEMAS;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, cell};

/// List the published schemas
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard schema list")]
pub struct Args {}

pub fn run(_: Args, context: &mut Context) -> Result<(), Failure> {
    let screen = &mut context.screen;
    if screen.json() {
        let schemas = SCHEMAS.iter().map(|schema| {
            json!({ "name": schema.name, "version": schema.version, "about": schema.about })
        });
        return Ok(screen.value(&json!({ "schemas": schemas.collect::<Vec<Value>>() }))?);
    }
    let mut table = Table::new(["NAME", "VERSION", "DESCRIBES"], "no schemas");
    for schema in &SCHEMAS {
        table.row([cell(schema.name), cell(schema.version), cell(schema.about)]);
    }
    Ok(screen.table(&table)?)
}
